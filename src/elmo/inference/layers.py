"""What a caller wants of the L+1 layers: average, top, all, concat, one by number, or a weighting.

"meaning" is the top layer too; model.py joins it with the context layer.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.errors import InputError

LayerName: TypeAlias = Literal["average", "top", "all", "concat", "meaning"]
Layers: TypeAlias = LayerName | int | Sequence[float] | npt.NDArray[np.floating[Any]]
Array: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LayerChoice:
    """K vectors of each word, each a weighted sum of its layers, and how they are laid out for the caller."""

    weights: tuple[tuple[float, ...], ...]  # (K, L+1)
    layout: Literal["one", "all", "concat"] = "one"
    with_context: bool = False  # the context vector is to stand beside it

    @property
    def num_vectors(self) -> int:
        """K."""
        return len(self.weights)

    @functools.cached_property
    def matrix(self) -> Array:
        """The weights as an array (K, L+1)."""
        return np.array(self.weights, dtype=np.float32)

    def mix(self, layers: Sequence[Tensor]) -> Tensor:
        """L+1 layers (N, D) -> (N, K, D)."""
        return torch.stack([_weigh(row, layers) for row in self.weights], dim=1)

    def lay_out(self, vectors: Array) -> Array:
        """See (T, K, 2D) as (T, 2D) for one vector per word, (T, K·2D) for "concat", (K, T, 2D) for "all"."""
        if self.layout == "all":
            return cast(Array, vectors.transpose(1, 0, 2))
        return vectors.reshape(len(vectors), vectors.shape[1] * vectors.shape[2])


def choose_layers(layers: Layers, num_layers: int, *, has_context: bool = False) -> LayerChoice:
    """Turn what was asked for into a choice; `num_layers` is L+1. "meaning" is refused without a context layer."""
    if isinstance(layers, str):
        named = _name_choices(num_layers)
        if layers == "meaning" and not has_context:
            raise InputError(
                "layers is 'meaning', but this model has no context layer; add one with elmo fuse, or choose "
                "'average', 'top' or another layer."
            )
        if layers in named:
            return named[layers]
    elif isinstance(layers, int | np.integer):
        if not isinstance(layers, bool) and -num_layers <= layers < num_layers:
            return LayerChoice((_one(int(layers) % num_layers, num_layers),))
    elif isinstance(layers, Sequence | np.ndarray):
        return LayerChoice((_check_weights(layers, num_layers),))
    raise InputError(
        f"layers is {layers!r:.60}; give 'average', 'top', 'all', 'concat', 'meaning', a number from 0 to "
        f"{num_layers - 1}, or {num_layers} weights."
    )


@functools.cache
def _name_choices(num_layers: int) -> dict[str, LayerChoice]:
    each = tuple(_one(number, num_layers) for number in range(num_layers))
    return {
        "average": LayerChoice(((1 / num_layers,) * num_layers,)),
        "top": LayerChoice(each[-1:]),
        "all": LayerChoice(each, "all"),
        "concat": LayerChoice(each, "concat"),
        "meaning": LayerChoice(each[-1:], with_context=True),
    }


def _one(number: int, num_layers: int) -> tuple[float, ...]:
    return tuple(float(other == number) for other in range(num_layers))


def _weigh(weights: Sequence[float], layers: Sequence[Tensor]) -> Tensor:
    used = [(weight, layer) for weight, layer in zip(weights, layers, strict=True) if weight]
    if not used:
        return torch.zeros_like(layers[0])
    (weight, layer), *rest = used
    total = layer if weight == 1 and not rest else layer * weight
    for weight, layer in rest:
        total.add_(layer, alpha=weight)
    return total


def _check_weights(layers: Layers, num_layers: int) -> tuple[float, ...]:
    try:
        weights = torch.as_tensor(layers, dtype=torch.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"layers is {layers!r:.60}; its weights must be numbers.") from error
    if weights.shape != (num_layers,):
        raise InputError(
            f"layers has weights of shape {tuple(weights.shape)}, but this model has {num_layers} layers; give "
            "one number for each."
        )
    if not torch.isfinite(weights).all():
        raise InputError(f"layers is {layers!r:.60}; its weights must be finite numbers.")
    return tuple(weights.tolist())


@dataclass(frozen=True)
class Comparison:
    """The cosine of two words (or phrases) by the chosen layers, and in each layer; layer 0 sees no sentence."""

    cosine: float
    cosine_by_layer: list[float]
    words_a: list[str]
    words_b: list[str]


def cosine(
    first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64] | np.float64:
    """Return the cosine along the last axis; 0 where a vector is zero."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    # A zero vector has a dot product of zero too, so the divisor then does not matter.
    quotient = (a * b).sum(axis=-1) / np.where(lengths > 0, lengths, 1.0)
    # Rounding may carry the cosine of equal vectors past 1.
    clipped: npt.NDArray[np.float64] | np.float64 = np.clip(quotient, -1.0, 1.0)
    return clipped
