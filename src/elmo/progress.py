"""Progress of long tasks on stderr: a bar with rate and remaining time, shown after two seconds.

The bar appears on a terminal and in a notebook (rich draws both); elsewhere a line is printed from time to time.
"""

import importlib.util
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from elmo.language import translate

if TYPE_CHECKING:
    from rich.progress import Progress

SECONDS_BEFORE_SHOWN = 2.0
SECONDS_BETWEEN_LINES = 25.0  # without a terminal or notebook


class Advance(Protocol):
    """The function that reports finished work to a progress bar."""

    def __call__(self, size: int, num_pieces: int = 1) -> None:
        """Report `num_pieces` finished pieces of work, which took `size` bytes of input."""
        ...


class StatusBar:
    """A progress bar with a status, or the status as a log line from time to time; nothing if not `shown`."""

    def __init__(self, total: float | None = None, *, shown: bool = True) -> None:
        self._total, self._shown, self._status = total, shown, "starting"
        self._bar: Progress | None = None
        self._stopped = threading.Event()
        self._log: threading.Thread | None = None

    def __enter__(self) -> "StatusBar":
        self._started = time.monotonic()
        if self._shown and not can_draw():  # a thread, because one step may take long
            self._log = threading.Thread(target=self._print_lines, name="progress-log", daemon=True)
            self._log.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._bar is not None:
            self._bar.stop()
        if self._log is not None:
            self._log.join()

    def show(self, completed: float, status: str) -> None:
        """Update the status; `completed` has the unit of `total`."""
        self._status = status
        if not self._shown or self._log is not None:
            return
        if self._bar is None:
            if time.monotonic() - self._started < SECONDS_BEFORE_SHOWN:
                return
            self._bar = _draw(self._total)
        self._bar.update(self._bar.task_ids[0], completed=completed, status=status)

    def say(self, line: str) -> None:
        """Print a permanent line above the bar."""
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)  # noqa: T201

    def _print_lines(self) -> None:
        while not self._stopped.wait(SECONDS_BETWEEN_LINES):
            elapsed = timedelta(seconds=round(time.monotonic() - self._started))
            self.say(f"{self._status} (after {elapsed})")


@contextmanager
def progress_bar(*, unit: str, num_bytes: int | None, prints: bool = False, shown: bool = True) -> Iterator[Advance]:
    """Show the progress of work that is measured by the bytes of its input; yield the function that reports it.

    `unit` is the plural name of the pieces; `prints` means that results go to stdout as they are computed.
    """
    if not shown:
        yield lambda size, num_pieces=1: None
        return
    # A bar between lines of results on one terminal would make both unreadable.
    mixed = prints and sys.stderr.isatty() and sys.stdout.isatty()
    started, done, done_bytes = time.monotonic(), 0, 0
    with StatusBar(num_bytes, shown=not mixed) as bar:

        def advance(size: int, num_pieces: int = 1) -> None:
            nonlocal done, done_bytes
            done, done_bytes = done + num_pieces, done_bytes + size
            elapsed_seconds = max(1e-9, time.monotonic() - started)
            bar.show(done_bytes, describe(done, unit, elapsed_seconds, done_bytes, num_bytes))

        yield advance


def describe(done: int, unit: str, elapsed_seconds: float, done_bytes: int, num_bytes: int | None) -> str:
    """Return the count, the rate and, if the amount of input is known, the remaining time at that rate."""
    text = f"{done:,} {translate(unit)}, {done / elapsed_seconds:,.0f}/s"
    if num_bytes is None or not done_bytes:
        return text
    left = timedelta(seconds=round(elapsed_seconds / done_bytes * max(0, num_bytes - done_bytes)))
    return f"{text}, {translate(f'{left} left')}"


def can_draw() -> bool:
    """Return whether a bar can be drawn: on a terminal, or in a notebook that has ipywidgets."""
    if sys.stderr.isatty():
        return True
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    # rich draws in a notebook through ipywidgets, and draws nothing without them.
    return type(shell).__name__ == "ZMQInteractiveShell" and importlib.util.find_spec("ipywidgets") is not None


def _draw(total: float | None) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.fields[status]}", markup=False))
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("", total=total, status="")
    bar.start()
    return bar
