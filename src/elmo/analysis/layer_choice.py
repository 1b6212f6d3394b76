"""Which vectors of a word are meant: those of one layer, or the average of all."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError

LayerKey: TypeAlias = int | Literal["average"]
Array: TypeAlias = npt.NDArray[np.float32]


def choose_layer(given: str | int, num_layers: int) -> LayerKey:
    """Give what a person called a layer: its number (from the end if negative), top or average."""
    if given == "average":
        return "average"
    if given == "top":
        return num_layers - 1
    try:
        number = int(given)
    except ValueError:
        number = num_layers
    if not -num_layers <= number < num_layers:
        raise InputError(
            f"The layer is {given!r}; this model has the layers 0 to {num_layers - 1}, 'top' and 'average'; 0 is "
            "the word without its sentence."
        )
    return number % num_layers


def choose_layer_keys(given: Sequence[str | int] | None, num_layers: int) -> tuple[LayerKey, ...]:
    """Give the layers asked for, each once; without any, all that see the sentence."""
    if not given:
        return tuple(range(1, num_layers))
    return tuple(dict.fromkeys(choose_layer(each, num_layers) for each in given))


def pick(layers: Array, key: LayerKey) -> Array:
    """(L+1, ..., 2D) -> (..., 2D)."""
    if key == "average":
        return np.asarray(layers.mean(axis=0), dtype=np.float32)
    return np.asarray(layers[key], dtype=np.float32)


def normalize(vectors: Array) -> Array:
    """Scale vectors to length 1; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), dtype=np.float32)
