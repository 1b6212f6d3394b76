"""A few threads that share the cores between them.

Tasks in torch operations: two threads with half of the cores each, which need not wait for one another at every
multiplication, as two cores on one task do. Tasks in compiled kernels: as many threads as cores, one core each.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from elmo.errors import ConfigError

ResultT = TypeVar("ResultT")
MAX_WORKERS = 2  # of torch operations: as many as a language model has directions
_setting_threads = threading.Lock()


class Workers:
    """Runs tasks without gradients on `num_threads` cores together."""

    def __init__(
        self, num_threads: int | None = None, *, inline: bool = False, one_core_each: bool = False
    ) -> None:
        """Without a number, as many threads as torch uses; `inline` runs the tasks where they come from.

        `one_core_each`: for tasks that use no more than the thread they run in.
        """
        whole = isinstance(num_threads, int) and not isinstance(num_threads, bool)
        if num_threads is not None and (not whole or num_threads < 1):
            raise ConfigError(f"num_threads is {num_threads!r}; it must be a whole number of threads, 1 or more.")
        self.num_threads = num_threads or torch.get_num_threads()
        self._inline = inline
        self._one_core_each = one_core_each
        self.num_workers = (
            1 if inline else self.num_threads if one_core_each else min(MAX_WORKERS, self.num_threads)
        )
        self._pool: ThreadPoolExecutor | None = None
        self._process: int | None = None
        self._starting = threading.Lock()

    def __getstate__(self) -> dict[str, int]:
        return {
            "num_threads": self.num_threads,
            "inline": self._inline,
            "one_core_each": self._one_core_each,
        }

    def __setstate__(self, arguments: dict[str, Any]) -> None:
        Workers.__init__(self, **arguments)

    def run(self, tasks: Sequence[Callable[[], ResultT]]) -> list[ResultT]:
        """Return the results of all tasks, in their order."""
        if self._inline:
            return [_run_task(task) for task in tasks]
        pool = self._open_pool()
        return [future.result() for future in [pool.submit(_run_task, task) for task in tasks]]

    def _open_pool(self) -> ThreadPoolExecutor:
        with self._starting:
            # A forked process has no threads but its own.
            if self._pool is None or self._process != os.getpid():
                self._pool = ThreadPoolExecutor(
                    self.num_workers,
                    thread_name_prefix="elmo",
                    initializer=_set_own_threads,
                    initargs=(self.num_threads // self.num_workers,),
                )
                self._process = os.getpid()
                # All are started now: setting their threads touches, for a moment, what new threads begin with.
                together = threading.Barrier(self.num_workers)
                list(self._pool.map(lambda _: together.wait(), range(self.num_workers)))
            return self._pool


@torch.inference_mode()
def _run_task(task: Callable[[], Any]) -> Any:
    return task()


def _set_own_threads(num_threads: int) -> None:
    """Set how many threads torch uses in this thread; later ones get what they would have got without it."""
    with _setting_threads:
        usual = torch.get_num_threads()
        torch.set_num_threads(num_threads)
        restoring = threading.Thread(target=torch.set_num_threads, args=(usual,))
        restoring.start()
        restoring.join()
