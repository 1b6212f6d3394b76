"""Calls of functions -> their results, computed by several fresh Python processes.

The processes share nothing with this one, not even its main module, so that they start fast, import no
torch, and work the same in a script, a notebook or a thread. One that dies is told with its cause.
"""

import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, TypeAlias

from elmo.errors import ElmoError

Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]  # the function is also given `report` at the end
Report: TypeAlias = Callable[[int, int], None]

logger = logging.getLogger(__name__)

_START = "import sys; sys.path[:] = sys.argv[1:]; from elmo.corpus.workers import serve; serve()"


class WorkerDiedError(ElmoError):
    """A process ended in the middle of a call."""

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"A worker process died ({cause}); the finished parts are kept, so run the same command again, with "
            "fewer workers if memory is short."
        )
        self.cause = cause


class Workers:
    """Up to `num_workers` processes, started when there is work; with 1, the calling process does it all.

    A call whose process dies is made again by a new one, up to `attempts` times in all.
    """

    def __init__(self, num_workers: int, *, attempts: int = 1) -> None:
        self.num_workers, self._attempts = num_workers, attempts
        self._free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._started: list[_Worker] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, calls: Iterable[Call], report: Report) -> Iterator[Any]:
        """Give the results as they come, in any order; few calls are held ready, however many there are."""
        if self.num_workers == 1:
            for function, arguments in calls:
                yield function(*arguments, report)
            return
        pending: set[Future[Any]] = set()
        with ThreadPoolExecutor(self.num_workers) as threads:
            try:
                for call in calls:
                    pending.add(threads.submit(self._work, call, report))
                    while len(pending) > self.num_workers:
                        finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                        for future in finished:
                            yield future.result()
                while pending:
                    finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in finished:
                        yield future.result()
            except BaseException:
                # Without their processes the threads end at once; those not begun find us closed.
                self.close()
                raise

    def _work(self, call: Call, report: Report) -> Any:
        for attempt in range(1, self._attempts + 1):
            worker = self._take()
            try:
                result = worker.work(call, report)
            except WorkerDiedError as death:
                if attempt == self._attempts or self._is_closed:
                    raise
                logger.warning("A worker process died (%s); a new one does its part again.", death.cause)
            else:
                self._free.put(worker)
                return result
        raise AssertionError

    def _take(self) -> "_Worker":
        try:
            return self._free.get_nowait()
        except queue.Empty:
            with self._lock:
                if self._is_closed:
                    raise ElmoError("The work was stopped.") from None
                worker = _Worker()
                self._started.append(worker)
                return worker

    def close(self) -> None:
        """End all processes, whatever they are doing."""
        with self._lock:
            self._is_closed = True
        for worker in self._started:
            worker.close()


class _Worker:
    """One process at the other end of two pipes."""

    def __init__(self) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends its workers
        )

    def work(self, call: Call, report: Report) -> Any:
        sent, received = self._process.stdin, self._process.stdout
        assert sent is not None and received is not None
        try:
            pickle.dump(call, sent, pickle.HIGHEST_PROTOCOL)
            sent.flush()
            while True:
                kind, value = pickle.load(received)
                if kind == "report":
                    report(*value)
                elif kind == "result":
                    return value
                else:
                    raise value
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            raise WorkerDiedError(self._describe_death()) from error

    def _describe_death(self) -> str:
        code = self._process.wait()
        self._complaints.seek(0)
        complaint = self._complaints.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        if code < 0:
            cause = f"killed by {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                cause += ", perhaps since memory ran out"
        else:
            cause = f"exit code {code}" + (f": {complaint}" if complaint else "")
        return cause

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._complaints):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # what was still to be sent has no reader any more
                continue


def serve() -> None:
    """Be a worker: read calls from standard input and write what they give, until the input ends."""
    received = sys.stdin.buffer
    # Whatever a library prints must not come between the answers.
    sent = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def send(kind: str, value: Any) -> None:
        pickle.dump((kind, value), sent, pickle.HIGHEST_PROTOCOL)
        sent.flush()

    while True:
        try:
            function, arguments = pickle.load(received)
        except EOFError:
            return
        try:
            result = function(*arguments, lambda *done: send("report", done))
        except BrokenPipeError:
            return  # nobody waits for the result any more
        except (ElmoError, OSError) as error:
            send("error", error)
        except Exception:
            send("error", RuntimeError(f"a worker process failed:\n{traceback.format_exc()}"))
        else:
            send("result", result)
