"""A word's occurrences -> points on a plane, and a picture of them by label or cluster.

Beside the map stand the groups with the words that set them apart and typical contexts. A context has the number
of its point, so that no line has to lead from one to the other.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from elmo.analysis.layers import Array, choose_layer, embed_occurrences
from elmo.analysis.occurrences import Occurrence
from elmo.analysis.pictures import COLOURS, GREY, MARKERS, check_output, drawing
from elmo.analysis.senses import find_clusters, reduce, require_sklearn
from elmo.errors import InputError
from elmo.model import Elmo

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Projection: TypeAlias = Literal["pca", "tsne"]
OTHERS = "others"
_WINDOW = 6  # words on each side of an occurrence that may set its cluster apart
_TYPICAL_WORDS = 4
_CONTEXT_WORDS = 5
_LONGEST_LINE = 58  # characters
_LINE_INCHES = 0.185


@dataclass(frozen=True)
class OccurrenceMap:
    """Occurrences, their points (N, 2), and the name of the group of each: its label or its cluster.

    `typical_words` are those that set each cluster apart from the others; labels have none.
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    points: Array
    groups: tuple[str, ...]
    projection: Projection
    typical_words: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "word": self.word,
            "projection": self.projection,
            "typical_words": self.typical_words,
            "points": [
                {"x": round(float(x), 4), "y": round(float(y), 4), "group": group, **occurrence.to_dict()}
                for (x, y), group, occurrence in zip(self.points, self.groups, self.occurrences, strict=True)
            ],
        }


def map_word(
    model: Elmo,
    word: str,
    occurrences: Sequence[Occurrence],
    *,
    layer: str | int | None = None,
    projection: Projection = "pca",
    seed: int = 0,
    progress: bool = False,
) -> OccurrenceMap:
    """Embed the occurrences of a word and place them on a plane."""
    vectors = embed_occurrences(model, occurrences, choose_layer(layer, model), progress=progress)
    return map_occurrences(word, occurrences, vectors, projection=projection, seed=seed)


def map_occurrences(
    word: str, occurrences: Sequence[Occurrence], vectors: Array, *, projection: Projection = "pca", seed: int = 0
) -> OccurrenceMap:
    """Place occurrences on a plane by their vectors; groups are their labels if all have one, else clusters."""
    require_sklearn()
    if projection not in get_args(Projection):
        raise InputError(f"The projection is {projection!r}; choose {' or '.join(get_args(Projection))}.")
    if len(occurrences) < 3:
        raise InputError(f"{word!r} has {len(occurrences)} occurrence(s); a map needs at least 3.")
    labels = [occurrence.label for occurrence in occurrences]
    typical: dict[str, tuple[str, ...]] = {}
    if all(label is not None for label in labels):
        groups = tuple(map(str, labels))
    else:
        groups = tuple(f"cluster {number + 1}" for number in find_clusters(vectors, seed=seed).numbers)
        typical = _find_typical_words(occurrences, groups)
    return OccurrenceMap(
        word, tuple(occurrences), _project(vectors, projection, seed), groups, projection, typical
    )


def draw_occurrence_map(
    found: OccurrenceMap, output: str | Path, *, num_contexts: int = 3, font: Path | None = None
) -> None:
    """Draw the map, and beside it the groups with `num_contexts` contexts of each."""
    check_output(output)
    counts = Counter(found.groups)
    shown = [group for group, _ in counts.most_common(len(COLOURS))]
    if len(counts) > len(shown):
        shown = shown[:-1]
    groups = [group if group in shown else OTHERS for group in found.groups]
    contexts = {group: _choose_contexts(found.points, groups, group, num_contexts) for group in shown}
    texts = [found.word, *counts, *(each.sentence.text for each in found.occurrences)]
    num_lines = max(27.0, sum(1.7 + len(rows) for rows in contexts.values()) + 2)
    with drawing(output, (12.5, _LINE_INCHES * num_lines + 0.6), texts, font=font) as figure:
        axes, side = figure.subplots(1, 2, width_ratios=(1.45, 1))
        projection = "PCA" if found.projection == "pca" else "t-SNE"
        axes.set_title(f"“{found.word}”: {len(groups):,} occurrences ({projection})", loc="left")
        axes.set(xticks=[], yticks=[])
        axes.margins(0.06)
        axes.spines[:].set(visible=True, color="#CCCCCC")
        side.set(xlim=(0, 1), ylim=(num_lines, 0))
        side.axis("off")
        line = 0.5
        numbered: list[tuple[int, str]] = []  # rows of points whose contexts are shown, and their colours
        for place, group in enumerate([*shown, *([OTHERS] if OTHERS in groups else [])]):
            colour, marker = (GREY, ".") if group == OTHERS else (COLOURS[place], MARKERS[place])
            rows = [row for row, each in enumerate(groups) if each == group]
            axes.scatter(
                *found.points[rows].T, s=34 if len(groups) < 500 else 14, color=colour, marker=marker, alpha=0.6,
                linewidths=0,
            )  # fmt: skip
            side.scatter(0.015, line, s=40, color=colour, marker=marker, clip_on=False)
            heading = f"{_describe(found, group, len(shown))} ({len(rows):,})"
            side.text(0.045, line, heading, va="center", fontweight="bold", fontsize=10)
            line += 1.1
            for row in contexts.get(group, ()):
                numbered.append((row, colour))
                context = _shorten(found.occurrences[row].mark(_CONTEXT_WORDS))
                side.text(0.03, line, str(len(numbered)), va="center", ha="right", fontsize=8, color=colour)
                side.text(0.045, line, context, va="center", fontsize=8.5)
                line += 1
            line += 0.6
        _number_points(axes, found.points[[row for row, _ in numbered]], [colour for _, colour in numbered])


