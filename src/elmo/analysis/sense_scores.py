"""Clusters and labels -> how well they agree, beside what one cluster and a random cut would have."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

_RANDOM_CUTS = 10


@dataclass(frozen=True)
class SenseScores:
    """Adjusted Rand index (1: the same, 0: as by chance) and V-measure (0 to 1), and those of two baselines.

    `random` cuts the occurrences into clusters of the same sizes, without looking.
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
        """Give the JSON object."""
        return {
            name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(self).items()
        }


def score_clusters(labels: Sequence[str], numbers: Sequence[int], seed: int = 0) -> SenseScores:
    """Compare clusters with labels."""
    from sklearn.metrics import adjusted_rand_score, v_measure_score

    draw = np.random.default_rng(seed)
    cuts = [draw.permutation(np.asarray(numbers)) for _ in range(_RANDOM_CUTS)]
    whole = [0] * len(labels)
    return SenseScores(
        len(set(labels)),
        len(set(numbers)),
        float(adjusted_rand_score(labels, numbers)),
        float(v_measure_score(labels, numbers)),
        float(adjusted_rand_score(labels, whole)),
        float(v_measure_score(labels, whole)),
        statistics.mean(float(adjusted_rand_score(labels, cut)) for cut in cuts),
        statistics.mean(float(v_measure_score(labels, cut)) for cut in cuts),
    )
