"""What a person sees while a task is trained: words read, epochs, scores, and how long the rest takes."""

import sys
import time
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

from elmo.progress import PeriodicLines

if TYPE_CHECKING:
    from rich.progress import Progress

    from elmo.tasks.fit import Watcher


class TaskReport:
    """A bar on a terminal, else a line at least every 30 seconds; the scores of epochs always."""

    def __init__(self, num_epochs: int) -> None:
        self._num_epochs = num_epochs
        self._bar: Progress | None = None
        self._lines: PeriodicLines | None = None
        self._started = time.monotonic()
        self._epoch = 0
        self._name = ""

    def __enter__(self) -> "TaskReport":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(), TextColumn("{task.fields[status]}", markup=False))
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task("", total=1, status="")
            self._bar.start()
        else:
            self._lines = PeriodicLines(self.say).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._lines is not None:
            self._lines.__exit__()

    def watcher(self) -> "Watcher":
        """Give what training is to call."""
        from elmo.tasks.fit import Watcher

        return Watcher(self._on_batch, self._on_epoch)

    def on_run(self, name: str, number: int, total: int) -> "Watcher":
        """Tell which run of a comparison begins, and give what it is to call."""
        self._name, self._epoch = f"{name} ({number} of {total}), ", 0
        return self.watcher()

    def on_words(self, done: int, total: int) -> None:
        """Tell how many words the frozen biLM has read."""
        if self._epoch >= 0:
            self._epoch, self._started = -1, time.monotonic()
        self._show(done, total, "biLM layers: {done:,} of {total:,} words, {left} left")

    def say(self, line: str) -> None:
        """Print a line beside the bar."""
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def _on_batch(self, epoch: int, done: int, total: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._started = epoch, time.monotonic()
        name = f"{self._name}epoch {epoch} of at most {self._num_epochs}"
        self._show(done, total, name + ": batch {done:,} of {total:,}, {left} left in it")

    def _on_epoch(self, record: dict[str, Any]) -> None:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in record["dev"].items())
        best = ", the best so far" if record["best"] else ""
        seconds = time.monotonic() - self._started
        at_most = timedelta(seconds=round(seconds * (self._num_epochs - record["epoch"])))
        self.say(
            f"{self._name}epoch {record['epoch']}: loss {record['loss']:.4f}, dev {listed}{best} "
            f"({seconds:.1f} s; at most {at_most} more)"
        )

    def _show(self, done: int, total: int, text: str) -> None:
        now = time.monotonic()
        left = timedelta(seconds=round((now - self._started) / max(1, done) * (total - done)))
        status = text.format(done=done, total=total, left=left)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done / max(1, total), status=status)
        elif self._lines is not None:
            self._lines.set(status)
