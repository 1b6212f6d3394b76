"""Cluster the occurrences of a word into senses, and plot them in two dimensions for one or more layers.

A sense is named by typical words around its occurrences.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmo.analysis.layers import Array, LayerKey, choose_layers, embed_layers, name_layer
from elmo.analysis.occurrences import Occurrence, is_same_word, read_query
from elmo.analysis.segmentation import Cohesion, measure_cohesion
from elmo.analysis.senses import find_clusters
from elmo.analysis.style import COLORS, MARKERS, SOFT_INK, drawing
from elmo.errors import InputError
from elmo.extras import require
from elmo.inference.context import normalize
from elmo.language import translate
from elmo.model import Elmo
from elmo.text.units import script_of

_LONGEST_HAN_WORD = 3  # characters
_WINDOW = 6  # words on each side of an occurrence that may name its sense
_TYPICAL_WORDS = 3
_HAN_STOP = frozenset("们有不个一去来到说过为")  # characters of Chinese words that say little about a sense


@dataclass(frozen=True)
class SenseMap:
    """A word in several sentences: the sense of each occurrence, and its point (N, 2) in each layer.

    The points are a PCA of the normalized vectors, rotated to match the last layer as closely as possible, so that
    the layers can be drawn side by side on equal axes.
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    senses: tuple[int, ...]  # sense of each occurrence; 0 is the most frequent sense
    names: tuple[tuple[str, ...], ...]  # words that name each sense
    points: dict[LayerKey, Array]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "word": self.word,
            "senses": [
                {"words": list(words), "num_occurrences": self.senses.count(number)}
                for number, words in enumerate(self.names)
            ],
            "occurrences": [
                {**occurrence.to_range(), "sense": sense}
                for occurrence, sense in zip(self.occurrences, self.senses, strict=True)
            ],
            "layers": [
                {"layer": layer, "points": [[round(float(x), 4), round(float(y), 4)] for x, y in points]}
                for layer, points in self.points.items()
            ],
        }


def map_senses(
    model: Elmo,
    sentences: Sequence[str | Occurrence],
    *,
    layers: Sequence[str | int] | None = None,
    num_senses: int | None = None,
    seed: int = 0,
    show_progress_bar: bool = False,
) -> SenseMap:
    """Map the senses of a word that is [marked] in three or more sentences, in two dimensions for each layer.

    The default is every layer, and "meaning" if the model has a context layer. The senses are `num_senses` clusters,
    or a detected number of clusters, of the vectors in the last of these layers.
    """
    require("sklearn", "analysis", "Clustering")
    occurrences = tuple(read_query(sentence, tokenization=model.tokenization) for sentence in sentences)
    if len(occurrences) < 3:
        raise InputError(f"A map of senses needs at least 3 sentences with the word, but there are {len(occurrences)}.")
    every_layer = [*range(model.num_layers), *([] if model.context is None else ["meaning"])]
    keys = choose_layers(layers or every_layer, model)
    vectors = embed_layers(model, occurrences, keys, show_progress_bar=show_progress_bar)
    senses = tuple(find_clusters(vectors[keys[-1]], num_clusters=num_senses, seed=seed).labels.tolist())
    points = {key: _project(vectors[key]) for key in keys}
    points = {key: _rotate(projected, points[keys[-1]]) for key, projected in points.items()}
    names = tuple(name_senses(occurrences, senses, model))
    return SenseMap(occurrences[0].word, occurrences, senses, names, points)


def name_senses(occurrences: Sequence[Occurrence], senses: Sequence[int], model: Elmo) -> list[tuple[str, ...]]:
    """Return the words that name each sense: they are more frequent near it than near other senses.

    A single sense has the name (). Words that occur several times come first, then words that are more similar to the
    contexts of this sense than to other contexts. No two senses have the same name.
    """
    num_senses = max(senses) + 1
    if num_senses == 1:
        return [()]
    cohesions = measure_cohesion(model, [occurrence.sentence.words for occurrence in occurrences])
    nearby = [Counter(dict.fromkeys(_list_nearby(*pair), 1)) for pair in zip(occurrences, cohesions, strict=True)]
    names: list[tuple[str, ...]] = []
    for sense in range(num_senses):
        inside = [words for words, number in zip(nearby, senses, strict=True) if number == sense]
        outside = [words for words, number in zip(nearby, senses, strict=True) if number != sense]
        counts, counts_outside = sum(inside, Counter()), sum(outside, Counter())
        gains = {}
        for word, count in counts.items():
            share, share_outside = count / len(inside), (counts_outside[word] + 0.5) / (len(outside) + 1)
            gains[word] = share * math.log(share / share_outside)
        margins = _compare_with_contexts(counts, counts_outside, model)
        ranked = sorted(
            [word for word in counts if gains[word] > 0] or counts,  # no word may stand out for a large sense
            key=lambda word, counts=counts, gains=gains, margins=margins: (
                counts[word] < 2, -gains[word], -margins[word]
            ),
        )  # fmt: skip
        used = {word for name in names for word in name}
        name: list[str] = []
        for word in ranked:
            # Pairs of Chinese characters overlap: after 存钱, 钱取 adds nothing.
            overlaps = script_of(word[0]) == "Han" and any(set(word) & set(chosen) for chosen in name)
            if len(name) < _TYPICAL_WORDS and word not in used and not overlaps:
                name.append(word)
        names.append(tuple(name) or (f"sense {sense + 1}",))
    return names


