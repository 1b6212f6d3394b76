"""The vectors of a word that are compared: a single layer, the average of all layers, or "meaning" (context layer)."""

import itertools
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.analysis.occurrences import Occurrence
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.progress import progress_bar

LayerKey: TypeAlias = int | Literal["average", "meaning"]
Array: TypeAlias = npt.NDArray[np.float32]
_SENTENCES_AT_ONCE = 256


def choose_layer(layer: str | int | None, model: Elmo) -> LayerKey:
    """Resolve the name of a layer: a number (counted from the end if negative), top, average or meaning.

    None is meaning, or top if the model has no context layer.
    """
    num_layers = model.num_layers
    if layer is None:
        layer = "top" if model.context is None else "meaning"
    known: dict[str, LayerKey] = {str(number): number % num_layers for number in range(-num_layers, num_layers)}
    known |= {"top": num_layers - 1, "average": "average"}
    if model.context is not None:
        known["meaning"] = "meaning"
    if str(layer) not in known:
        raise InputError(
            f"The layer is {layer!r}; this model has layers 0 to {num_layers - 1}, 'top', 'average' and, with a "
            "context layer (elmo fuse), 'meaning'. Layer 0 is the word without its sentence."
        )
    return known[str(layer)]


def choose_layers(layers: Sequence[str | int] | None, model: Elmo) -> tuple[LayerKey, ...]:
    """Resolve the names of layers, without duplicates; the default is meaning, or every layer above 0."""
    if not layers:
        return tuple(range(1, model.num_layers)) if model.context is None else ("meaning",)
    return tuple(dict.fromkeys(choose_layer(layer, model) for layer in layers))


def embed_layers(
    model: Elmo, occurrences: Sequence[Occurrence], keys: Sequence[LayerKey], *, show_progress_bar: bool = False
) -> dict[LayerKey, Array]:
    """Return one vector per occurrence and layer (N, D), as Elmo.embed_spans returns them.

    Each sentence is embedded once for all layers except "meaning".
    """
    by_sentence: dict[tuple[str, ...], list[int]] = {}
    for row, occurrence in enumerate(occurrences):
        by_sentence.setdefault(tuple(occurrence.sentence.words), []).append(row)
    vectors = {key: np.zeros((len(occurrences), *model.word_shape(key)), dtype=np.float32) for key in keys}
    layer_keys = [key for key in keys if key != "meaning"]
    choices: list[Any] = ["all"] if len(layer_keys) > 1 else [*layer_keys]
    if "meaning" in keys:
        choices.append("meaning")
    with progress_bar(unit="sentences", num_bytes=None, shown=show_progress_bar) as advance:
        remaining = iter(by_sentence.items())
        while window := list(itertools.islice(remaining, _SENTENCES_AT_ONCE)):
            spans = [[(occurrences[row].start, occurrences[row].end) for row in rows] for _, rows in window]
            for choice in choices:
                arrays = model.embed_spans([words for words, _ in window], spans, layers=choice)
                for (_, rows), array in zip(window, arrays, strict=True):
                    if choice != "all":
                        vectors[choice][rows] = array
                        continue
                    for key in layer_keys:
                        vectors[key][rows] = array.mean(axis=1) if key == "average" else array[:, key]
            advance(0, len(window))
    return vectors


def name_layer(key: LayerKey) -> str:
    """Return the heading of a layer."""
    return {"average": "average of the layers", "meaning": "meaning"}.get(str(key), f"layer {key}")
