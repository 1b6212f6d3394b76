"""The numbers of a run as JSON lines, and as TensorBoard events where it is installed."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

METRICS_FILE, TENSORBOARD_FOLDER = "metrics.jsonl", "tensorboard"


class MetricsWriter:
    """Appends to a run's metrics; lines of updates after the one resumed from are dropped first."""

    def __init__(self, run: Path, *, resumed_at: int = 0) -> None:
        self._path = run / METRICS_FILE
        kept = [line for line in read_metrics(run) if line["update"] <= resumed_at]
        aside = self._path.with_suffix(".aside")
        aside.write_text("".join(f"{json.dumps(line)}\n" for line in kept), encoding="utf-8")
        aside.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8")
        self._board = _open_tensorboard(run / TENSORBOARD_FOLDER, resumed_at)

    def write(self, kind: str, update: int, values: dict[str, float]) -> None:
        """Add one line: "train" (sampled losses) or "validation" (full softmax)."""
        shown = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._file.write(json.dumps({"kind": kind, "update": update, **shown}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, update)

    def close(self) -> None:
        """Finish the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_metrics(run: Path) -> Iterator[dict[str, Any]]:
    """Give the lines of a run's metrics; a last line cut off by a crash is left out."""
    path = run / METRICS_FILE
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _open_tensorboard(folder: Path, resumed_at: int) -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # where TensorFlow is installed, TensorBoard wakes it
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=resumed_at + 1 if resumed_at else None)
