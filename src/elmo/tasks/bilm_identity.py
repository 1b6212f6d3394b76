"""What tells one biLM from another: a hash of all that its vectors depend on."""

import dataclasses
import hashlib
import json

import torch

from elmo.model import Elmo

_PREDICTS_ONLY = ("softmax.", "right_to_left_softmax.")


def context_hash(model: Elmo) -> str | None:
    """Return the hash of a model's context layer, which "meaning" and weighted sentence vectors depend on."""
    layer = model.checkpoint().context
    return None if layer is None else layer.content_hash()


def content_hash(model: Elmo) -> str:
    """Give the hash of a model's weights and word lists; softmax weights, which no vector depends on, left out."""
    checkpoint = model.checkpoint()
    config = dataclasses.asdict(checkpoint.config)
    config.pop("softmax", None)
    lists = [checkpoint.characters, checkpoint.vocabulary if checkpoint.config.words else None]
    digest = hashlib.sha256(json.dumps([config, lists], sort_keys=True, default=str).encode())
    for name, weight in sorted(checkpoint.weights.items()):
        if not name.startswith(_PREDICTS_ONLY):
            digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
            digest.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
