"""A word's occurrences -> points on a plane, and a picture of them by label or sense.

Senses are clusters, named by the words around them. Beside the map stand the senses with typical contexts, each
with the number of its point, so that no line has to lead from one to the other.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from elmo.analysis.layers import Array, LayerKey, choose_layer, embed_occurrences, name_layer, normalize
from elmo.analysis.occurrences import Occurrence, is_same_word, read_query
from elmo.analysis.segmentation import Cohesion, measure_cohesion
from elmo.analysis.senses import find_clusters, require_sklearn
from elmo.analysis.style import COLOURS, GREY, MARKERS, SOFT_INK, check_output, drawing, place_labels
from elmo.errors import InputError
from elmo.language import translate
from elmo.model import Elmo
from elmo.text.sentence_input import Sentence
from elmo.text.units import script_of

Projection: TypeAlias = Literal["pca", "tsne"]
OTHERS = "others"
ONE_SENSE = "all occurrences"
_LONGEST_HAN_WORD = 3  # characters
_WINDOW = 6  # words on each side of an occurrence that may name its sense
_TYPICAL_WORDS = 3
_CONTEXT_WORDS = 5
_LONGEST_LINE = 58  # characters
_LINE_INCHES = 0.185
_HAN_STOP = frozenset("们有不个一去来到说过为")  # Chinese characters of words that say little about a sense


@dataclass(frozen=True)
class OccurrenceMap:
    """Occurrences, their points (N, 2), and the name of the group of each: its label or its sense.

    A sense is named by its `typical_words`, which set it apart from the others; labels have none.
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


