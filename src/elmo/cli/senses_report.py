"""Senses, and scores of senses -> the lines that `elmo senses` prints."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from elmo.cli.text_width import fit

if TYPE_CHECKING:
    from elmo.analysis.sense_evaluation import InductionScores
    from elmo.analysis.sense_scores import SenseScores
    from elmo.analysis.senses import WordSenses

CONTEXT_COLUMNS = 96
_WORDS_SHOWN = 20


def tell_senses(found: "WordSenses") -> Iterator[str]:
    """Give the lines on one word."""
    from elmo.analysis.clusters import FEWEST

    num_clustered = len(found.occurrences)
    drawn = f", {num_clustered:,} of them drawn" if num_clustered < found.num_found else ""
    senses = "one sense" if len(found.senses) == 1 else f"{len(found.senses)} senses"
    yield f"{found.word}: {senses} in {found.num_found:,} occurrence(s){drawn}."
    if num_clustered < FEWEST:
        yield f"So few cannot be told apart; from {FEWEST} occurrences on, senses are looked for."
    elif found.silhouette is not None and found.expected_silhouette is not None:
        yield f"Silhouette {found.silhouette:.3f}; one cloud cut alike would have {found.expected_silhouette:.3f}."
    for number, sense in enumerate(found.senses, start=1):
        yield ""
        yield f"{number}. {sense.num_occurrences:,} occurrence(s), {sense.num_occurrences / num_clustered:.0%}"
        if sense.substitutes:
            yield f"   would fit: {', '.join(each.word for each in sense.substitutes)}"
        for each in sense.typical:
            yield f"   {fit(each.mark(10), CONTEXT_COLUMNS)}"
    if found.scores is not None:
        yield ""
        yield f"Against {found.scores.num_labels} labels:"
        yield from _tabulate(found.scores)


def tell_scores(found: "InductionScores") -> Iterator[str]:
    """Give the lines on many words: the means, and the most frequent words."""
    from elmo.analysis.sense_scores import SenseScores

    count = sum(each.num_occurrences for each in found.words)
    yield f"{len(found.words):,} words, {count:,} occurrences; means over the words:"
    yield ""
    yield from _tabulate(SenseScores(**found.mean))  # type: ignore[arg-type]
    yield ""
    yield "| word | occurrences | labels | clusters | adjusted Rand | V-measure |"
    yield "|---|---|---|---|---|---|"
    for each in sorted(found.words, key=lambda each: -each.num_occurrences)[:_WORDS_SHOWN]:
        scores = each.scores
        yield (
            f"| {each.word} | {each.num_occurrences} | {scores.num_labels} | {scores.num_clusters} | "
            f"{scores.adjusted_rand:.3f} | {scores.v_measure:.3f} |"
        )
    if len(found.words) > _WORDS_SHOWN:
        yield f"({len(found.words) - _WORDS_SHOWN:,} less frequent words are in --json.)"


def _tabulate(scores: "SenseScores") -> Iterator[str]:
    yield "| | adjusted Rand | V-measure |"
    yield "|---|---|---|"
    yield f"| clusters | {scores.adjusted_rand:.3f} | {scores.v_measure:.3f} |"
    yield f"| one cluster | {scores.one_cluster_adjusted_rand:.3f} | {scores.one_cluster_v_measure:.3f} |"
    yield f"| random, same sizes | {scores.random_adjusted_rand:.3f} | {scores.random_v_measure:.3f} |"
