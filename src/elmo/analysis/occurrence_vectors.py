"""Occurrences and a model -> one vector each; a sentence that holds several is read once."""

from collections.abc import Callable, Sequence

import numpy as np

from elmo.analysis.layer_choice import Array, LayerKey
from elmo.analysis.occurrences import Occurrence
from elmo.model import Elmo


def embed_occurrences(
    model: Elmo,
    occurrences: Sequence[Occurrence],
    layer: LayerKey,
    advance: Callable[[int], None] = lambda num_sentences: None,
) -> Array:
    """Return the vectors (N, 2D) of a layer, the average or meaning; several words in a row are averaged."""
    places: dict[tuple[str, ...], list[int]] = {}
    for number, occurrence in enumerate(occurrences):
        places.setdefault(tuple(occurrence.sentence.words), []).append(number)
    vectors = np.zeros((len(occurrences), *model.word_shape(layer)), dtype=np.float32)
    arrays = model.embed_iter((list(words) for words in places), layers=layer, read_ahead=256)
    for numbers, array in zip(places.values(), arrays, strict=True):
        for number in numbers:
            vectors[number] = array[occurrences[number].start : occurrences[number].end].mean(axis=0)
        advance(1)
    return vectors