@dataclass(frozen=True)
class SenseMap:
    """One word in several sentences: the sense of each occurrence, and its points (N, 2) by each layer.

    All points are in one unit, that of vectors of length 1, and turned to agree with the last layer as well as
    possible, so that the layers can be drawn side by side on equal axes.
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    senses: tuple[int, ...]  # of each occurrence, from 0, the most frequent first
    names: tuple[tuple[str, ...], ...]  # of each sense, the words that name it
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
                {"words": each.sentence.words, "start": each.start, "end": each.end, "sense": sense}
                for each, sense in zip(self.occurrences, self.senses, strict=True)
            ],
            "layers": [
                {"layer": layer, "points": [[round(float(x), 4), round(float(y), 4)] for x, y in points]}
                for layer, points in self.points.items()
            ],
        }


def map_senses(
    model: Elmo,
    sentences: Sequence[Sentence | Occurrence],
    *,
    layers: Sequence[str | int] | None = None,
    num_senses: int | None = None,
    seed: int = 0,
) -> SenseMap:
    """Place a word of three or more sentences, [marked] in each, on a plane by each of the layers.

    By default every layer, and meaning if the model has a context layer. The senses are `num_senses` clusters, or
    as many as are found, by the last of the layers.
    """
    require_sklearn()
    read = [
        each if isinstance(each, Occurrence) else read_query(each, tokenization=model.tokenization)
        for each in sentences
    ]
    if len(read) < 3:
        raise InputError(f"{len(read)} sentence(s) were given; a map of senses needs at least 3.")
    if num_senses is not None and not 1 <= num_senses <= len(read):
        raise InputError(
            f"{num_senses} senses were requested, but there are {len(read)} sentences; request 1 to {len(read)}."
        )
    chosen: list[str | int | None] = list(layers) if layers else [*range(model.num_layers)]
    if not layers and model.context is not None:
        chosen.append("meaning")
    keys = list(dict.fromkeys(choose_layer(layer, model) for layer in chosen))
    vectors = {key: embed_occurrences(model, read, key) for key in keys}
    found = find_clusters(vectors[keys[-1]], num_clusters=num_senses, seed=seed)
    points = {key: _project(each, "pca", seed) for key, each in vectors.items()}
    last = points[keys[-1]]
    points = {key: each if key == keys[-1] else _turn(each, last) for key, each in points.items()}
    numbers = tuple(found.numbers.tolist())
    names = name_senses(read, numbers, model)
    return SenseMap(read[0].word, tuple(read), numbers, tuple(names), points)


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
    return map_occurrences(word, occurrences, vectors, projection=projection, seed=seed, model=model)


def map_occurrences(
    word: str,
    occurrences: Sequence[Occurrence],
    vectors: Array,
    *,
    projection: Projection = "pca",
    seed: int = 0,
    model: Elmo | None = None,
) -> OccurrenceMap:
    """Place occurrences on a plane by their vectors; groups are their labels if all have one, else senses.

    A `model` helps to name senses whose contexts share few words.
    """
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
        numbers = find_clusters(vectors, seed=seed).numbers.tolist()
        names = name_senses(occurrences, numbers, model)
        joined = [", ".join(words) or ONE_SENSE for words in names]
        groups = tuple(joined[number] for number in numbers)
        typical = {name: words for name, words in zip(joined, names, strict=True) if words}
    return OccurrenceMap(word, tuple(occurrences), _project(vectors, projection, seed), groups, projection, typical)


def name_senses(
    occurrences: Sequence[Occurrence], numbers: Sequence[int], model: Elmo | None = None
) -> list[tuple[str, ...]]:
    """Return words that name each sense: near its occurrences and rarer near the others; () for a single sense.

    Words that occur several times come first. A `model` adds words that are more like the context of this sense
    than like that of the others; without one, words that occur once are added. No two senses have the same name.
    """
    num_senses = max(numbers) + 1
    if num_senses == 1:
        return [()]
    sentences = [each.sentence.words for each in occurrences]
    cohesions = measure_cohesion(model, sentences)
    near = [Counter(dict.fromkeys(_list_near(*each), 1)) for each in zip(occurrences, cohesions, strict=True)]
    found: list[tuple[str, ...]] = []
    for sense in range(num_senses):
        own = sum((words for words, each in zip(near, numbers, strict=True) if each == sense), Counter())
        other = sum((words for words, each in zip(near, numbers, strict=True) if each != sense), Counter())
        count = list(numbers).count(sense)
        gains = {}
        for word in own:
            inside, outside = own[word] / count, (other[word] + 0.5) / (len(near) - count + 1)
            gains[word] = inside * math.log(inside / outside)
        alike = _compare_with_contexts(own, other, model)
        ranked = sorted(
            [word for word in own if gains[word] > 0] or own,  # of a large sense, no word may stand out
            key=lambda word, own=own, gains=gains, alike=alike: (own[word] < 2, -gains[word], -alike[word]),
        )
        taken = {word for words in found for word in words}
        words: list[str] = []
        for word in ranked:
            # Pairs of Chinese characters overlap: after 存钱, 钱取 says nothing.
            overlaps = script_of(word[0]) == "Han" and any(set(word) & set(other) for other in words)
            if len(words) < _TYPICAL_WORDS and word not in taken and not overlaps:
                words.append(word)
        found.append(tuple(words) or (f"sense {sense + 1}",))
    return found


def _compare_with_contexts(own: Counter[str], other: Counter[str], model: Elmo | None) -> dict[str, float]:
    """Return how much more like the own words each of them is than like the others, by layer 0."""
    if model is None or not own or not other:
        return dict.fromkeys(own, 0.0)
    mine, theirs = (normalize(model.word_vectors(list(words))) for words in (own, other))
    margins = mine @ (normalize(mine.mean(axis=0)) - normalize(theirs.mean(axis=0)))
    return dict(zip(own, margins.tolist(), strict=True))


def _turn(points: Array, target: Array) -> Array:
    """Return points rotated or mirrored around their mean, which is 0, to lie as near to `target` as possible."""
    left, _, right = np.linalg.svd(points.T @ target)
    return np.asarray(points @ (left @ right), dtype=np.float32)


def draw_senses(found: SenseMap, output: str | Path, *, title: str | None = None, font: Path | None = None) -> None:
    """Draw the occurrences by each layer side by side, on equal axes, so that senses are seen to fall apart."""
    path = check_output(output)
    names = [", ".join(words) or ONE_SENSE for words in found.names]
    panels = list(found.points.items())
    reach = 1.12 * max(float(np.abs(points).max()) for _, points in panels) or 1.0
    width = 2.1 * len(panels) + 0.4
    title = title or f"“{found.word}” in {len(found.occurrences)} sentences"
    with drawing(path, (width, 3.2), [title, *names], font=font) as figure:
        from matplotlib.lines import Line2D

        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for part, (layer, points) in zip(axes, panels, strict=True):
            part.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], aspect="equal")
            part.spines[:].set(visible=True, color="#E0E4E8")
            part.set_title("layer 0, no sentence" if layer == 0 else name_layer(layer), fontsize=10.5, color=SOFT_INK)
            is_one_point = float(np.abs(points - points.mean(axis=0)).max()) < 1e-3 * reach
            for sense in [] if is_one_point else range(len(names)):
                rows = [row for row, each in enumerate(found.senses) if each == sense]
                part.scatter(
                    *points[rows].T, s=44, color=COLOURS[sense % len(COLOURS)],
                    marker=MARKERS[sense % len(MARKERS)], alpha=0.8, linewidths=0.7, edgecolors="white",
                )  # fmt: skip
            if is_one_point:  # the senses would cover each other
                part.scatter(*points.mean(axis=0), s=60, color=SOFT_INK, linewidths=0)
                place_labels(part, points[:1], [translate(f"all {len(points)}")], [SOFT_INK], size=10)
        figure.suptitle(title, x=0.012, ha="left")
        signs = [
            Line2D([], [], linestyle="", markersize=8, color=COLOURS[sense % len(COLOURS)],
                   marker=MARKERS[sense % len(MARKERS)], label=name)
            for sense, name in enumerate(names)
        ]  # fmt: skip
        figure.legend(handles=signs, loc="outside lower center", ncols=min(len(names), 3), handletextpad=0.3)


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
            heading = f"{_shorten(group)} ({len(rows):,})"
            side.text(0.045, line, heading, va="center", fontweight="bold", fontsize=10)
            line += 1.1
            for row in contexts.get(group, ()):
                numbered.append((row, colour))
                context = _shorten(found.occurrences[row].mark(_CONTEXT_WORDS))
                side.text(0.03, line, str(len(numbered)), va="center", ha="right", fontsize=8, color=colour)
                side.text(0.045, line, context, va="center", fontsize=8.5)
                line += 1
            line += 0.6
        shown_points = found.points[[row for row, _ in numbered]]
        if numbered:
            axes.scatter(*shown_points.T, s=90, facecolors="none", edgecolors=SOFT_INK, linewidths=0.9, zorder=3)
            texts = [str(number + 1) for number in range(len(numbered))]
            place_labels(axes, shown_points, texts, [colour for _, colour in numbered])


def _list_near(occurrence: Occurrence, cohesion: Cohesion) -> Iterator[str]:
    """Yield the content words around an occurrence; in Chinese, which has no spaces, runs that are words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words, start, end = occurrence.sentence.words, occurrence.start, occurrence.end
    longest = _LONGEST_HAN_WORD if cohesion.is_known else 2
    for first, last in ((max(0, start - _WINDOW), start), (end, min(len(words), end + _WINDOW))):
        for place in range(first, last):
            word = words[place]
            if len(word) == 1 and script_of(word) == "Han":
                for length in range(2, min(longest, last - place) + 1):
                    run = words[place : place + length]
                    if not all(len(each) == 1 and script_of(each) == "Han" for each in run):
                        break
                    if not set(run) & _HAN_STOP and cohesion.is_word(place, place + length):
                        yield "".join(run)
            elif (
                len(word) > 1
                and word[0].isalpha()
                and not is_same_word(word, occurrence.word)
                and word.casefold() not in ENGLISH_STOP_WORDS
            ):
                yield word.casefold()


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
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    scaled = normalize(vectors)
    if np.allclose(scaled, scaled[0], atol=1e-6):
        return np.zeros((len(vectors), 2), dtype=np.float32)
    size = min(2 if projection == "pca" else 50, len(vectors) - 1, vectors.shape[1])
    solver = "full" if len(vectors) < 500 else "randomized"
    points = PCA(size, svd_solver=solver, random_state=0).fit_transform(scaled)
    if projection == "tsne":
        perplexity = min(30.0, (len(vectors) - 1) / 3)
        points = TSNE(perplexity=perplexity, init="random", random_state=seed).fit_transform(points)
    return np.pad(np.asarray(points, dtype=np.float32), ((0, 0), (0, 2 - points.shape[1])))


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
    if left and " " in text[left : int(mark)]:  # whole words, where there are spaces
        left = text.index(" ", left) + 1
    if right < len(text) and " " in text[int(mark) : right]:
        right = text.rindex(" ", 0, right)
    return f"{'…' if left else ''}{text[left:right]}{'…' if right < len(text) else ''}"
