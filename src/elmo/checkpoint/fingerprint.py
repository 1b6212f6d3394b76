"""The fingerprint of a model: a hash of everything that its vectors depend on, and of nothing else."""

import hashlib
import json
from typing import Protocol

import torch

from elmo.checkpoint.checkpoint import Checkpoint

_PREDICTS_ONLY = ("softmax.", "right_to_left_softmax.")


class HasCheckpoint(Protocol):
    """A model, such as Elmo, that can return what would be saved of it."""

    def checkpoint(self) -> Checkpoint:
        """Return configuration, word lists and weights."""
        ...


def fingerprint(model: HasCheckpoint) -> str:
    """Return the SHA-256 of a model's weights and word lists, without the softmax, which changes no vector."""
    checkpoint = model.checkpoint()
    config = checkpoint.config.to_dict()
    config.pop("softmax", None)
    lists: list[object] = [checkpoint.characters, checkpoint.vocabulary if checkpoint.config.words else None]
    if checkpoint.aliases:
        lists.append(dict(checkpoint.aliases))
    digest = hashlib.sha256(json.dumps([config, lists], sort_keys=True, default=str).encode())
    for name, weight in sorted(checkpoint.weights.items()):
        if not name.startswith(_PREDICTS_ONLY):
            digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
            digest.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def context_fingerprint(model: HasCheckpoint) -> str | None:
    """Return the hash of a model's context layer, which "meaning" and weighted sentence vectors depend on."""
    layer = model.checkpoint().context
    return None if layer is None else layer.content_hash()
