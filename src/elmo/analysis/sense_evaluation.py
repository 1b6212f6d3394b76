"""Labelled words -> how well their senses are induced, word by word and on average."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from elmo.analysis.clusters import find_clusters, require_sklearn
from elmo.analysis.layer_choice import choose_layer
from elmo.analysis.occurrence_vectors import embed_occurrences
from elmo.analysis.occurrences import Occurrence
from elmo.analysis.sense_scores import SenseScores, score_clusters
from elmo.errors import InputError
from elmo.model import Elmo


@dataclass(frozen=True)
class WordScores:
    """One word."""

    word: str
    num_occurrences: int
    scores: SenseScores


@dataclass(frozen=True)
class InductionScores:
    """All words, and the mean of each score over them."""

    words: tuple[WordScores, ...]
    mean: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object."""
        return {
            "num_words": len(self.words),
            "mean": {name: round(value, 4) for name, value in self.mean.items()},
            "words": [
                {"word": each.word, "num_occurrences": each.num_occurrences, **each.scores.to_dict()}
                for each in self.words
            ],
        }


def evaluate_induction(
    model: Elmo,
    labelled: Mapping[str, Sequence[Occurrence]],
    *,
    layer: str | int | None = None,
    min_occurrences: int = 50,
    max_occurrences: int = 1000,
    max_words: int | None = None,
    seed: int = 0,
    advance: Callable[[int], None] = lambda num_sentences: None,
) -> InductionScores:
    """Induce the senses of every word with enough occurrences and two senses, and compare with the labels.

    Of a frequent word, and of many words, some are drawn by the seed.
    """
    require_sklearn()
    key = choose_layer(layer, model)
    chosen = choose_words(labelled, min_occurrences, max_words, seed)
    drawn = {word: draw_occurrences(labelled[word], max_occurrences, seed) for word in chosen}
    # All at once, for many sentences hold several of the words.
    vectors = embed_occurrences(model, [each for word in chosen for each in drawn[word]], key, advance)
    found, start = [], 0
    for word, occurrences in drawn.items():
        own = vectors[start : start + len(occurrences)]
        start += len(occurrences)
        numbers = find_clusters(own, seed=seed).numbers.tolist()
        labels = [str(occurrence.label) for occurrence in occurrences]
        found.append(WordScores(word, len(occurrences), score_clusters(labels, numbers, seed)))
    names = [field.name for field in fields(SenseScores)]
    mean = {name: statistics.mean(asdict(each.scores)[name] for each in found) for name in names}
    return InductionScores(tuple(found), mean)


def choose_words(
    labelled: Mapping[str, Sequence[Occurrence]], min_occurrences: int, max_words: int | None, seed: int
) -> list[str]:
    """Give the words to be evaluated: those with enough occurrences and more than one label, in order."""
    chosen = [
        word
        for word, occurrences in labelled.items()
        if len(occurrences) >= min_occurrences and len({each.label for each in occurrences}) > 1
    ]
    if not chosen:
        raise InputError(
            f"No word has {min_occurrences} labelled occurrences and two senses; lower --min-occurrences."
        )
    if max_words is not None and len(chosen) > max_words:
        chosen = random.Random(seed).sample(chosen, max_words)
    return sorted(chosen)


def draw_occurrences(occurrences: Sequence[Occurrence], max_occurrences: int, seed: int) -> list[Occurrence]:
    """Give all, or so many drawn by the seed."""
    if len(occurrences) <= max_occurrences:
        return list(occurrences)
    return random.Random(seed).sample(list(occurrences), max_occurrences)
