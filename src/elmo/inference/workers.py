"""A thread pool for the cores of this process, and a lock that is always released in forked processes."""

import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from elmo.errors import ConfigError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

ResultT = TypeVar("ResultT")


def choose_num_threads() -> int:
    """Return the default number of threads: OMP_NUM_THREADS, or the number of cores available to this process."""
    requested = os.environ.get("OMP_NUM_THREADS", "")
    if requested.isdigit() and int(requested) > 0:
        return int(requested)
    from elmo.files.workers import count_cores  # imported here, because opening a model needs no processes

    return count_cores()


class Workers:
    """Runs tasks on `num_threads` threads, which all models with this number share."""

    def __init__(self, num_threads: int | None = None) -> None:
        """Use `num_threads` threads, by default one per core."""
        is_integer = isinstance(num_threads, int) and not isinstance(num_threads, bool)
        if num_threads is not None and (not is_integer or num_threads < 1):
            raise ConfigError(f"num_threads is {num_threads!r}; it must be a whole number of threads, 1 or more.")
        self.num_threads = num_threads or choose_num_threads()

    def run(self, tasks: Sequence[Callable[[], ResultT]]) -> list[ResultT]:
        """Return the results of all tasks, in order; a single task runs in the calling thread."""
        if self.num_threads == 1 or len(tasks) == 1:
            return [task() for task in tasks]
        pool = _open_pool(self.num_threads, os.getpid())
        return [future.result() for future in [pool.submit(task) for task in tasks]]


@functools.cache
def _open_pool(num_threads: int, process: int) -> "ThreadPoolExecutor":
    """Return the pool of a process: a forked process does not inherit the threads of its parent."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(num_threads, thread_name_prefix="elmo")


class ForkSafeLock:
    """A lock that is released in a forked process, where the thread that held it does not exist."""

    def __init__(self, after_held: Callable[[], None] = lambda: None) -> None:
        """`after_held` is called in a process that was forked while the lock was held."""
        self._lock, self._after_held = threading.Lock(), after_held
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def after_fork(self) -> None:
        """Replace the lock."""
        was_held, self._lock = self._lock.locked(), threading.Lock()
        if was_held:
            self._after_held()


_locks: WeakSet[ForkSafeLock] = WeakSet()


def _after_fork() -> None:
    for lock in list(_locks):
        lock.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
