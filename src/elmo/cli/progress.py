"""A bar on stderr with rate and remaining time, for a person who has waited two seconds already."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress

SECONDS_BEFORE_SHOWN = 2.0
SECONDS_BETWEEN_LINES = 25.0  # without a terminal


class Advance(Protocol):
    """What is to be called as the work goes on."""

    def __call__(self, size: int, num_pieces: int = 1) -> None:
        """Say that so many pieces of work are done, which took `size` bytes of input."""
        ...


class PeriodicLines:
    """Lines on stderr for a log: the last status at least every 30 seconds, however long a step takes."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print_line = print_line
        self._status = "starting"
        self._started = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="periodic-lines", daemon=True)

    def __enter__(self) -> "PeriodicLines":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def set(self, status: str) -> None:
        """Say what the next line is to say."""
        self._status = status

    def _run(self) -> None:
        while not self._stopped.wait(SECONDS_BETWEEN_LINES):
            elapsed = timedelta(seconds=round(time.monotonic() - self._started))
            self._print_line(f"{self._status} (after {elapsed})")


@contextmanager
def progress_bar(*, unit: str, num_bytes: int | None, prints: bool) -> Iterator[Advance]:
    """Give what is to be called after each piece of work with the bytes of input it took.

    `unit` is what the pieces are called; `prints` says that the results go to stdout as they come.
    """
    # A bar between lines of results on one terminal would make both unreadable.
    if sys.stderr.isatty() and prints and sys.stdout.isatty():
        yield lambda size, num_pieces=1: None
        return
    if not sys.stderr.isatty():
        with PeriodicLines(lambda line: print(line, file=sys.stderr, flush=True)) as lines:
            yield _LoggedWork(unit, num_bytes, lines).advance
        return
    bar = _LateBar(unit, num_bytes)
    try:
        yield bar.advance
    finally:
        bar.stop()


class _LoggedWork:
    def __init__(self, unit: str, num_bytes: int | None, lines: PeriodicLines) -> None:
        self._unit, self._num_bytes, self._lines = unit, num_bytes, lines
        self._started = time.monotonic()
        self._done = self._done_bytes = 0

    def advance(self, size: int, num_pieces: int = 1) -> None:
        self._done += num_pieces
        self._done_bytes += size
        seconds = max(1e-9, time.monotonic() - self._started)
        self._lines.set(describe(self._done, self._unit, seconds, self._done_bytes, self._num_bytes))


class _LateBar:
    def __init__(self, unit: str, num_bytes: int | None) -> None:
        self._unit, self._num_bytes = unit, num_bytes
        self._started = time.monotonic()
        self._done = self._done_bytes = 0
        self._shown: Progress | None = None

    def advance(self, size: int, num_pieces: int = 1) -> None:
        self._done += num_pieces
        self._done_bytes += size
        elapsed_seconds = time.monotonic() - self._started
        if elapsed_seconds < SECONDS_BEFORE_SHOWN:
            return
        if self._shown is None:
            self._shown = self._show()
        status = describe(self._done, self._unit, elapsed_seconds, self._done_bytes, self._num_bytes)
        self._shown.update(self._shown.task_ids[0], completed=self._done_bytes, status=status)

    def stop(self) -> None:
        if self._shown is not None:
            self._shown.stop()

    def _show(self) -> "Progress":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (BarColumn(), TextColumn("{task.fields[status]}", markup=False))
        shown = Progress(*columns, console=Console(stderr=True), transient=True)
        shown.add_task("", total=self._num_bytes, status="")
        shown.start()
        return shown


def describe(done: int, unit: str, elapsed_seconds: float, done_bytes: int, num_bytes: int | None) -> str:
    """Say how much is done, how fast, and how long the rest takes if it is like what was done."""
    text = f"{done:,} {unit}, {done / elapsed_seconds:,.0f}/s"
    if num_bytes is None or not done_bytes:
        return text
    left = timedelta(seconds=round(elapsed_seconds / done_bytes * max(0, num_bytes - done_bytes)))
    return f"{text}, {left} left"
