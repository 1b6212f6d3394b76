"""What a person sees of a training run: words per second, what is left, losses named for what they are."""

import sys
import time
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from elmo.progress import PeriodicLines

if TYPE_CHECKING:
    from rich.progress import Progress

    from elmo.inference.scoring import Evaluation
    from elmo.pretrain.loop import StepReport
    from elmo.pretrain.run import Watcher


class TrainingReport:
    """A bar on a terminal, else a line at least every 30 seconds; validations and checkpoints always."""

    def __init__(self, num_updates: int, *, is_sampled: bool, is_shown: bool) -> None:
        self._num_updates, self._is_shown = num_updates, is_shown
        self._loss_name = "sampled loss" if is_sampled else "loss"
        self._bar: Progress | None = None
        self._lines: PeriodicLines | None = None
        self._loss: float | None = None
        self._cosine: float | None = None
        self._last: Evaluation | None = None
        self._words = self._start_words = self._start_updates = 0
        self._started = time.monotonic()

    def __enter__(self) -> "TrainingReport":
        if self._is_shown and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(), TextColumn("{task.fields[status]}", markup=False))
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task("", total=self._num_updates, status="")
            self._bar.start()
        elif self._is_shown:
            self._lines = PeriodicLines(self._say).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._lines is not None:
            self._lines.__exit__()

    def watcher(self, done_updates: int, done_words: int) -> "Watcher":
        """Give what a run that has done so much already is to call."""
        from elmo.pretrain.run import Watcher

        self._start_updates = done_updates
        self._start_words = self._words = done_words
        self._started = time.monotonic()
        if done_updates and self._is_shown:
            self._say(f"Going on after update {done_updates:,} of {self._num_updates:,}.")
        return Watcher(self._on_update, self._on_validation, self._on_checkpoint)

    def summary(self) -> str:
        """Say how the run ended."""
        text = f"{self._words:,} words read."
        if self._last is not None:
            text += f" Validation perplexity (full softmax) {self._last.perplexity:.2f}."
        return text

    def _on_update(self, report: "StepReport") -> None:
        loss = (report.left_to_right_loss + report.right_to_left_loss) / 2
        # A mean over the last updates: single ones jump.
        self._loss = loss if self._loss is None else 0.95 * self._loss + 0.05 * loss
        if report.teacher_cosine is not None:
            before = report.teacher_cosine if self._cosine is None else self._cosine
            self._cosine = 0.95 * before + 0.05 * report.teacher_cosine
        taught = "" if self._cosine is None else f"cosine with the teacher {self._cosine:.3f}, "
        self._words = report.num_words
        now = time.monotonic()
        seconds = max(1e-9, now - self._started)
        rate = (self._words - self._start_words) / seconds
        seconds_per_update = seconds / (report.update - self._start_updates)
        seconds_left = round((self._num_updates - report.update) * seconds_per_update)
        is_last = report.update == self._num_updates
        left = "validating and saving" if is_last else f"{timedelta(seconds=seconds_left)} left"
        status = (
            f"update {report.update:,} of {self._num_updates:,}, {self._loss_name} {self._loss:.3f}, {taught}"
            f"{rate:,.0f} words/s, {left}"
        )
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=report.update, status=status)
        elif self._lines is not None:
            self._lines.set(status)

    def _on_validation(self, update: int, evaluation: "Evaluation", cosine: float | None) -> None:
        self._last = evaluation
        taught = "" if cosine is None else f"; cosine with the teacher {cosine:.4f}"
        self._say(
            f"update {update:,}: validation perplexity (full softmax) {evaluation.perplexity:.2f} "
            f"(left to right {evaluation.left_to_right_perplexity:.2f}, right to left "
            f"{evaluation.right_to_left_perplexity:.2f}, {evaluation.unknown_rate:.2%} unknown){taught}"
        )

    def _on_checkpoint(self, folder: Path) -> None:
        self._say(f"saved {folder}")

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)
