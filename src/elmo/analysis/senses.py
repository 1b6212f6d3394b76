"""Word sense induction: clusters of a word's occurrences, with typical contexts and substitutes.

The vectors are centred and clustered hierarchically (average linkage, cosine distance); members of small clusters
move to the nearest large one. The tree is cut where the silhouette is highest; if that is low, there is one sense.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from elmo.analysis.layers import Array, choose_layer, embed_layers
from elmo.analysis.occurrences import Occurrence, is_same_word
from elmo.errors import InputError
from elmo.extras import require
from elmo.inference.context import normalize
from elmo.model import Elmo

FEWEST_OCCURRENCES = 10  # with fewer, there is one sense
MOST_SENSES = 8
_MAX_TREE_POINTS = 2000  # further points join the nearest cluster
_MAX_CUTS = 20  # clusters, before small ones are merged
_MIN_SHARE = 0.1  # of the points that are in a large cluster
# Of several senses. With more occurrences than a few, the silhouette of vectors without clusters is lower.
_MIN_SILHOUETTE, _FEW = 0.24, 20
_OCCURRENCES_TO_SUBSTITUTE = 5  # the most typical of a sense
_SUBSTITUTES_EACH = 100
# Character-level models search runs of characters, which is slower: fewer substitutes, in a shorter context.
_RUNS_EACH, _CONTEXT_CHARACTERS = 40, 24


class Clusters(NamedTuple):
    """The cluster of each vector, numbered by size, and the silhouette of the clusters."""

    labels: npt.NDArray[np.int64]
    silhouette: float | None  # None for one cluster


class Substitute(NamedTuple):
    """A substitute and its mean probability at the typical occurrences of a sense."""

    word: str
    probability: float


@dataclass(frozen=True)
class Sense:
    """One cluster: its size, its most typical occurrences, and substitutes for the word there."""

    num_occurrences: int
    typical: tuple[Occurrence, ...]
    substitutes: tuple[Substitute, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "num_occurrences": self.num_occurrences,
            "substitutes": [{"word": word, "probability": round(share, 6)} for word, share in self.substitutes],
            "typical": [occurrence.to_dict() for occurrence in self.typical],
        }


@dataclass(frozen=True)
class WordSenses:
    """The senses of a word, the most frequent first; `numbers` is the sense of each occurrence."""

    word: str
    num_found: int  # occurrences in the corpus, of which `occurrences` may be a sample
    occurrences: tuple[Occurrence, ...]
    numbers: tuple[int, ...]
    senses: tuple[Sense, ...]
    silhouette: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "word": self.word,
            "num_found": self.num_found,
            "num_clustered": len(self.occurrences),
            "silhouette": self.silhouette,
            "senses": [sense.to_dict() for sense in self.senses],
        }


def induce_senses(
    model: Elmo,
    word: str,
    occurrences: Sequence[Occurrence],
    *,
    num_found: int | None = None,
    layer: str | int | None = None,
    num_senses: int | None = None,
    num_typical: int = 3,
    num_substitutes: int = 8,
    seed: int = 0,
    show_progress_bar: bool = False,
) -> WordSenses:
    """Cluster the occurrences of a word into `num_senses` senses, or into a detected number, which may be one."""
    require("sklearn", "analysis", "Clustering")
    if not occurrences:
        raise InputError(f"{word!r} does not occur in the corpus; choose another word, or more text.")
    key = choose_layer(layer, model)
    vectors = embed_layers(model, occurrences, [key], show_progress_bar=show_progress_bar)[key]
    labels, silhouette = find_clusters(vectors, num_clusters=num_senses, seed=seed)
    counts = np.bincount(labels).tolist()
    ranked = [_rank_typical(vectors, occurrences, np.flatnonzero(labels == label)) for label in range(len(counts))]
    typical = [cluster[:_OCCURRENCES_TO_SUBSTITUTE] for cluster in ranked]
    substitutes = _distinctive_substitutes(model, word, typical, num_substitutes)
    senses = tuple(
        Sense(count, tuple(cluster[:num_typical]), words)
        for count, cluster, words in zip(counts, ranked, substitutes, strict=True)
    )
    num_found = len(occurrences) if num_found is None else num_found
    return WordSenses(word, num_found, tuple(occurrences), tuple(labels.tolist()), senses, silhouette)


def find_clusters(vectors: Array, *, num_clusters: int | None = None, seed: int = 0) -> Clusters:
    """Cluster vectors (N, D) into `num_clusters`, or into a detected number from 1 to MOST_SENSES."""
    # Identical sentences have identical vectors; each counts once, because repetition does not make a cluster.
    distinct, row_of = np.unique(normalize(vectors).round(5), axis=0, return_inverse=True)
    points = distinct - distinct.mean(axis=0)
    one_cluster = Clusters(np.zeros(len(vectors), dtype=np.int64), None)
    if num_clusters is not None and not 1 <= num_clusters <= len(points):
        raise InputError(
            f"{num_clusters} senses were requested, but there are {len(points)} different contexts; request 1 to "
            f"{len(points)}."
        )
    if num_clusters == 1 or (num_clusters is None and len(points) < FEWEST_OCCURRENCES):
        return one_cluster
    sample = points[np.sort(np.random.default_rng(seed).permutation(len(points))[:_MAX_TREE_POINTS])]
    labels, silhouette = _cluster(sample, num_clusters)
    if num_clusters is None and silhouette < _MIN_SILHOUETTE * min(1.0, math.sqrt(_FEW / len(sample))):
        return one_cluster
    if len(sample) < len(points):
        labels = _assign_nearest(points, sample, labels)
    labels = labels[row_of.reshape(-1)]
    ranks = np.argsort(np.argsort(-np.bincount(labels), kind="stable"))
    return Clusters(np.asarray(ranks[labels], dtype=np.int64), silhouette)


def _cluster(points: Array, num_clusters: int | None) -> tuple[npt.NDArray[np.int64], float]:
    """Return the cut of the tree with the highest silhouette, into `num_clusters` or any number above 1."""
    from scipy.cluster.hierarchy import cut_tree, linkage
    from scipy.spatial.distance import squareform
    from sklearn.metrics import silhouette_score

    unit = normalize(points)
    distances = np.clip(1 - unit @ unit.T, 0, 2).astype(np.float64)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "average")
    min_size = max(2, _MIN_SHARE * len(points))
    best: tuple[npt.NDArray[np.int64], float] = np.zeros(len(points), dtype=np.int64), -1.0
    for cut in cut_tree(tree, range(2, min(_MAX_CUTS, len(points)) + 1)).T:
        labels = _merge_small(unit, cut, min_size)
        count = int(labels.max()) + 1
        if not 2 <= count <= MOST_SENSES or num_clusters not in (None, count):
            continue
        silhouette = float(silhouette_score(distances, labels, metric="precomputed"))
        if silhouette > best[1]:
            best = labels, silhouette
    if num_clusters is not None and best[1] == -1.0:  # every such cut has small clusters
        return cut_tree(tree, num_clusters)[:, 0].astype(np.int64), 0.0
    return best


def _merge_small(unit: Array, labels: npt.NDArray[np.int64], min_size: float) -> npt.NDArray[np.int64]:
    """Move the members of small clusters to the nearest large one; return a single cluster if none is large."""
    large = np.flatnonzero(np.bincount(labels) >= min_size)
    if not len(large):
        return np.zeros_like(labels)
    is_large = np.isin(labels, large)
    ranks = np.searchsorted(large, labels)
    return np.asarray(np.where(is_large, ranks, _assign_nearest(unit, unit[is_large], ranks[is_large])), np.int64)


def _assign_nearest(points: Array, members: Array, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Assign each point to the cluster whose mean has the highest cosine with it."""
    means = [members[labels == label].mean(axis=0) for label in range(int(labels.max()) + 1)]
    return np.asarray((normalize(points) @ normalize(np.stack(means)).T).argmax(axis=1), np.int64)


