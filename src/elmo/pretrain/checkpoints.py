"""The checkpoints of a run: model folders whose subfolder `training` has the state of training.

A checkpoint is written to a temporary folder, synced and renamed.
"""

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import check_hashes, read_folder, write_folder
from elmo.checkpoint.location import read_json
from elmo.checkpoint.source import checkpoint_folder
from elmo.checkpoint.weights import content_hash
from elmo.errors import CheckpointError, first_line
from elmo.pretrain.loop import TrainState
from elmo.pretrain.stream import Position

TRAINING = "training"
OPTIMIZER_FILE, AUXILIARY_FILE, PROGRESS_FILE = "optimizer.pt", "auxiliary.pt", "progress.json"


def save_checkpoint(run: Path, state: TrainState, model: Checkpoint) -> Path:
    """Write the state of all processes; all of them call this, and the first one writes."""
    rows = {
        "position": asdict(state.position),
        "bilm_state": [tensor.cpu() for tensor in state.bilm_state.tensors],
    }
    gathered = state.processes.gather(rows)
    folder = checkpoint_folder(run, state.num_updates)
    if state.processes.is_first and not folder.exists():
        try:
            write_folder(
                model, folder, write_extra=lambda temporary: _write_training(temporary / TRAINING, state, gathered)
            )
        except CheckpointError as error:
            raise CheckpointError(
                f"{str(error).rstrip('.')}; the earlier checkpoints are complete, so fix this and resume with "
                f"--resume {run}."
            ) from error
    state.processes.wait()
    return folder


def _write_training(folder: Path, state: TrainState, rows: list[Any]) -> None:
    folder.mkdir()
    _dump(state.optimizer.state_dict(), folder / OPTIMIZER_FILE)
    if weights := state.objective.auxiliary.state_dict():
        _dump(weights, folder / AUXILIARY_FILE)
    for rank, state_of_rows in enumerate(rows):
        _dump(state_of_rows, folder / f"rows-{rank}.pt")
    progress = {"num_updates": state.num_updates, "num_words": state.num_words, "num_processes": len(rows)}
    (folder / PROGRESS_FILE).write_text(json.dumps(progress))


def _dump(value: Any, path: Path) -> None:
    with path.open("wb") as file:
        try:
            torch.save(value, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # torch's own error hides that the disk is full
                raise error.__context__ from None
            raise


def load_checkpoint(state: TrainState, folder: Path) -> None:
    """Load the state of training from a checkpoint; `state` is new and already has the weights of its model.

    The number of processes may have changed: the rows are distributed again.
    """
    training = folder / TRAINING
    with _reading(folder):
        progress = read_json(training / PROGRESS_FILE)
        saved = [_load(training / f"rows-{rank}.pt") for rank in range(progress["num_processes"])]
        num_rows = len(state.position.block)
        here = slice(num_rows * state.processes.rank, num_rows * (state.processes.rank + 1))
        block, offset = (
            tuple(value for rows in saved for value in rows["position"][name])[here] for name in ("block", "offset")
        )
        state.position = Position(block, offset)
        tensors = zip(*(rows["bilm_state"] for rows in saved), strict=True)
        state.bilm_state = state.bilm_state.map(lambda old: torch.cat(next(tensors), dim=1)[:, here].to(old.device))
        if state.objective.auxiliary.state_dict():
            state.objective.auxiliary.load_state_dict(_load(training / AUXILIARY_FILE))
        # The learning rate and other options come from the settings, not from the file.
        options = state.optimizer.state_dict()
        state.optimizer.load_state_dict({**options, "state": _load(training / OPTIMIZER_FILE)["state"]})
        state.num_updates, state.num_words = progress["num_updates"], progress["num_words"]


def read_model(folder: Path) -> Checkpoint:
    """Return the model of a checkpoint."""
    with _reading(folder):
        model = read_folder(folder)
        check_hashes(folder, model, content_hash(model.weights))
    return model


def _load(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:  # torch does not verify the checksums it writes
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"{path.name} is damaged: checksum mismatch in {damaged}")
    return torch.load(path, map_location="cpu", weights_only=True)


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Raise CheckpointError for a checkpoint that is damaged."""
    try:
        yield
    except Exception as error:  # torch and zipfile raise errors of many types for damaged files
        raise CheckpointError(
            f"{folder} cannot be used ({first_line(error).rstrip('.:')}), so training cannot resume from there; delete "
            "that checkpoint to resume from the one before it."
        ) from error