def _number_points(axes: "Axes", points: Array, colours: Sequence[str]) -> None:
    """Circle points and write numbers from 1 beside them, each where it is farthest from the other numbers."""
    from matplotlib.patheffects import withStroke

    axes.figure.draw_without_rendering()  # type: ignore[union-attr]  # the layout decides where points are
    taken = list(axes.transData.transform(points))
    for number, (point, colour) in enumerate(zip(points, colours, strict=True), start=1):
        at = axes.transData.transform(point)
        sides = [(7, 7), (7, -7), (-9, 7), (-9, -7)]

        def room(side: tuple[int, int], at: Array = at) -> float:
            return min(30.0, *(float(np.linalg.norm(at + side - other)) for other in taken if (other != at).any()))

        best = max(sides, key=room) if len(taken) > 1 else sides[0]
        taken.append(at + best)
        axes.scatter(point[0], point[1], s=46, facecolors="none", edgecolors="black", linewidths=0.9, zorder=3)
        axes.annotate(
            str(number), (float(point[0]), float(point[1])), xytext=best, textcoords="offset points", fontsize=9,
            fontweight="bold", color=colour, ha="center", va="center", zorder=4,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip


def _describe(found: OccurrenceMap, group: str, num_shown: int) -> str:
    if typical := found.typical_words.get(group):
        return ", ".join(typical)
    return "all occurrences" if num_shown == 1 and group == "cluster 1" else _shorten(group)


def _find_typical_words(occurrences: Sequence[Occurrence], groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return, for each of several groups, words near its occurrences that are rarer near the others."""
    near = [set(_list_near(each)) for each in occurrences]
    everywhere = Counter(word for words in near for word in words)
    found = {}
    for group in sorted(set(groups)):
        own = [words for words, each in zip(near, groups, strict=True) if each == group]
        counts = Counter(word for words in own for word in words)
        gains = {}
        for word, count in counts.items():
            inside = count / len(own)
            outside = (everywhere[word] - count + 0.5) / (len(near) - len(own) + 1)
            gains[word] = inside * math.log(inside / outside)
        words = [word for word in counts if counts[word] > 1 and gains[word] > 0]
        found[group] = tuple(sorted(words, key=lambda word, gains=gains: -gains[word])[:_TYPICAL_WORDS])  # type: ignore[misc]
    return found if len(found) > 1 else {}


def _list_near(occurrence: Occurrence) -> Iterator[str]:
    """Yield the content words around an occurrence."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words, start, end = occurrence.sentence.words, occurrence.start, occurrence.end
    for word in (*words[max(0, start - _WINDOW) : start], *words[end : end + _WINDOW]):
        folded = word.casefold()
        if word[:1].isalpha() and folded != occurrence.word.casefold() and folded not in ENGLISH_STOP_WORDS:
            yield folded


def _choose_contexts(points: Array, groups: Sequence[str], group: str, num_contexts: int) -> list[int]:
    """Return points of a group that lie apart: the central one, then the farthest from those chosen."""
    rows = np.asarray([row for row, each in enumerate(groups) if each == group])
    own = points[rows]
    distances = np.linalg.norm(own - own.mean(axis=0), axis=1)
    taken = [int(distances.argmin())]
    while len(taken) < min(num_contexts, len(rows)):
        nearest = np.linalg.norm(own[:, None] - own[None, taken], axis=-1).min(axis=1)
        nearest[distances > np.quantile(distances, 0.8)] = 0  # outliers are not typical
        taken.append(int(nearest.argmax()))
    return [int(rows[number]) for number in dict.fromkeys(taken[:num_contexts])]


def _project(vectors: Array, projection: Projection, seed: int) -> Array:
    reduced = reduce(vectors, 2 if projection == "pca" else 50)
    if projection == "tsne" and reduced.any():
        from sklearn.manifold import TSNE

        perplexity = min(30.0, (len(vectors) - 1) / 3)
        found = TSNE(perplexity=perplexity, init="random", random_state=seed).fit_transform(reduced)
        return np.asarray(found, dtype=np.float32)
    missing = 2 - min(2, reduced.shape[1])
    return np.pad(reduced[:, :2], ((0, 0), (0, missing)))


def _shorten(text: str) -> str:
    """Cut a text to what fits a line, around its [marked] word if it has one; Chinese characters count twice."""
    from rich.cells import cell_len

    if cell_len(text) <= _LONGEST_LINE:
        return text
    left, right = 0, len(text)
    mark = (text.find("[") + text.find("]")) / 2 if "[" in text else 0.0
    while cell_len(text[left:right]) > _LONGEST_LINE - 2:
        if mark - left > right - mark:
            left += 1
        else:
            right -= 1
    return f"{'…' if left else ''}{text[left:right]}{'…' if right < len(text) else ''}"