def _rank_typical(
    vectors: Array, occurrences: Sequence[Occurrence], members: npt.NDArray[np.int64]
) -> list[Occurrence]:
    """Return the occurrences of a cluster, nearest to its centre first, each sentence once."""
    points = normalize(vectors[members]).round(5)
    distances = np.linalg.norm(points - points.mean(axis=0), axis=1)
    by_text: dict[str, Occurrence] = {}
    for member in members[np.argsort(distances, kind="stable")].tolist():
        by_text.setdefault(occurrences[member].sentence.text, occurrences[member])
    return list(by_text.values())


def _distinctive_substitutes(
    model: Elmo, word: str, typical: Sequence[Sequence[Occurrence]], num_substitutes: int
) -> list[tuple[Substitute, ...]]:
    """Return the substitutes that fit each sense better than the others; none if the model has no softmax."""
    if model.config.softmax is None or model.vocabulary is None:
        return [() for _ in typical]
    means = [_mean_substitutes(model, occurrences) for occurrences in typical]
    distinctive = []
    for sense, mean in enumerate(means):
        others = means[:sense] + means[sense + 1 :]
        margins = {
            substitute: probability - max((other.get(substitute, 0.0) for other in others), default=0.0)
            for substitute, probability in mean.items()
            if not is_same_word(substitute, word) and any(map(str.isalnum, substitute))
        }
        best = sorted((substitute for substitute, margin in margins.items() if margin > 0), key=lambda x: -margins[x])
        distinctive.append(tuple(Substitute(substitute, mean[substitute]) for substitute in best[:num_substitutes]))
    return distinctive


def _mean_substitutes(model: Elmo, occurrences: Sequence[Occurrence]) -> dict[str, float]:
    means: dict[str, float] = {}
    reads_spans = model.tokenization.reads_characters
    single = [occurrence for occurrence in occurrences if reads_spans or occurrence.end - occurrence.start == 1]
    for occurrence in single:
        words, start, end = occurrence.sentence.words, occurrence.start, occurrence.end
        if reads_spans:
            first = max(0, start - _CONTEXT_CHARACTERS)
            words, start, end = words[first : end + _CONTEXT_CHARACTERS], start - first, end - first
        top_k = _RUNS_EACH if reads_spans else _SUBSTITUTES_EACH
        for substitute in model.substitutes(words, (start, end), top_k=top_k):
            probability = math.exp(substitute.log_probability) / len(single)
            means[substitute.word] = means.get(substitute.word, 0.0) + probability
    return means
