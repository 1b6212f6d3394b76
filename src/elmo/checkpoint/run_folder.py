"""The folder of a training run, as far as opening its model goes: the best checkpoint, else the last."""

import re
from pathlib import Path

from elmo.checkpoint.location import read_json
from elmo.errors import CheckpointError

RUN_FILE, BEST_FILE, CHECKPOINTS = "run.json", "best.json", "checkpoints"
_NAME = re.compile(r"update-\d{8,}")


def list_checkpoints(run: Path) -> list[Path]:
    """Give the whole checkpoints of a run, oldest first."""
    folder = run / CHECKPOINTS
    entries = folder.iterdir() if folder.is_dir() else []
    return sorted(entry for entry in entries if _NAME.fullmatch(entry.name))


def checkpoint_folder(run: Path, num_updates: int) -> Path:
    """Give where the checkpoint after so many updates is."""
    return run / CHECKPOINTS / f"update-{num_updates:08d}"


def best_checkpoint(run: Path) -> Path:
    """Give the checkpoint with the lowest validation perplexity, or the last where there was no validation."""
    found = list_checkpoints(run)
    if (run / BEST_FILE).is_file():
        best = run / CHECKPOINTS / str(read_json(run / BEST_FILE).get("checkpoint"))
        if best in found:
            return best
    if not found:
        raise CheckpointError(f"The training run in {run} has no checkpoint yet; wait for the first one.")
    return found[-1]
