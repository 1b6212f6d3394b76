"""Training in one process or, with torchrun, in several: their rows, devices and communication."""

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from elmo.device import open_device
from elmo.errors import ConfigError


class Processes:
    """The processes of a run, and the rank of this one; a single process unless torchrun started it."""

    def __init__(self, device: str = "cpu") -> None:
        """Join the process group, if there is one: with NCCL on GPUs, gloo on CPUs."""
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        if device == "cuda" and self.count > 1:
            device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        self.device = open_device(device)
        if self.count > 1 and not dist.is_initialized():
            # The others wait while the first one validates, which may take longer than torch's default timeout.
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo", timeout=timedelta(days=1))

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def share(self, num_rows: int) -> range:
        """Return the rows of the global batch that this process reads."""
        if num_rows % self.count:
            raise ConfigError(f"num_rows is {num_rows}; it must be a multiple of the {self.count} processes.")
        rows_per_process = num_rows // self.count
        return range(self.rank * rows_per_process, (self.rank + 1) * rows_per_process)

    def wait(self) -> None:
        """Wait for all processes (a barrier)."""
        if self.count > 1:
            dist.barrier()

    def any(self, flag: bool) -> bool:
        """Return whether the flag is true in any process; all processes call this."""
        if self.count == 1:
            return flag
        maximum = torch.tensor(int(flag), device=self.device)
        dist.all_reduce(maximum, dist.ReduceOp.MAX)
        return bool(maximum)

    def broadcast(self, parameters: Iterable[nn.Parameter]) -> None:
        """Copy the weights of the first process to all others."""
        for parameter in parameters if self.count > 1 else ():
            dist.broadcast(parameter.data, 0)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes, in order of rank; all processes call this."""
        values = [value] * self.count
        if self.count > 1:
            dist.all_gather_object(values, value)
        return values

    def add(self, values: Tensor) -> None:
        """Replace values by their sum over all processes."""
        if self.count > 1:
            dist.all_reduce(values)

    def combine_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Coalesce sparse gradients, and average all gradients over the processes."""
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is not None and gradient.is_sparse:
                gradient = gradient.coalesce()
                parameter.grad = _average_rows(gradient) if self.count > 1 else gradient
            elif gradient is not None and self.count > 1:
                dist.all_reduce(gradient)
                gradient /= self.count

    def leave(self) -> None:
        """Leave the process group."""
        if dist.is_initialized():
            dist.destroy_process_group()


def _average_rows(gradient: Tensor) -> Tensor:
    """Return the mean over processes of a sparse gradient, on the rows that any process has."""
    (own_rows,), own_values = gradient.indices(), gradient.values()
    has_row = torch.zeros(gradient.shape[0], dtype=torch.uint8, device=gradient.device)
    has_row[own_rows] = 1
    dist.all_reduce(has_row, dist.ReduceOp.MAX)
    rows = has_row.nonzero()[:, 0]
    values = own_values.new_zeros(len(rows), *own_values.shape[1:])
    values[torch.searchsorted(rows, own_rows)] = own_values
    dist.all_reduce(values)
    values /= dist.get_world_size()
    return torch.sparse_coo_tensor(rows[None], values, gradient.shape, is_coalesced=True, check_invariants=False)
