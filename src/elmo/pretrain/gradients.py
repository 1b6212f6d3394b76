"""Gradients between the way back and the update: sparse ones meet here, and all are clipped by their norm."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def average_sparse(parameters: Iterable[nn.Parameter]) -> None:
    """Average sparse gradients over the processes, each row once; DistributedDataParallel does the dense ones."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            gradient = parameter.grad.coalesce()
            parameter.grad = _average_rows(gradient) if dist.is_initialized() else gradient


def _average_rows(gradient: Tensor) -> Tensor:
    """Give the mean of all processes' gradients, over the rows that any of them touched."""
    (own_rows,), own_values = gradient.indices(), gradient.values()
    touched = torch.zeros(gradient.shape[0], dtype=torch.uint8, device=gradient.device)
    touched[own_rows] = 1
    dist.all_reduce(touched, dist.ReduceOp.MAX)
    rows = touched.nonzero()[:, 0]
    values = own_values.new_zeros(len(rows), *own_values.shape[1:])
    values[torch.searchsorted(rows, own_rows)] = own_values
    dist.all_reduce(values)
    values /= dist.get_world_size()
    return torch.sparse_coo_tensor(rows[None], values, gradient.shape, is_coalesced=True, check_invariants=False)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Scale all gradients down where their common norm is above `max_norm`; give the norm they had."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    values = [gradient.values() if gradient.is_sparse else gradient for gradient in gradients]
    norm = float(nn.utils.get_total_norm(values))
    if norm > max_norm:
        torch._foreach_mul_(values, max_norm / norm)
    return norm
