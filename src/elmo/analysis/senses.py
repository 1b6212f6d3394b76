"""The occurrences of a word -> its senses: clusters of vectors, each with typical contexts and substitutes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo.analysis.clusters import Clusters, find_clusters, require_sklearn
from elmo.analysis.layer_choice import choose_layer
from elmo.analysis.occurrence_vectors import embed_occurrences
from elmo.analysis.occurrences import Occurrence, is_same_word
from elmo.analysis.sense_scores import SenseScores, score_clusters
from elmo.errors import InputError
from elmo.model import Elmo

_ASKED_FOR_SUBSTITUTES = 5  # typical occurrences of a sense
_SUBSTITUTES_EACH = 100


@dataclass(frozen=True)
class Substitute:
    """A word that would fit, and its mean probability at the typical occurrences of a sense."""

    word: str
    probability: float


@dataclass(frozen=True)
class Sense:
    """One cluster: how many occurrences, the most typical ones, and the words that would fit there."""

    num_occurrences: int
    typical: tuple[Occurrence, ...]
    substitutes: tuple[Substitute, ...]


@dataclass(frozen=True)
class WordSenses:
    """The senses of a word, the most frequent first; `numbers` is the sense of each occurrence."""

    word: str
    num_found: int  # occurrences in the corpus, of which `occurrences` may be a part
    occurrences: tuple[Occurrence, ...]
    numbers: tuple[int, ...]
    senses: tuple[Sense, ...]
    silhouette: float | None
    expected_silhouette: float | None  # of one cloud
    scores: SenseScores | None  # where occurrences have labels

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object."""
        return {
            "word": self.word,
            "num_found": self.num_found,
            "num_clustered": len(self.occurrences),
            "silhouette": self.silhouette,
            "expected_silhouette": self.expected_silhouette,
            "senses": [
                {
                    "num_occurrences": sense.num_occurrences,
                    "substitutes": [
                        {"word": each.word, "probability": round(each.probability, 6)}
                        for each in sense.substitutes
                    ],
                    "typical": [each.to_dict() for each in sense.typical],
                }
                for sense in self.senses
            ],
            "scores": None if self.scores is None else self.scores.to_dict(),
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
    advance: Callable[[int], None] = lambda num_sentences: None,
) -> WordSenses:
    """Cluster the occurrences of a word; without `num_senses` their number is found, and may be one."""
    require_sklearn()
    if not occurrences:
        raise InputError(f"{word!r} does not occur in the corpus; choose another word, or more text.")
    if num_senses is not None and not 1 <= num_senses <= len(occurrences):
        raise InputError(
            f"{num_senses} senses were asked for, but there are {len(occurrences)} occurrences; ask for 1 to "
            f"{len(occurrences)}."
        )
    vectors = embed_occurrences(model, occurrences, choose_layer(layer, model), advance)
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
    labels = [occurrence.label for occurrence in occurrences]
    is_labelled = all(label is not None for label in labels)
    return WordSenses(
        word,
        len(occurrences) if num_found is None else num_found,
        tuple(occurrences),
        tuple(clusters.numbers.tolist()),
        senses,
        clusters.silhouette,
        clusters.expected,
        score_clusters([str(label) for label in labels], clusters.numbers.tolist(), seed) if is_labelled else None,
    )


def _rank_typical(clusters: Clusters, occurrences: Sequence[Occurrence], number: int) -> list[Occurrence]:
    """Give the occurrences of a cluster, those nearest to its middle first, each sentence once."""
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
    """Give the words that fit each sense better than the others; none from a model that predicts no words."""
    if model.config.softmax is None or model.vocabulary is None:
        return [() for _ in typical]
    means = [_mean_substitutes(model, each) for each in typical]
    found = []
    for number, own in enumerate(means):
        others = [each for place, each in enumerate(means) if place != number]
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
    single = [each for each in occurrences if each.end - each.start == 1]
    for occurrence in single:
        for each in model.substitutes(occurrence.sentence.words, occurrence.start, top_k=_SUBSTITUTES_EACH):
            means[each.word] = means.get(each.word, 0.0) + math.exp(each.log_probability) / len(single)
    return means
