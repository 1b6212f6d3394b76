"""The numbers of a run as JSON lines, and as TensorBoard events where it is installed."""

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmo.errors import ElmoError
from elmo.files.durable import replace_file

METRICS_FILE, TENSORBOARD_FOLDER = "metrics.jsonl", "tensorboard"


class MetricsWriter:
    """Appends to a run's metrics; lines of updates after the one resumed from are dropped first."""

    def __init__(self, run: Path, *, resumed_at: int = 0) -> None:
        self._path = run / METRICS_FILE
        kept = [line for line in read_metrics(run) if line["update"] <= resumed_at]
        try:
            replace_file(self._path, "".join(f"{json.dumps(line)}\n" for line in kept).encode())
            self._file = self._path.open("a", encoding="utf-8")
            self._board = _open_tensorboard(run / TENSORBOARD_FOLDER, resumed_at)
        except OSError as error:
            raise _unwritten(self._path, error) from error

    def write(self, kind: str, update: int, values: dict[str, float]) -> None:
        """Add one line: "train" (sampled losses) or "validation" (full softmax)."""
        shown = {name: value if math.isfinite(value) else None for name, value in values.items()}
        try:
            self._file.write(json.dumps({"kind": kind, "update": update, **shown}) + "\n")
            self._file.flush()
            if self._board is not None:
                self._board.add(update, {f"{kind}/{name}": value for name, value in values.items()})
        except OSError as error:
            raise _unwritten(self._path, error) from error

    def close(self) -> None:
        """Finish the files."""
        # What could not be written is told by `write`, which keeps nothing back.
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            if self._board is not None:
                self._board.close()


def read_metrics(run: Path) -> Iterator[dict[str, Any]]:
    """Give the lines of a run's metrics; a last line cut off by a crash is left out."""
    path = run / METRICS_FILE
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict) and "kind" in values and type(values.get("update")) is int:
            yield values


def _unwritten(path: Path, error: OSError) -> ElmoError:
    return ElmoError(
        f"The numbers of the run could not be written to {path.parent} ({error.strerror or error}); its "
        f"checkpoints are whole, so make room and go on with --resume {path.parent}."
    )


class _Events:
    """A file of numbers that TensorBoard shows.

    Written here, at once: torch's writer has a thread whose errors end nowhere, and imports TensorFlow if it can.
    """

    def __init__(self, folder: Path, resumed_at: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        folder.mkdir(exist_ok=True)
        self._file = (folder / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}").open("wb")
        self._records = RecordWriter(self._file)
        self._write(file_version="brain.Event:2")
        if resumed_at:  # what earlier files have from here on is hidden
            self._write(step=resumed_at + 1, session_log=SessionLog(status=SessionLog.START))

    def add(self, update: int, values: dict[str, float]) -> None:
        found = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(step=update, summary=self._summary(value=found))

    def _write(self, **content: Any) -> None:
        self._records.write(self._event(wall_time=time.time(), **content).SerializeToString())
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _open_tensorboard(folder: Path, resumed_at: int) -> _Events | None:
    try:
        return _Events(folder, resumed_at)
    except ImportError:
        return None
