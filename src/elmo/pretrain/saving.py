"""Checkpoints of a run: a model folder each, with what training needs to go on in its `training/`.

A checkpoint is written aside, synced and renamed, so it is whole or not there. Elmo.from_pretrained opens it.
"""

import io
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import read_folder, write_folder
from elmo.checkpoint.run_folder import checkpoint_folder, list_checkpoints
from elmo.errors import CheckpointError
from elmo.nn.bilm import BiLMState
from elmo.pretrain.loop import TrainState
from elmo.pretrain.stream import Position

TRAINING = "training"
OPTIMIZER_FILE, PROGRESS_FILE = "optimizer.pt", "progress.json"


def save_checkpoint(run: Path, state: TrainState, model: Checkpoint) -> Path:
    """Write the state of all processes; each calls this, the first one writes."""
    rows = {
        "position": {"block": list(state.position.block), "offset": list(state.position.offset)},
        "bilm_state": [tensor.cpu() for tensor in _tensors(state.bilm_state)],
    }
    gathered: list[Any] = [rows]
    if dist.is_initialized():
        gathered = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, rows)
    folder = checkpoint_folder(run, state.num_updates)
    is_first = not dist.is_initialized() or dist.get_rank() == 0
    if is_first and not folder.exists():
        write_folder(model, folder, write_more=lambda aside: _write_training(aside / TRAINING, state, gathered))
    if dist.is_initialized():
        dist.barrier()
    return folder


def _write_training(folder: Path, state: TrainState, rows: list[Any]) -> None:
    folder.mkdir()
    torch.save(state.optimizer.state_dict(), folder / OPTIMIZER_FILE)
    for rank, part in enumerate(rows):
        torch.save(part, folder / f"rows-{rank}.pt")
    progress = {"num_updates": state.num_updates, "num_words": state.num_words, "num_processes": len(rows)}
    (folder / PROGRESS_FILE).write_text(json.dumps(progress))


def restore(state: TrainState, folder: Path) -> None:
    """Bring a new TrainState, of the same settings, to where a checkpoint was written.

    A run may be resumed with another number of processes: rows are dealt anew.
    """
    weights = read_folder(folder).weights
    training = folder / TRAINING
    progress = json.loads(_read(training / PROGRESS_FILE))
    parts = [_load(training / f"rows-{rank}.pt") for rank in range(progress["num_processes"])]
    block = [number for part in parts for number in part["position"]["block"]]
    offset = [number for part in parts for number in part["position"]["offset"]]
    num_rows = len(state.position.block)
    first = num_rows * (dist.get_rank() if dist.is_initialized() else 0)
    own = slice(first, first + num_rows)
    state.bilm.load_state_dict(dict(weights))
    state.optimizer.load_state_dict(_load(training / OPTIMIZER_FILE))
    state.position = Position(tuple(block[own]), tuple(offset[own]))
    # The fresh state tells which tensors there are; saved ones take their places.
    joined = [torch.cat(tensors, dim=1) for tensors in zip(*(part["bilm_state"] for part in parts), strict=True)]
    ahead, back = state.bilm_state.left_to_right, state.bilm_state.right_to_left
    middle = len(ahead.tensors)
    saved = BiLMState(type(ahead)(*joined[:middle]), type(back)(*joined[middle:]))
    state.bilm_state = saved.rows(own).to(state.parameters[0].device)
    state.num_updates, state.num_words = progress["num_updates"], progress["num_words"]


def remove_old(run: Path, *, keep: int, best: str | None) -> None:
    """Delete all but the last `keep` checkpoints and the best one."""
    for folder in list_checkpoints(run)[:-keep]:
        if folder.name != best:
            shutil.rmtree(folder)


def _tensors(state: BiLMState) -> list[Tensor]:
    return [*state.left_to_right.tensors, *state.right_to_left.tensors]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{path} could not be read ({error.strerror}), so training cannot go on from there; delete that "
            "checkpoint to resume from the one before it."
        ) from error


def _load(path: Path) -> Any:
    try:
        return torch.load(io.BytesIO(_read(path)), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged, so training cannot go on from there; delete that checkpoint to resume from the "
            "one before it."
        ) from error
