"""Which vectors of a word are meant: those of one layer, the average of all, or meaning."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.model import Elmo

LayerKey: TypeAlias = int | Literal["average", "meaning"]
Array: TypeAlias = npt.NDArray[np.float32]


def choose_layer(given: str | int | None, model: Elmo, *, default: LayerKey | Literal["top"] = "top") -> LayerKey:
    """Return what a person called a layer: its number (from the end if negative), top, average or meaning.

    Without one it is meaning, or `default` for a model that has no context layer.
    """
    num_layers = model.num_layers
    if given is None:
        given = default if model.context is None else "meaning"
    if given == "average":
        return "average"
    if given == "meaning":
        if model.context is None:
            raise InputError(
                "The layer is 'meaning', but this model has no context layer; add one with elmo fuse, or choose a "
                "layer's number, 'top' or 'average'."
            )
        return "meaning"
    if given == "top":
        return num_layers - 1
    try:
        number = int(given)
    except ValueError:
        number = num_layers
    if not -num_layers <= number < num_layers:
        raise InputError(
            f"The layer is {given!r}; this model has the layers 0 to {num_layers - 1}, 'top', 'average' and, with "
            "a context layer, 'meaning'; 0 is the word without its sentence."
        )
    return number % num_layers


def choose_layer_keys(given: Sequence[str | int] | None, model: Elmo) -> tuple[LayerKey, ...]:
    """Return the layers asked for, each once; without any, meaning, or all that see the sentence."""
    if not given:
        return tuple(range(1, model.num_layers)) if model.context is None else ("meaning",)
    return tuple(dict.fromkeys(choose_layer(each, model) for each in given))


def embed_keys(
    model: Elmo, sentences: Sequence[Sequence[str]], keys: Sequence[LayerKey]
) -> list[dict[LayerKey, Array]]:
    """Return the vectors (T, dimensions) that the words of each sentence have by each key."""
    if not sentences:
        return []
    arrays = model.embed([list(words) for words in sentences], layers="all")
    found: list[dict[LayerKey, Array]] = [
        {key: pick(layers, key) for key in keys if key != "meaning"} for layers in arrays
    ]
    if "meaning" in keys:
        meanings = model.add_context(sentences, [layers[-1] for layers in arrays])
        for each, vectors in zip(found, meanings, strict=True):
            each["meaning"] = vectors
    return found


def pick(layers: Array, key: int | Literal["average"]) -> Array:
    """(L+1, ..., 2D) -> (..., 2D)."""
    if key == "average":
        return np.asarray(layers.mean(axis=0), dtype=np.float32)
    return np.asarray(layers[key], dtype=np.float32)


def name_layer(key: LayerKey) -> str:
    """Return what people call a layer."""
    return {"average": "average of the layers", "meaning": "meaning"}.get(str(key), f"layer {key}")


def normalize(vectors: Array) -> Array:
    """Scale vectors to length 1; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), dtype=np.float32)
