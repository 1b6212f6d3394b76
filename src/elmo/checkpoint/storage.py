"""Weights in float32 -> what is written of them, in fewer bytes where that is wanted, and back.

A matrix of 8-bit numbers has a scale for each of its rows beside it, under the name of the matrix and SCALE.
"""

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from elmo.checkpoint.checkpoint import Weights
from elmo.errors import CheckpointError

Storage: TypeAlias = Literal["float32", "float16", "compact"]
STORAGES = get_args(Storage)
SOFTMAX_WEIGHT = "softmax.weight"
SCALE = ".scale"
_LEVELS = 127
_SMALLEST_SCALE = 1e-30


def store(weights: Weights, storage: Storage) -> dict[str, Tensor]:
    """Give what to write: as it is, in float16, or "compact", which has the softmax in 8 bits besides."""
    if storage not in STORAGES:
        raise CheckpointError(f"storage is {storage!r}; weights are stored as one of {', '.join(STORAGES)}.")
    if storage == "float32":
        return dict(weights)
    stored: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if storage == "compact" and name == SOFTMAX_WEIGHT:
            scale = tensor.abs().amax(dim=1).clamp_(min=_SMALLEST_SCALE) / _LEVELS
            stored[name] = (tensor / scale[:, None]).round().to(torch.int8)
            stored[name + SCALE] = _same_scale(tensor, stored[name], scale)
        else:
            stored[name] = tensor.half()
            if not torch.isfinite(stored[name]).all():
                raise CheckpointError(
                    f"{name} has values that float16 cannot hold (up to {tensor.abs().max():.3g}, at most 65504 "
                    "can be stored); save the model in float32."
                )
    return stored


def _same_scale(tensor: Tensor, stored: Tensor, scale: Tensor) -> Tensor:
    """Return the scale that weights restored from 8 bits were stored with, so that storing them again is exact."""
    chosen = scale
    for towards in (torch.inf, 0.0):
        other = torch.nextafter(scale, torch.full_like(scale, towards))
        is_same = (stored.float() * other[:, None] == tensor).all(dim=1)
        chosen = torch.where(is_same, other, chosen)
    return chosen


def storage_of(stored: Weights) -> Storage:
    """Return the form that stored weights have."""
    kinds = {tensor.dtype for tensor in stored.values()}
    if torch.int8 in kinds:
        return "compact"
    return "float16" if torch.float16 in kinds else "float32"


def restore(stored: Weights) -> dict[str, Tensor]:
    """Give the weights in float32; a tensor of any other type is left as it is."""
    weights: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        scale = stored.get(name + SCALE)
        if tensor.dtype == torch.float16:
            weights[name] = tensor.float()
        elif tensor.dtype == torch.int8 and scale is not None and scale.shape == tensor.shape[:1]:
            weights[name] = tensor.float() * scale[:, None]
        elif not (name.endswith(SCALE) and stored.get(name.removesuffix(SCALE), tensor).dtype == torch.int8):
            weights[name] = tensor
    return weights