def _compare_with_contexts(inside: Collection[str], outside: Collection[str], model: Elmo) -> dict[str, float]:
    """Return each word's similarity to the words near its own sense minus that to the others, in layer 0."""
    if not inside or not outside:
        return dict.fromkeys(inside, 0.0)
    vectors, vectors_outside = (normalize(model.word_vectors(list(words))) for words in (inside, outside))
    margins = vectors @ (normalize(vectors.mean(axis=0)) - normalize(vectors_outside.mean(axis=0)))
    return dict(zip(inside, margins.tolist(), strict=True))


def _rotate(points: Array, target: Array) -> Array:
    """Rotate or reflect points, whose mean is 0, to match `target` as closely as possible."""
    left, _, right = np.linalg.svd(points.T @ target)
    return np.asarray(points @ (left @ right), dtype=np.float32)


def draw_senses(sense_map: SenseMap, output: str | Path, *, title: str | None = None) -> None:
    """Draw the occurrences in each layer side by side, on equal axes, to show how the senses separate."""
    num_occurrences, panels = len(sense_map.occurrences), list(sense_map.points.items())
    names = [translate(", ".join(words) or "all occurrences") for words in sense_map.names]
    limit = 1.12 * max(float(np.abs(points).max()) for _, points in panels) or 1.0
    panel_size = 2.1 if len(panels) > 1 else 4.5
    title = title or translate(f"“{sense_map.word}” in {num_occurrences:,} sentences")
    with drawing(output, (panel_size * len(panels) + 0.4, panel_size + 1.1)) as figure:
        all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (layer, points) in zip(all_axes, panels, strict=True):
            axes.set(xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[], aspect="equal")
            axes.spines[:].set(visible=True, color="#E0E4E8")
            heading = translate("layer 0 (no context)" if layer == 0 else name_layer(layer))
            axes.set_title(heading, fontsize=10.5, color=SOFT_INK)
            center = points.mean(axis=0)
            if float(np.abs(points - center).max()) < 1e-3 * limit:  # all points coincide
                axes.scatter(*center, s=60, color=SOFT_INK, linewidths=0)
                axes.annotate(
                    translate(f"all {num_occurrences}"), center, xytext=(0, 9), textcoords="offset points", ha="center"
                )
                continue
            for sense, name in enumerate(names):
                rows = [row for row, number in enumerate(sense_map.senses) if number == sense]
                axes.scatter(
                    *points[rows].T, s=44 if num_occurrences < 200 else 14, alpha=0.8, linewidths=0.7,
                    edgecolors="white", color=COLORS[sense % len(COLORS)], label=name,
                    marker=MARKERS[(sense + sense // len(COLORS)) % len(MARKERS)],  # shifted when colors repeat
                )  # fmt: skip
        figure.suptitle(title, x=0.012, ha="left")
        columns = min(len(names), 3 if len(panels) > 1 else 1)
        handles, labels = all_axes[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, handletextpad=0.3)


def _list_nearby(occurrence: Occurrence, cohesion: Cohesion) -> Iterator[str]:
    """Yield the content words around an occurrence; in Chinese, these are runs of characters that form words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words, start, end = occurrence.sentence.words, occurrence.start, occurrence.end
    longest = 2 if cohesion.ties is None else _LONGEST_HAN_WORD
    for first, last in ((max(0, start - _WINDOW), start), (end, min(len(words), end + _WINDOW))):
        for position in range(first, last):
            word = words[position]
            if len(word) == 1 and script_of(word) == "Han":
                for length in range(2, min(longest, last - position) + 1):
                    run = words[position : position + length]
                    if not all(len(letter) == 1 and script_of(letter) == "Han" for letter in run):
                        break
                    if not set(run) & _HAN_STOP and cohesion.is_word(position, position + length):
                        yield "".join(run)
            elif (
                len(word) > 1
                and word[0].isalpha()
                and not is_same_word(word, occurrence.word)
                and word.casefold() not in ENGLISH_STOP_WORDS
            ):
                yield word.casefold()


def _project(vectors: Array) -> Array:
    from sklearn.decomposition import PCA

    unit = normalize(vectors)
    if np.allclose(unit, unit[0], atol=1e-6):
        return np.zeros((len(vectors), 2), dtype=np.float32)
    solver = "full" if len(vectors) < 500 else "randomized"
    return np.asarray(PCA(2, svd_solver=solver, random_state=0).fit_transform(unit), dtype=np.float32)
