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


def read_best(run: Path) -> tuple[float, str] | None:
    """Return the perplexity and the name of the best checkpoint as far as it is recorded, or None."""
    if not (run / BEST_FILE).is_file():
        return None
    best = read_json(run / BEST_FILE)
    perplexity, name = best.get("perplexity"), best.get("checkpoint")
    if not isinstance(perplexity, int | float) or not isinstance(name, str):
        raise CheckpointError(
            f"{run / BEST_FILE} is damaged: a perplexity and the name of a checkpoint were expected; delete it, "
            f"and elmo train --resume {run} writes it again."
        )
    return float(perplexity), name


def best_checkpoint(run: Path) -> Path:
    """Give the checkpoint with the lowest validation perplexity, or the last where there was no validation."""
    found = list_checkpoints(run)
    if (best := read_best(run)) is not None and run / CHECKPOINTS / best[1] in found:
        return run / CHECKPOINTS / best[1]
    if not found:
        raise CheckpointError(f"The training run in {run} has no checkpoint yet; wait for the first one.")
    return found[-1]
