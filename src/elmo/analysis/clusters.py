"""Vectors -> clusters, and how many: as many as stand apart more clearly than one cloud of the same shape would.

The vectors are centred and reduced to their main directions. k-means gives clusters for each number; a silhouette
says how clearly they stand apart. A cloud without clusters has a silhouette too, so clouds drawn from a normal
distribution of the same directions are clustered beside it, and a number counts by how far it is above theirs.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo.analysis.layer_choice import Array, normalize
from elmo.errors import ConfigError, InputError

FEWEST = 10  # below, there is nothing to tell apart
MOST_SENSES = 8
_ENOUGH_POINTS = 3000  # to find the number of clusters by
_DIRECTIONS = 16
_CLOUDS = 5
_LEAST_SHARE = 0.05
_CLEARLY = 2.0  # standard deviations above the clouds,
_LEAST_MARGIN = 0.03  # and this much more
_NEARLY = 0.9  # of the best margin: fewer clusters that come so near are taken


@dataclass(frozen=True)
class Clusters:
    """The cluster of each vector, numbered by size, and how clearly they stand apart."""

    numbers: npt.NDArray[np.int64]
    silhouette: float | None  # None for one cluster
    expected: float | None  # the silhouette of one cloud cut alike
    reduced: Array

    @property
    def num_clusters(self) -> int:
        """How many there are."""
        return int(self.numbers.max()) + 1 if len(self.numbers) else 0


def find_clusters(vectors: Array, *, num_clusters: int | None = None, seed: int = 0) -> Clusters:
    """Cluster vectors (N, D) into `num_clusters`, or as many as there seem to be, one to MOST_SENSES."""
    reduced = reduce(vectors)
    # Equal sentences have equal vectors, and being repeated is no reason to be a cluster: each counts once.
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
    numbers, silhouette = _cut(points, num_clusters, seed)
    return Clusters(_by_size(numbers[place]), silhouette, expected, reduced)


def _choose_number(points: Array, seed: int) -> tuple[int, float | None]:
    """Give how many clusters there are, and the silhouette that clouds without any have when cut into as many."""
    draw = np.random.default_rng(seed)
    if len(points) > _ENOUGH_POINTS:
        points = points[np.sort(draw.permutation(len(points))[:_ENOUGH_POINTS])]
    if len(points) < FEWEST:
        return 1, None
    deviation = points.std(axis=0)
    clouds = [draw.standard_normal(points.shape, dtype=np.float32) * deviation for _ in range(_CLOUDS)]
    found: list[tuple[float, int, float]] = []
    for number in range(2, min(MOST_SENSES, len(points) // 3) + 1):
        numbers, silhouette = _cut(points, number, seed)
        if np.bincount(numbers).min() < max(2, _LEAST_SHARE * len(points)):
            continue  # a few odd ones out are no sense
        values = [_cut(cloud, number, seed)[1] for cloud in clouds]
        expected = float(np.mean(values))
        margin = silhouette - expected - _CLEARLY * float(np.std(values, ddof=1))
        if margin > _LEAST_MARGIN:
            found.append((margin, number, expected))
    best = max((margin for margin, *_ in found), default=0.0)
    return next(((number, expected) for margin, number, expected in found if margin >= _NEARLY * best), (1, None))


def reduce(vectors: Array, num_directions: int = _DIRECTIONS) -> Array:
    """Give the main directions (N, ≤ num_directions) of vectors, all scaled to length 1 and centred."""
    from sklearn.decomposition import PCA

    if len(vectors) < 2:
        return np.zeros((len(vectors), 1), dtype=np.float32)
    scaled = normalize(vectors)
    if np.allclose(scaled, scaled[0], atol=1e-6):
        return np.zeros((len(vectors), 1), dtype=np.float32)
    size = min(num_directions, len(vectors) - 1, vectors.shape[1])
    found = PCA(size, svd_solver="full" if len(vectors) < 500 else "randomized", random_state=0)
    return np.asarray(found.fit_transform(scaled), dtype=np.float32)


def require_sklearn() -> None:
    """Say how to get scikit-learn where it is missing."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise ConfigError("This needs scikit-learn: pip install 'modern-elmo[analysis]'.") from error


def _cut(points: Array, num_clusters: int, seed: int) -> tuple[npt.NDArray[np.int64], float]:
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    numbers = KMeans(num_clusters, n_init=4, random_state=seed).fit_predict(points).astype(np.int64)
    if num_clusters == len(points):
        return numbers, 0.0  # what a silhouette is by definition where every cluster has one point
    sample = min(len(points), 1000)
    try:
        return numbers, float(silhouette_score(points, numbers, sample_size=sample, random_state=seed))
    except ValueError:  # the sample fell into one cluster
        return numbers, -1.0


def _by_size(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    order = np.argsort(-np.bincount(numbers), kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return np.asarray(ranks[numbers], dtype=np.int64)
