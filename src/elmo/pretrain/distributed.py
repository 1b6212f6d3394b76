"""One process or many: which rows are ours, where the network is, how gradients meet. Started by torchrun."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from elmo.errors import ConfigError
from elmo.inference.precision import open_device
from elmo.nn.softmax import WordSoftmax
from elmo.pretrain.objective import Objective


class Processes:
    """This process among those of a run; alone unless torchrun started it."""

    def __init__(self, device: str = "cpu") -> None:
        """Join the others where there are any: by NCCL on GPUs, by gloo on CPUs."""
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        if device == "cuda" and self.count > 1:
            device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        self.device = open_device(device)
        self._joined = False
        if self.count > 1 and not dist.is_initialized():
            # The others wait while the first one validates, which may take longer than torch's own limit.
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo", timeout=timedelta(days=1))
            self._joined = True

    @property
    def is_first(self) -> bool:
        """Whether this process writes and reports."""
        return self.rank == 0

    def share(self, num_rows: int) -> range:
        """Give the rows of the global batch that this process reads."""
        if num_rows % self.count:
            raise ConfigError(f"num_rows is {num_rows}; it must be a multiple of the {self.count} processes.")
        own = num_rows // self.count
        return range(self.rank * own, (self.rank + 1) * own)

    def wrap(self, objective: Objective) -> nn.Module:
        """Let gradients be averaged over the processes, except sparse ones (see gradients.average_sparse)."""
        if self.count == 1:
            return objective
        sparse = [
            f"{name}.weight"
            for name, module in objective.named_modules()
            if isinstance(module, WordSoftmax) and module.sparse_gradient
        ]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(objective, sparse)  # type: ignore[no-untyped-call]
        return DistributedDataParallel(objective)

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.count > 1:
            dist.barrier()

    def any(self, here: bool) -> bool:
        """Whether it is true in any process; each calls this."""
        if self.count == 1:
            return here
        found = torch.tensor(int(here), device=self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return bool(found)

    def leave(self) -> None:
        """Part from the others at the end."""
        if self._joined:
            dist.destroy_process_group()
