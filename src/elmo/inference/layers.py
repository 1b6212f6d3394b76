"""The choice among the L+1 layers: average, top, all, concat, one by number, or weights.

"meaning" is also the top layer; the embedder concatenates it with the context layer. "auto" is "meaning" if the model
has a context layer, else "average".
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError

LayerName: TypeAlias = Literal["auto", "average", "top", "all", "concat", "meaning"]
Layers: TypeAlias = LayerName | int | Sequence[float] | npt.NDArray[np.floating[Any]]
Array: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LayerChoice:
    """K vectors per word, each a weighted sum of the layers, and their layout in the result."""

    matrix: Array  # (K, L+1): the weights
    layout: Literal["one", "all", "concat"] = "one"
    with_context: bool = False  # whether the context vector is concatenated

    def lay_out(self, vectors: Array) -> Array:
        """Reshape (T, K, 2D) to (T, 2D) for one vector per word, (T, K·2D) for "concat", (K, T, 2D) for "all"."""
        if self.layout == "all":
            return cast(Array, vectors.transpose(1, 0, 2))
        return vectors.reshape(len(vectors), vectors.shape[1] * vectors.shape[2])


def choose_layers(layers: Layers, num_layers: int, *, has_context: bool = False) -> LayerChoice:
    """Convert a `layers` argument to a LayerChoice; `num_layers` is L+1. "meaning" needs a context layer."""
    if isinstance(layers, str):
        layers = ("meaning" if has_context else "average") if layers == "auto" else layers
        named = _named_choices(num_layers)
        if layers == "meaning" and not has_context:
            raise InputError(
                "layers is 'meaning', but this model has no context layer; add one with elmo fuse, or choose "
                "'average', 'top' or another layer."
            )
        if layers in named:
            return named[layers]
    elif isinstance(layers, int | np.integer):
        if not isinstance(layers, bool) and -num_layers <= layers < num_layers:
            return LayerChoice(np.eye(num_layers, dtype=np.float32)[[layers]])
    elif isinstance(layers, Sequence | np.ndarray):
        return LayerChoice(_check_weights(layers, num_layers)[None])
    raise InputError(
        f"layers is {layers!r:.60}; choose 'auto', 'average', 'top', 'all', 'concat', 'meaning', a number from 0 "
        f"to {num_layers - 1}, or {num_layers} weights."
    )


@functools.cache
def _named_choices(num_layers: int) -> dict[str, LayerChoice]:
    single = np.eye(num_layers, dtype=np.float32)
    return {
        "average": LayerChoice(np.full((1, num_layers), 1 / num_layers, dtype=np.float32)),
        "top": LayerChoice(single[-1:]),
        "all": LayerChoice(single, "all"),
        "concat": LayerChoice(single, "concat"),
        "meaning": LayerChoice(single[-1:], with_context=True),
    }


def _check_weights(layers: Layers, num_layers: int) -> Array:
    """Return weights (L+1,) as an array."""
    cause = None
    try:
        weights = np.array(layers, dtype=np.float32)
        if weights.shape == (num_layers,) and np.isfinite(weights).all():
            return weights
    except (TypeError, ValueError) as error:
        cause = error
    raise InputError(
        f"layers is {layers!r:.60}; give one finite number for each of the {num_layers} layers."
    ) from cause


def cosine(first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]) -> npt.NDArray[np.float64] | np.float64:
    """Return the cosine along the last axis; 0 where a vector is zero."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    # A zero vector has a dot product of zero too, so the divisor then does not matter.
    quotient = (a * b).sum(axis=-1) / np.where(lengths > 0, lengths, 1.0)
    # Rounding may make the cosine of equal vectors greater than 1.
    clipped: npt.NDArray[np.float64] | np.float64 = np.clip(quotient, -1.0, 1.0)
    return clipped
