"""The metrics of a run as JSON lines, and progress on stderr."""

import contextlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.errors import ElmoError
from elmo.files.durable import replace_file
from elmo.progress import StatusBar

if TYPE_CHECKING:
    from elmo.pretrain.loop import StepReport
    from elmo.pretrain.run import Run

METRICS_FILE = "metrics.jsonl"
_SMOOTHING = 0.95  # of the displayed losses, which vary widely between updates


def drop_metrics(run: Path, *, after: int) -> None:
    """Drop the metrics after the update from which a run resumes."""
    kept = [line for line in read_metrics(run) if line["update"] <= after]
    with _writing(run):
        replace_file(run / METRICS_FILE, "".join(f"{json.dumps(line)}\n" for line in kept).encode())


def append_metrics(run: Path, kind: str, update: int, values: Mapping[str, float]) -> None:
    """Append one line: "train" (sampled losses) or "validation" (full softmax)."""
    finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
    with _writing(run), (run / METRICS_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"kind": kind, "update": update, **finite}) + "\n")


def read_metrics(run: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run's metrics; skip a last line that a crash truncated."""
    path = run / METRICS_FILE
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            values = json.loads(line)
        except ValueError:
            continue
        yield values


@contextlib.contextmanager
def _writing(run: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ElmoError(
            f"The metrics of the run could not be written to {run} ({error.strerror or error}); its checkpoints "
            f"are complete, so make room and resume with --resume {run}."
        ) from error


class TrainingReport:
    """Shows the losses and the remaining time of a run in a status bar, and prints validations and checkpoints."""

    def __init__(self, run: "Run", bar: StatusBar) -> None:
        self._run, self._bar = run, bar
        self._loss_name = "sampled loss" if run.settings.num_samples else "loss"
        self._smoothed: dict[str, float] = {}
        self._start_updates, self._start_words = run.state.num_updates, run.state.num_words
        self._started = time.monotonic()
        if self._start_updates:
            bar.say(f"Resuming after update {self._start_updates:,} of {run.num_updates:,}.")

    def on_update(self, report: "StepReport") -> None:
        """Show the losses of an update, the rate and the remaining time."""
        loss = self._smooth(self._loss_name, (report.left_to_right_loss + report.right_to_left_loss) / 2)
        parts = [f"update {report.update:,} of {self._run.num_updates:,}", f"{self._loss_name} {loss:.3f}"]
        for name, value in report.auxiliary.items():
            parts.append(f"{name.replace('_', ' ')} {self._smooth(name, value):.3f}")
        seconds = max(1e-9, time.monotonic() - self._started)
        parts.append(f"{(report.num_words - self._start_words) / seconds:,.0f} words/s")
        seconds_per_update = seconds / (report.update - self._start_updates)
        remaining = timedelta(seconds=round((self._run.num_updates - report.update) * seconds_per_update))
        parts.append(f"{remaining} left" if report.update < self._run.num_updates else "validating and saving")
        self._bar.show(report.update, ", ".join(parts))

    def on_validation(self, update: int, values: Mapping[str, float]) -> None:
        """Print the perplexity on the validation text, and the metrics of the auxiliary objective."""
        self._bar.say(
            f"update {update:,}: validation perplexity (full softmax) {values['perplexity']:.2f} "
            f"(left to right {values['left_to_right_perplexity']:.2f}, right to left "
            f"{values['right_to_left_perplexity']:.2f}, {values['unknown_rate']:.2%} unknown)"
            + "".join(f"; {name.replace('_', ' ')} {values[name]:.4f}" for name in values if name.endswith("cosine"))
        )

    def on_checkpoint(self, folder: Path) -> None:
        """Print where a checkpoint was saved."""
        self._bar.say(f"saved {folder}")

    def _smooth(self, name: str, value: float) -> float:
        before = self._smoothed.get(name, value)
        self._smoothed[name] = _SMOOTHING * before + (1 - _SMOOTHING) * value
        return self._smoothed[name]
