"""Cosine similarity of a word in several sentences, of whole sentences, or of all word pairs of two sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.analysis.layers import Array, LayerKey, choose_layers, embed_layers, name_layer
from elmo.analysis.occurrences import QUERY_SOURCE, Occurrence, join_words, read_query
from elmo.analysis.style import drawing
from elmo.errors import InputError
from elmo.inference.context import normalize
from elmo.inference.layers import Layers, cosine
from elmo.language import translate
from elmo.model import Elmo
from elmo.text.sentence_input import Sentence, read_sentences

MOST_WORDS = 60
_WORDS_WITH_NUMBERS = 16
_INCHES_PER_WORD = 0.46


@dataclass(frozen=True)
class WordSimilarities:
    """Words in their sentences, and their pairwise cosines: (N, N), or (L+1, N, N) with one table per layer."""

    words: tuple[Occurrence, ...]
    cosines: npt.NDArray[np.float64]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object; sentences are counted from 0, and each pair is listed once."""
        name, pairs = "cosine_by_layer" if self.cosines.ndim == 3 else "cosine", []
        for a, b in zip(*np.triu_indices(len(self.words), k=1), strict=True):
            pairs.append({"a": int(a), "b": int(b), name: self.cosines[..., a, b].tolist()})
        return {"sentences": [word.to_range() for word in self.words], "pairs": pairs}


@dataclass(frozen=True)
class SimilarityMap:
    """Cosines in each layer, as an array (words of the first sentence, words of the second)."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    cosines: dict[LayerKey, Array]


def compare_words(model: Elmo, words: Sequence[str | Occurrence], *, layers: Layers | None = None) -> WordSimilarities:
    """Compare a word in two or more sentences, each with one [marked] word or phrase (or an Occurrence).

    `layers` are those of Elmo.embed; by default "meaning", or "average" without a context layer. "all" compares the
    words in each layer; layer 0 is the word without its sentence.
    """
    if len(words) < 2:
        raise InputError(
            "One sentence was given; give two or more, each with one word in brackets, as in 'I went to the [bank]'."
        )
    occurrences = tuple(read_query(word, tokenization=model.tokenization) for word in words)
    sentences = [occurrence.sentence.words for occurrence in occurrences]
    spans = [[(occurrence.start, occurrence.end)] for occurrence in occurrences]
    # (N, D) or (N, L+1, D)
    vectors = np.concatenate(model.embed_spans(sentences, spans, layers="auto" if layers is None else layers))
    cosines = np.asarray(cosine(vectors[:, None], vectors[None]), dtype=np.float64)  # (N, N) or (N, N, L+1)
    return WordSimilarities(occurrences, cosines if cosines.ndim == 2 else cosines.transpose(2, 0, 1))


def compare_texts(model: Elmo, texts: Sequence[Sentence]) -> WordSimilarities:
    """Compare two or more whole sentences by the cosines of their vectors from Elmo.encode."""
    if len(texts) < 2:
        raise InputError("One sentence was given; give two or more.")
    sentences = read_sentences(texts, model.tokenization)
    for text, sentence in zip(texts, sentences, strict=True):
        if not sentence:
            raise InputError(f"The sentence {text!r} has no words, so there is nothing to compare; give another one.")
    vectors = model.encode(sentences)
    words = tuple(Occurrence(join_words(sentence, QUERY_SOURCE, 0), 0, len(sentence)) for sentence in sentences)
    return WordSimilarities(words, np.asarray(cosine(vectors[:, None], vectors[None]), dtype=np.float64))


def compare_sentences(
    model: Elmo, first: Sentence, second: Sentence, *, layers: Sequence[str | int] | None = None
) -> SimilarityMap:
    """Compare all word pairs of two sentences in each layer; by default "meaning", or the average without it."""
    keys = choose_layers(layers or ["average" if model.context is None else "meaning"], model)
    words = read_sentences((first, second), model.tokenization)
    for name, sentence in zip(("first", "second"), words, strict=True):
        if not 1 <= len(sentence) <= MOST_WORDS:
            raise InputError(f"The {name} sentence has {len(sentence)} words; 1 to {MOST_WORDS} can be compared.")
    joined = [join_words(sentence, QUERY_SOURCE, 0) for sentence in words]
    occurrences = [
        Occurrence(sentence, start, start + 1) for sentence in joined for start in range(len(sentence.offsets))
    ]
    cosines: dict[LayerKey, Array] = {}
    for key, vectors in embed_layers(model, occurrences, keys).items():
        rows, columns = np.split(normalize(vectors), [len(words[0])])
        cosines[key] = rows @ columns.T
    return SimilarityMap(tuple(words[0]), tuple(words[1]), cosines)


def draw_similarity_map(similarity_map: SimilarityMap, output: str | Path) -> None:
    """Draw the layers side by side."""
    from rich.cells import cell_len

    first, second, layers = similarity_map.first, similarity_map.second, similarity_map.cosines
    longest = max(map(cell_len, second))
    rotation = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if longest > 5 else {}
    width = max(2.6, _INCHES_PER_WORD * len(second)) + 0.1 * max(map(cell_len, first))
    height = max(1.5, _INCHES_PER_WORD * len(first)) + (min(0.085 * longest, 2.5) if rotation else 0.3) + 0.6
    with drawing(output, (width * len(layers) + 1.0, height)) as figure:
        all_axes = figure.subplots(1, len(layers), squeeze=False, sharey=True)[0]
        for (layer, cosines), axes in zip(layers.items(), all_axes, strict=True):
            image = axes.imshow(cosines, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set_xticks(range(len(second)), second, **rotation)
            axes.set_title(translate(name_layer(layer)))
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            if max(cosines.shape) <= _WORDS_WITH_NUMBERS:
                for (row, column), value in np.ndenumerate(cosines):
                    ink = "white" if value > 0.6 else "black"
                    axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8.5, color=ink)
        all_axes[0].set_yticks(range(len(first)), first)
        colorbar = figure.colorbar(image, ax=list(all_axes), label=translate("cosine"), pad=0.02, aspect=30)
        colorbar.outline.set_visible(False)
