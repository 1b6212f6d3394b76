"""Run function calls in worker subprocesses or on a Ray cluster.

The processes share nothing with this one, not even its main module. They start fast, do not import torch unless a
call needs it, and work the same in a script, a notebook or a thread. If a process dies, the cause is reported.
"""

import itertools
import logging
import os
import pickle
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from elmo.errors import ElmoError, InputError, first_line
from elmo.extras import require

Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]  # (function, args)

logger = logging.getLogger(__name__)

_ATTEMPTS = 3  # for a call whose worker dies
_RAY_CONNECTION_SECONDS = 10
_WORKER_CODE = "import sys; sys.path[:] = sys.argv[1:]; from elmo.files.workers import serve; serve()"


class _DeathError(Exception):
    """A worker process ended in the middle of a call; the message is the cause."""


class Workers:
    """Up to `num_workers` processes, started on demand for one run. One worker means the current process.

    If a process dies, a new process repeats its call, a few times at most.
    """

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self._free: list[_Worker] = []
        self._started: list[_Worker] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def run(self, calls: Iterable[Call]) -> Generator[Any, None, None]:
        """Yield the results in order of completion; `calls` is consumed lazily, at most `num_workers + 1` ahead."""
        if self.num_workers == 1:
            for function, arguments in calls:
                yield function(*arguments)
            return
        waiting = iter(calls)
        pending: set[Future[Any]] = set()
        with ThreadPoolExecutor(self.num_workers) as threads:
            try:
                while True:
                    for call in itertools.islice(waiting, self.num_workers + 1 - len(pending)):
                        pending.add(threads.submit(self._work, call))
                    if not pending:
                        return
                    finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in finished:
                        yield future.result()
            finally:
                # Killing the processes unblocks the running threads; queued tasks then fail because the pool is closed.
                self._close()

    def _work(self, call: Call) -> Any:
        for attempt in itertools.count(1):
            worker = self._acquire_worker()
            try:
                result = worker.work(call)
            except _DeathError as cause:
                if attempt == _ATTEMPTS or self._is_closed:
                    raise ElmoError(
                        f"A worker process died ({cause}); the finished parts are kept, so run the same command "
                        "again, with fewer workers if memory is short."
                    ) from cause
                logger.warning("A worker process died (%s); retrying in a new process.", cause)
            else:
                self._free.append(worker)
                return result

    def _acquire_worker(self) -> "_Worker":
        with self._lock:
            if self._is_closed:
                raise ElmoError("The work was stopped.")
            if self._free:
                return self._free.pop()
            self._started.append(_Worker())
            return self._started[-1]

    def _close(self) -> None:
        """Kill all processes and start no others."""
        with self._lock:
            self._is_closed = True
        for worker in self._started:
            worker.close()


class _Worker:
    """A worker process, connected by pipes to its stdin and stdout."""

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORKER_CODE, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # Ctrl-C reaches only this process, which then ends its workers
        )

    def work(self, call: Call) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            pickle.dump(call, stdin, pickle.HIGHEST_PROTOCOL)
            stdin.flush()
            result, error = pickle.load(stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as death:
            raise _DeathError(self._describe_death()) from death
        if error is not None:
            raise error
        return result

    def _describe_death(self) -> str:
        code = self._process.wait()
        self._stderr.seek(0)
        last_line = self._stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        if code >= 0:
            return f"exit code {code}" + (f": {last_line}" if last_line else "")
        reason = ", perhaps because memory ran out" if -code == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{reason}"

    def close(self) -> None:
        self._process.kill()
        with suppress(OSError), self._process:  # unflushed data for a dead process
            pass
        self._stderr.close()


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve() -> None:
    """Read calls from standard input and write their results to standard output until the calling process ends."""
    calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
    # Redirect stdout to stderr so that library output cannot corrupt the pickle stream.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def receive() -> None:
        try:
            while True:
                calls.put(pickle.load(sys.stdin.buffer))
        except Exception:  # an EOFError if the calling process has ended
            traceback.print_exc()
        os._exit(1)

    threading.Thread(target=receive, daemon=True).start()
    while True:
        function, arguments = calls.get()
        outcome: tuple[Any, Exception | None]
        try:
            outcome = function(*arguments), None
        except (ElmoError, OSError) as error:
            outcome = None, error
        except Exception:
            outcome = None, RuntimeError(f"a worker process failed:\n{traceback.format_exc()}")
        pickle.dump(outcome, results, pickle.HIGHEST_PROTOCOL)
        results.flush()


@contextmanager
def connect_to_ray(address: str | None) -> Iterator[Any]:
    """Yield the module ray, connected to a cluster; InputError if there is none at `address` or on this machine.

    None stands for a cluster that is started on this machine.
    """
    ray = require("ray", "ray", "The engine ray")
    if ray.is_initialized():  # the caller is connected already
        yield ray
        return
    try:
        if match := re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address or ""):  # `ray.init` can block for minutes
            socket.create_connection((match[1], int(match[2])), timeout=_RAY_CONNECTION_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except Exception as error:  # a node that is slow to start is a bare Exception
        place = "No Ray cluster could be started here" if address is None else f"No Ray cluster answers at {address!r}"
        raise InputError(f"{place} ({first_line(error)}); start one with: ray start --head") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def run_on_ray(
    ray: Any, calls: Iterable[Call], *, num_workers: int, num_cpus: int, num_gpus: int
) -> Generator[Any, None, None]:
    """Yield the results of calls on a Ray cluster in order of completion; each worker has one call at a time.

    Ray restarts a worker that dies, elsewhere if necessary, and repeats its call. All machines must see the files
    of a call under the same names.
    """
    actor_type = ray.remote(_RayWorker).options(
        max_restarts=-1, max_task_retries=_ATTEMPTS, num_cpus=num_cpus, num_gpus=num_gpus
    )
    waiting = iter(calls)
    actors = [actor_type.remote() for _ in range(num_workers)]
    pool = ray.util.ActorPool(actors)
    try:
        while True:
            while pool.has_free() and (call := next(waiting, None)) is not None:
                pool.submit(lambda actor, call: actor.work.remote(call), call)
            if not pool.has_next():
                return
            yield pool.get_next_unordered()
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ElmoError | OSError):
            raise error.cause from error
        raise
    except ray.exceptions.RayActorError as error:
        raise ElmoError(
            f"A Ray worker died and could not be replaced ({first_line(error)}); the finished parts are kept, so run "
            "the same command again."
        ) from error
    finally:
        for actor in actors:
            ray.kill(actor)


class _RayWorker:
    def work(self, call: Call) -> Any:
        function, arguments = call
        return function(*arguments)
