"""Progress of training on stderr: a bar on a terminal or in a notebook, otherwise a line now and then."""

import time
from datetime import timedelta
from typing import Any

from elmo.progress import StatusBar


class TaskReport:
    """Reports on one or several runs; nothing is printed unless `shown`."""

    def __init__(self, *, shown: bool = False) -> None:
        self.run_name = ""  # begins every line
        self._shown, self._bar = shown, StatusBar(1, shown=shown)
        self._phase, self._started = "", time.monotonic()

    def __enter__(self) -> "TaskReport":
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)

    def say(self, line: str) -> None:
        """Print a line that stays above the bar."""
        if self._shown:
            self._bar.say(f"{self.run_name}{line}")

    def on_words(self, done: int, total: int) -> None:
        """Show how many words the biLM has encoded."""
        self._show("biLM layers", "words", done, total)

    def on_batch(self, epoch: int, done: int, total: int) -> None:
        """Show how many batches of an epoch are done."""
        self._show(f"epoch {epoch}", "batches", done, total)

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Print the scores of an epoch."""
        scores = ", ".join(f"{name} {value:.2f}" for name, value in record["dev"].items())
        best = ", the best so far" if record["best"] else ""
        seconds = time.monotonic() - self._started
        self.say(f"epoch {record['epoch']}: loss {record['loss']:.4f}, dev {scores}{best} ({seconds:.1f} s)")

    def _show(self, phase: str, unit: str, done: int, total: int) -> None:
        phase = f"{self.run_name}{phase}"
        if phase != self._phase:
            self._phase, self._started = phase, time.monotonic()
        seconds = (time.monotonic() - self._started) / max(1, done) * (total - done)
        left = timedelta(seconds=round(seconds))
        self._bar.show(done / max(1, total), f"{phase}: {done:,} of {total:,} {unit}, {left} left")
