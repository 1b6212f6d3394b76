"""One process or several, started by torchrun: which rows are ours, which device, what is averaged and when."""

import os
from collections.abc import Iterable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from elmo.device import open_device
from elmo.errors import ConfigError
from elmo.nn.softmax import WordSoftmax


class Processes:
    """This process among those of a run; alone unless torchrun started it."""

    def __init__(self, device: str = "cpu") -> None:
        """Join the other processes, if any: by NCCL on GPUs, by gloo on CPUs."""
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        if device == "cuda" and self.count > 1:
            device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        self.device = open_device(device)
        self._joined = False
        if self.count > 1 and not dist.is_initialized():
            # The others wait while the first one validates, which may take longer than torch's default timeout.
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo", timeout=timedelta(days=1))
            self._joined = True

    @property
    def is_first(self) -> bool:
        """Whether this process writes and reports."""
        return self.rank == 0

    def share(self, num_rows: int) -> range:
        """Return the rows of the global batch that this process reads."""
        if num_rows % self.count:
            raise ConfigError(f"num_rows is {num_rows}; it must be a multiple of the {self.count} processes.")
        own = num_rows // self.count
        return range(self.rank * own, (self.rank + 1) * own)

    def wrap(self, objective: nn.Module, *, average_every: int) -> nn.Module:
        """Return the module with gradients averaged over processes, except sparse ones (see combine_sparse).

        With `average_every` above 1 it stays as it is: weights are averaged instead (see average_weights).
        """
        if self.count == 1 or average_every > 1:
            return objective
        sparse = [
            f"{name}.weight"
            for name, module in objective.named_modules()
            if isinstance(module, WordSoftmax) and module.sparse_gradient
        ]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(objective, sparse)  # type: ignore[no-untyped-call]
        return DistributedDataParallel(objective)

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            dist.barrier()

    def any(self, here: bool) -> bool:
        """Return whether `here` is true in any process; each calls this."""
        if self.count == 1:
            return here
        found = torch.tensor(int(here), device=self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return bool(found)

    def leave(self) -> None:
        """Leave the group of processes."""
        if self._joined:
            dist.destroy_process_group()


def own_rank() -> int:
    """Return the number of this process among those that train together."""
    return dist.get_rank() if dist.is_initialized() else 0


def combine_sparse(parameters: Iterable[nn.Parameter], *, averages: bool) -> None:
    """Sum the rows of sparse gradients that occur several times and, if `averages`, average over processes.

    DistributedDataParallel averages the dense ones.
    """
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            gradient = parameter.grad.coalesce()
            parameter.grad = _average_rows(gradient) if averages and dist.is_initialized() else gradient


def average_weights(parameters: Iterable[nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
    """Average the weights and what the optimizer knows of each over processes, so that all continue alike."""
    if not dist.is_initialized():
        return
    for parameter in parameters:
        own = [parameter.data, *optimizer.state[parameter].values()]
        for tensor in own:
            if isinstance(tensor, Tensor) and tensor.shape == parameter.shape:
                dist.all_reduce(tensor)
                tensor /= dist.get_world_size()


def _average_rows(gradient: Tensor) -> Tensor:
    """Return the mean of the gradients of all processes, over the rows that any of them touched."""
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
