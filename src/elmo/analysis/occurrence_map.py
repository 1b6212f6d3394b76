"""A word's occurrences -> points on a plane, and a picture of them coloured by cluster or label."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from elmo.analysis.clusters import find_clusters, reduce, require_sklearn
from elmo.analysis.drawing import COLOURS, GREY, MARKERS, check_output, drawing
from elmo.analysis.label_placing import place_labels
from elmo.analysis.layer_choice import Array
from elmo.analysis.occurrences import Occurrence
from elmo.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Projection: TypeAlias = Literal["pca", "tsne"]
PROJECTIONS: tuple[Projection, ...] = ("pca", "tsne")
OTHERS = "others"
_CONTEXT_WORDS = 3
_LONGEST_LABEL = 44


@dataclass(frozen=True)
class OccurrenceMap:
    """Occurrences, their points (N, 2), and the name of the group of each: its label or its cluster."""

    word: str
    occurrences: tuple[Occurrence, ...]
    points: Array
    groups: tuple[str, ...]
    projection: Projection

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object."""
        return {
            "word": self.word,
            "projection": self.projection,
            "points": [
                {"x": round(float(x), 4), "y": round(float(y), 4), "group": group, **occurrence.to_dict()}
                for (x, y), group, occurrence in zip(self.points, self.groups, self.occurrences, strict=True)
            ],
        }


def map_occurrences(
    word: str,
    occurrences: Sequence[Occurrence],
    vectors: Array,
    *,
    projection: Projection = "pca",
    seed: int = 0,
) -> OccurrenceMap:
    """Place occurrences on a plane by their vectors; groups are their labels if all have one, else clusters."""
    require_sklearn()
    if projection not in PROJECTIONS:
        raise InputError(f"The projection is {projection!r}; choose {' or '.join(PROJECTIONS)}.")
    if len(occurrences) < 3:
        raise InputError(f"{word!r} has {len(occurrences)} occurrence(s); a map needs at least 3.")
    labels = [occurrence.label for occurrence in occurrences]
    if all(label is not None for label in labels):
        groups = tuple(map(str, labels))
    else:
        numbers = find_clusters(vectors, seed=seed).numbers
        groups = tuple(f"cluster {number + 1}" for number in numbers)
    return OccurrenceMap(word, tuple(occurrences), _project(vectors, projection, seed), groups, projection)


def draw_occurrence_map(
    found: OccurrenceMap, output: str | Path, *, num_contexts: int = 3, font: Path | None = None
) -> None:
    """Draw the map, with the contexts of some points of each group where there is room for them."""
    check_output(output)
    counts = Counter(found.groups)
    shown = [group for group, _ in counts.most_common(len(COLOURS))]
    if len(counts) > len(shown):
        shown = shown[:-1]
    groups = [group if group in shown else OTHERS for group in found.groups]
    texts = [*counts, found.word, *(each.mark(_CONTEXT_WORDS) for each in found.occurrences)]
    with drawing(output, (9.5, 6.2), texts, font=font) as figure:
        axes = figure.subplots()
        for number, group in enumerate([*shown, OTHERS]):
            rows = [row for row, each in enumerate(groups) if each == group]
            if rows:
                _draw_group(axes, found.points[rows], group, number if group != OTHERS else None)
        name = "PCA" if found.projection == "pca" else "t-SNE"
        axes.set_title(f"“{found.word}”: {len(groups):,} occurrences ({name})")
        axes.set(xticks=[], yticks=[])
        axes.margins(0.12)
        axes.spines[:].set_color("#CCCCCC")
        legend_title = "label" if found.occurrences[0].label is not None else None
        figure.legend(loc="outside lower center", ncols=_count_columns(counts), title=legend_title, frameon=False)
        chosen = _choose_contexts(found, groups, num_contexts)
        labels = [(found.points[row], _shorten(found.occurrences[row].mark(_CONTEXT_WORDS))) for row in chosen]
        place_labels(figure, axes, found.points, labels)


def _draw_group(axes: "Axes", points: Array, name: str, number: int | None) -> None:
    colour, marker = (GREY, ".") if number is None else (COLOURS[number], MARKERS[number])
    size = 34 if len(points) < 500 else 14
    axes.scatter(
        points[:, 0], points[:, 1], s=size, color=colour, marker=marker, alpha=0.75, linewidths=0,
        label=f"{_shorten(name)} ({len(points):,})",
    )  # fmt: skip


def _choose_contexts(found: OccurrenceMap, groups: Sequence[str], num_contexts: int) -> list[int]:
    """Give points of each group that lie apart from each other: the middle one, then the farthest from those."""
    chosen = []
    for group in dict.fromkeys(groups):
        rows = np.asarray([row for row, each in enumerate(groups) if each == group])
        points = found.points[rows]
        distances = np.linalg.norm(points - points.mean(axis=0), axis=1)
        taken = [int(distances.argmin())]
        while len(taken) < min(num_contexts, len(rows)):
            nearest = np.linalg.norm(points[:, None] - points[None, taken], axis=-1).min(axis=1)
            # Outliers are far from everything and typical of nothing.
            nearest[distances > np.quantile(distances, 0.8)] = 0
            taken.append(int(nearest.argmax()))
        chosen += [int(rows[number]) for number in dict.fromkeys(taken[:num_contexts])]
    return chosen


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
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"


def _count_columns(names: Counter[str]) -> int:
    longest = max(map(len, names))
    return max(1, min(4, 80 // (longest + 10)))
