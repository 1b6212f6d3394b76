"""The occurrences of a word -> its senses: clusters of vectors, each with typical contexts and substitutes.

The vectors are centred and reduced to their principal components, and k-means cuts them into 2, 3, ... clusters. A
cloud without clusters has a silhouette too, so normal clouds with the same variances are cut alike: the number of
senses is the one whose silhouette is most above theirs. If none clearly is, as with few occurrences, there are two
senses if the first component has two peaks, else one.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from elmo.analysis.layers import Array, choose_layer, embed_occurrences, normalize
from elmo.analysis.occurrences import Occurrence, is_same_word, sample_some
from elmo.errors import InputError
from elmo.extras import require
from elmo.model import Elmo

FEWEST_OCCURRENCES = 10  # below, senses are not looked for
MOST_SENSES = 8
_ENOUGH_POINTS = 3000  # to find the number of clusters
_COMPONENTS = 16
_CLOUDS = 5
_LEAST_SHARE = 0.05  # of a cluster
_CLEARLY = 2.0  # standard deviations above the clouds,
_LEAST_MARGIN = 0.03  # and this much more,
_MARGIN_BESIDE_PEAKS = 0.1  # or this much if there are two peaks
_NEARLY = 0.9  # of the best margin: the smallest number of clusters that reaches it is chosen
# Excess kurtosis of the first component: -2 of two points, -1.2 of a flat distribution, 0 of a normal one. Two
# equal senses have this much if 87% of its variance lies between them.
_TWO_PEAKS = -1.5
_STARTS, _STARTS_FEW_POINTS, _FEW_POINTS = 4, 50, 500  # of k-means
_RANDOM_CUTS = 10
_ASKED_FOR_SUBSTITUTES = 5  # typical occurrences of a sense
_SUBSTITUTES_EACH = 100
# Of a model of characters, runs of characters are searched, which takes longer: fewer, and in less text.
_RUNS_EACH, _UNITS_NEAR = 40, 24


@dataclass(frozen=True)
class Clusters:
    """The cluster of each vector, numbered by size, and how clearly they stand apart."""

    numbers: npt.NDArray[np.int64]
    silhouette: float | None  # None for one cluster
    expected: float | None  # the silhouette of clouds without clusters, if the number was chosen by them
    reduced: Array

    @property
    def num_clusters(self) -> int:
        """The number of clusters."""
        return int(self.numbers.max()) + 1 if len(self.numbers) else 0


class Substitute(NamedTuple):
    """A word that would fit, and its mean probability at the typical occurrences of a sense."""

    word: str
    probability: float


@dataclass(frozen=True)
class Sense:
    """One cluster: its size, its most typical occurrences, and the words that would fit there."""

    num_occurrences: int
    typical: tuple[Occurrence, ...]
    substitutes: tuple[Substitute, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        fitting = [{"word": word, "probability": round(share, 6)} for word, share in self.substitutes]
        typical = [each.to_dict() for each in self.typical]
        return {"num_occurrences": self.num_occurrences, "substitutes": fitting, "typical": typical}


@dataclass(frozen=True)
class SenseScores:
    """Agreement of clusters with labels: adjusted Rand index (1: equal, 0: chance) and V-measure (0 to 1).

    Two baselines: one cluster, and `random` clusters of the same sizes.
    """

    num_labels: int
    num_clusters: int
    adjusted_rand: float
    v_measure: float
    one_cluster_adjusted_rand: float
    one_cluster_v_measure: float
    random_adjusted_rand: float
    random_v_measure: float

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(self).items()
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
    expected_silhouette: float | None  # of clouds without clusters, if the number was chosen by them
    scores: SenseScores | None  # if the occurrences have labels

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "word": self.word,
            "num_found": self.num_found,
            "num_clustered": len(self.occurrences),
            "silhouette": self.silhouette,
            "expected_silhouette": self.expected_silhouette,
            "senses": [sense.to_dict() for sense in self.senses],
            "scores": None if self.scores is None else self.scores.to_dict(),
        }


class WordScores(NamedTuple):
    """How well the senses of one word were found."""

    word: str
    num_occurrences: int
    scores: SenseScores


@dataclass(frozen=True)
class InductionScores:
    """The scores of every word, and the mean of each score over the words."""

    words: tuple[WordScores, ...]
    mean: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "num_words": len(self.words),
            "mean": {name: round(value, 4) for name, value in self.mean.items()},
            "words": [
                {"word": each.word, "num_occurrences": each.num_occurrences, **each.scores.to_dict()}
                for each in self.words
            ],
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
    progress: bool = False,
) -> WordSenses:
    """Cluster the occurrences of a word into `num_senses`, or into as many senses as are found (maybe one)."""
    require_sklearn()
    if not occurrences:
        raise InputError(f"{word!r} does not occur in the corpus; choose another word, or more text.")
    if num_senses is not None and not 1 <= num_senses <= len(occurrences):
        raise InputError(
            f"{num_senses} senses were requested, but there are {len(occurrences)} occurrences; request 1 to "
            f"{len(occurrences)}."
        )
    vectors = embed_occurrences(model, occurrences, choose_layer(layer, model), progress=progress)
    clusters = find_clusters(vectors, num_clusters=num_senses, seed=seed)
    ranked = [_rank_typical(clusters, occurrences, number) for number in range(clusters.num_clusters)]
    substitutes = _own_substitutes(
        model, word, [each[:_ASKED_FOR_SUBSTITUTES] for each in ranked], num_substitutes
    )
    counts = np.bincount(clusters.numbers, minlength=clusters.num_clusters).tolist()
    senses = tuple(
        Sense(count, tuple(typical[:num_typical]), own)
        for count, typical, own in zip(counts, ranked, substitutes, strict=True)
    )
    numbers, scores = clusters.numbers.tolist(), None
    if all(occurrence.label is not None for occurrence in occurrences):
        scores = score_clusters([str(occurrence.label) for occurrence in occurrences], numbers, seed)
    num_found = len(occurrences) if num_found is None else num_found
    return WordSenses(
        word, num_found, tuple(occurrences), tuple(numbers), senses, clusters.silhouette, clusters.expected, scores
    )


def evaluate_induction(
    model: Elmo,
    labelled: Mapping[str, Sequence[Occurrence]],
    *,
    layer: str | int | None = None,
    min_occurrences: int = 50,
    max_occurrences: int = 1000,
    max_words: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> InductionScores:
    """Induce the senses of every word with enough occurrences and two senses, and compare them with the labels.

    Frequent words are sampled, and so are the words if there are more than `max_words`.
    """
    require_sklearn()
    key = choose_layer(layer, model)
    chosen = _choose_words(labelled, min_occurrences, max_words, seed)
    sampled = {word: sample_some(labelled[word], max_occurrences, seed) for word in chosen}
    # All at once, because many sentences have several of the words.
    everything = [each for word in chosen for each in sampled[word]]
    vectors = embed_occurrences(model, everything, key, progress=progress)
    ends = np.cumsum([len(occurrences) for occurrences in sampled.values()])
    found = []
    for (word, occurrences), own in zip(sampled.items(), np.split(vectors, ends[:-1]), strict=True):
        numbers = find_clusters(own, seed=seed).numbers.tolist()
        labels = [str(occurrence.label) for occurrence in occurrences]
        found.append(WordScores(word, len(occurrences), score_clusters(labels, numbers, seed)))
    names = [field.name for field in fields(SenseScores)]
    mean = {name: statistics.mean(asdict(each.scores)[name] for each in found) for name in names}
    return InductionScores(tuple(found), mean)


def score_clusters(labels: Sequence[str], numbers: Sequence[int], seed: int = 0) -> SenseScores:
    """Compare clusters with labels."""
    from sklearn.metrics import adjusted_rand_score, v_measure_score

    draw = np.random.default_rng(seed)
    random_cuts = [draw.permutation(np.asarray(numbers)) for _ in range(_RANDOM_CUTS)]
    measures = [
        statistics.mean(float(measure(labels, cut)) for cut in cuts)
        for cuts in ([numbers], [[0] * len(labels)], random_cuts)
        for measure in (adjusted_rand_score, v_measure_score)
    ]
    return SenseScores(len(set(labels)), len(set(numbers)), *measures)


def find_clusters(vectors: Array, *, num_clusters: int | None = None, seed: int = 0) -> Clusters:
    """Cluster vectors (N, D) into `num_clusters`, or into as many as are found, 1 to MOST_SENSES."""
    reduced = reduce(vectors)
    # Equal sentences have equal vectors; repetition does not make a cluster, so each counts once.
    points, place = np.unique(reduced.round(5), axis=0, return_inverse=True)
    place = place.reshape(-1)
    expected = None
    if num_clusters is None:
        num_clusters, expected = _choose_number(points, seed)
    elif num_clusters > max(1, len(points)):
        raise InputError(
            f"{len(points)} different context(s) cannot be cut into {num_clusters} senses; ask for fewer."
        )
    if num_clusters == 1:
        return Clusters(np.zeros(len(vectors), dtype=np.int64), None, None, reduced)
    numbers, silhouette = _cut(
        points, num_clusters, seed, num_starts=_STARTS_FEW_POINTS if len(points) <= _FEW_POINTS else _STARTS
    )
    return Clusters(_number_by_size(numbers[place]), silhouette, expected, reduced)


def reduce(vectors: Array, num_components: int = _COMPONENTS) -> Array:
    """Return the principal components (N, ≤ num_components) of vectors scaled to length 1."""
    from sklearn.decomposition import PCA

    scaled = normalize(vectors)
    if len(vectors) < 2 or np.allclose(scaled, scaled[0], atol=1e-6):
        return np.zeros((len(vectors), 1), dtype=np.float32)
    size = min(num_components, len(vectors) - 1, vectors.shape[1])
    found = PCA(size, svd_solver="full" if len(vectors) < 500 else "randomized", random_state=0)
    return np.asarray(found.fit_transform(scaled), dtype=np.float32)


def require_sklearn() -> None:
    """Raise ConfigError with the extra to install if scikit-learn is missing."""
    require("sklearn", "analysis", "Clustering")


def _choose_number(points: Array, seed: int) -> tuple[int, float | None]:
    """Return the number of clusters, and the silhouette of clouds without clusters that are cut into as many."""
    draw = np.random.default_rng(seed)
    if len(points) > _ENOUGH_POINTS:
        points = points[np.sort(draw.permutation(len(points))[:_ENOUGH_POINTS])]
    if len(points) < FEWEST_OCCURRENCES:
        return 1, None
    is_two = _has_two_peaks(points[:, 0])
    deviation = points.std(axis=0)
    clouds = [draw.standard_normal(points.shape, dtype=np.float32) * deviation for _ in range(_CLOUDS)]
    found: list[tuple[float, int, float]] = []
    for number in range(2, min(MOST_SENSES, len(points) // 3) + 1):
        numbers, silhouette = _cut(points, number, seed)
        if np.bincount(numbers).min() < max(2, _LEAST_SHARE * len(points)):
            continue  # a few outliers are not a sense
        values = [_cut(cloud, number, seed)[1] for cloud in clouds]
        expected = float(np.mean(values))
        margin = silhouette - expected - _CLEARLY * float(np.std(values, ddof=1))
        if margin > (_MARGIN_BESIDE_PEAKS if is_two else _LEAST_MARGIN):
            found.append((margin, number, expected))
    if not found:
        return 2 if is_two else 1, None
    best = max(margin for margin, *_ in found)
    return next((number, expected) for margin, number, expected in found if margin >= _NEARLY * best)


def _has_two_peaks(values: Array) -> bool:
    """Return whether values lie around two points of similar weight."""
    scaled = (values - values.mean()) / values.std()
    return float((scaled**4).mean()) - 3 < _TWO_PEAKS


def _cut(
    points: Array, num_clusters: int, seed: int, *, num_starts: int = _STARTS
) -> tuple[npt.NDArray[np.int64], float]:
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    numbers = KMeans(num_clusters, n_init=num_starts, random_state=seed).fit_predict(points).astype(np.int64)
    if num_clusters == len(points):
        return numbers, 0.0  # the definition of the silhouette if every cluster has one point
    sample = min(len(points), 1000)
    try:
        return numbers, float(silhouette_score(points, numbers, sample_size=sample, random_state=seed))
    except ValueError:  # the sample fell into one cluster
        return numbers, -1.0


def _number_by_size(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ranks = np.argsort(np.argsort(-np.bincount(numbers), kind="stable"))
    return np.asarray(ranks[numbers], dtype=np.int64)


def _rank_typical(clusters: Clusters, occurrences: Sequence[Occurrence], number: int) -> list[Occurrence]:
    """Return the occurrences of a cluster, nearest to its centre first, each sentence once."""
    members = np.flatnonzero(clusters.numbers == number)
    points = clusters.reduced[members]
    distances = np.linalg.norm(points - points.mean(axis=0), axis=1)
    found: dict[str, Occurrence] = {}
    for member in members[np.argsort(distances, kind="stable")].tolist():
        found.setdefault(occurrences[member].sentence.text, occurrences[member])
    return list(found.values())


def _own_substitutes(
    model: Elmo, word: str, typical: Sequence[Sequence[Occurrence]], num_wanted: int
) -> list[tuple[Substitute, ...]]:
    """Return the words that fit each sense better than the others; none from a model that predicts no words."""
    if model.config.softmax is None or model.vocabulary is None:
        return [() for _ in typical]
    means = [_mean_substitutes(model, each) for each in typical]
    found = []
    for own in means:
        others = [each for each in means if each is not own]
        margins = {
            substitute: probability - max((other.get(substitute, 0.0) for other in others), default=0.0)
            for substitute, probability in own.items()
            if not is_same_word(substitute, word) and any(map(str.isalnum, substitute))
        }
        best = sorted((each for each in margins if margins[each] > 0), key=lambda each: -margins[each])
        found.append(tuple(Substitute(each, own[each]) for each in best[:num_wanted]))
    return found


def _mean_substitutes(model: Elmo, occurrences: Sequence[Occurrence]) -> dict[str, float]:
    means: dict[str, float] = {}
    reads_spans = model.tokenization.reads_characters
    asked = [each for each in occurrences if reads_spans or each.end - each.start == 1]
    for occurrence in asked:
        words, start, end = occurrence.sentence.words, occurrence.start, occurrence.end
        if reads_spans:
            first = max(0, start - _UNITS_NEAR)
            words, start, end = words[first : end + _UNITS_NEAR], start - first, end - first
        top_k = _RUNS_EACH if reads_spans else _SUBSTITUTES_EACH
        for each in model.substitutes(words, (start, end), top_k=top_k):
            means[each.word] = means.get(each.word, 0.0) + math.exp(each.log_probability) / len(asked)
    return means


def _choose_words(
    labelled: Mapping[str, Sequence[Occurrence]], min_occurrences: int, max_words: int | None, seed: int
) -> list[str]:
    """Return the words with enough occurrences and more than one label, sorted."""
    chosen = [
        word
        for word, occurrences in labelled.items()
        if len(occurrences) >= min_occurrences and len({each.label for each in occurrences}) > 1
    ]
    if not chosen:
        raise InputError(
            f"No word has {min_occurrences} labelled occurrences and two senses; lower --min-occurrences."
        )
    return sorted(chosen if max_words is None else sample_some(chosen, max_words, seed))
