"""Checkpoints of a run: each is a model folder, with what training needs to resume in its `training/`.

A checkpoint is written to a temporary folder, synced and renamed, so it is complete or absent.
Elmo.from_pretrained opens it.
"""

import io
import json
import pickle
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import check_content_hash, read_folder, write_folder
from elmo.checkpoint.source import CHECKPOINTS, checkpoint_folder, list_checkpoints
from elmo.checkpoint.weights import content_hash
from elmo.errors import CheckpointError
from elmo.files.durable import remove
from elmo.nn.bilm import BiLMState
from elmo.nn.build import to_tensors
from elmo.pretrain.distributed import own_rank
from elmo.pretrain.loop import TrainState
from elmo.pretrain.stream import Position

TRAINING = "training"
OPTIMIZER_FILE, AUXILIARY_FILE, PROGRESS_FILE = "optimizer.pt", "auxiliary.pt", "progress.json"
_DAMAGED = (pickle.UnpicklingError, zipfile.BadZipFile)


def save_checkpoint(run: Path, state: TrainState, model: Checkpoint) -> Path:
    """Write the state of all processes; each calls this, the first one writes."""
    rows = {
        "position": {"block": list(state.position.block), "offset": list(state.position.offset)},
        "bilm_state": [
            tensor.cpu()
            for side in (state.bilm_state.left_to_right, state.bilm_state.right_to_left)
            for tensor in side.tensors
        ],
    }
    gathered: list[Any] = [rows]
    if dist.is_initialized():
        gathered = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, rows)
    folder = checkpoint_folder(run, state.num_updates)
    if own_rank() == 0 and not folder.exists():
        for unfinished in (run / CHECKPOINTS).glob(".update-*"):  # left by a killed process
            remove(unfinished)
        try:
            write_folder(
                model, folder, write_more=lambda temporary: _write_training(temporary / TRAINING, state, gathered)
            )
        except CheckpointError as error:
            raise CheckpointError(
                f"{str(error).rstrip('.')}; the earlier checkpoints are complete, so fix this and resume with "
                f"--resume {run}."
            ) from error
    if dist.is_initialized():
        dist.barrier()
    return folder


def _write_training(folder: Path, state: TrainState, rows: list[Any]) -> None:
    folder.mkdir()
    _dump(state.optimizer.state_dict(), folder / OPTIMIZER_FILE)
    if len(state.auxiliary):
        _dump(state.auxiliary.state_dict(), folder / AUXILIARY_FILE)
    for rank, part in enumerate(rows):
        _dump(part, folder / f"rows-{rank}.pt")
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
    """Load a checkpoint into a new TrainState of the same settings.

    The number of processes may be another one than when it was written: the rows are dealt again.
    """
    weights = read_model(folder).weights
    training = folder / TRAINING
    with _reading(training / PROGRESS_FILE):
        recorded = json.loads((training / PROGRESS_FILE).read_bytes())
        names = ("num_updates", "num_words", "num_processes")
        num_updates, num_words, num_processes = (int(recorded[name]) for name in names)
    parts = [_load(training / f"rows-{rank}.pt") for rank in range(num_processes)]
    block = [number for part in parts for number in part["position"]["block"]]
    offset = [number for part in parts for number in part["position"]["offset"]]
    num_rows = len(state.position.block)
    own = slice(num_rows * own_rank(), num_rows * (own_rank() + 1))
    state.bilm.load_state_dict(to_tensors(weights))
    if len(state.auxiliary):
        try:
            state.auxiliary.load_state_dict(_load(training / AUXILIARY_FILE))
        except RuntimeError as error:
            raise CheckpointError(
                f"{training / AUXILIARY_FILE} does not fit the teacher, which is not the one the run was started "
                "with; restore that one: with another teacher a run cannot resume exactly."
            ) from error
    # Options such as the learning rate come from the settings, not from the file.
    fresh = state.optimizer.state_dict()
    state.optimizer.load_state_dict({**fresh, "state": _load(training / OPTIMIZER_FILE)["state"]})
    state.position = Position(tuple(block[own]), tuple(offset[own]))
    joined = [torch.cat(tensors, dim=1) for tensors in zip(*(part["bilm_state"] for part in parts), strict=True)]
    ahead, back = state.bilm_state.left_to_right, state.bilm_state.right_to_left
    middle = len(ahead.tensors)
    saved = BiLMState(type(ahead)(*joined[:middle]), type(back)(*joined[middle:]))
    state.bilm_state = saved.rows(own).to(state.parameters[0].device)
    state.num_updates, state.num_words = num_updates, num_words


def remove_old(run: Path, *, keep: int, best: str | None) -> None:
    """Delete all but the last `keep` checkpoints and the best one."""
    for folder in list_checkpoints(run)[:-keep]:
        if folder.name != best:
            shutil.rmtree(folder)


def read_model(folder: Path) -> Checkpoint:
    """Return the model of a checkpoint; CheckpointError with what to do if it is damaged."""
    try:
        model = read_folder(folder)
        check_content_hash(folder, content_hash(model.weights))
    except CheckpointError as error:
        raise _unusable(folder, f"cannot be used ({str(error).rstrip('.')})") from error
    return model


def _load(path: Path) -> Any:
    with _reading(path):
        content = io.BytesIO(path.read_bytes())
        with zipfile.ZipFile(content) as archive:  # torch does not verify the checksums it writes
            if (damaged := archive.testzip()) is not None:
                raise ValueError(damaged)
        content.seek(0)
        return torch.load(content, map_location="cpu", weights_only=True)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Report what goes wrong with a file of a checkpoint."""
    try:
        yield
    except OSError as error:
        raise _unusable(path, f"could not be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, EOFError, RuntimeError, *_DAMAGED) as error:
        raise _unusable(path, "is damaged") from error


def _unusable(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{path} {reason}, so training cannot resume from there; delete that checkpoint to resume from the one "
        "before it."
    )
