"""`elmo senses`: a word and a corpus -> the senses it has there; with labels, how well they were found."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.cli import options
from elmo.cli.corpus_options import (
    CorpusOptions,
    Labelled,
    MaxOccurrences,
    ModelOptions,
    OneLayer,
    Seed,
    expand_options,
)
from elmo.cli.terminal import fit
from elmo.errors import InputError
from elmo.files.rows import to_json

if TYPE_CHECKING:
    from elmo.analysis.senses import InductionScores, SenseScores, WordSenses

_CONTEXT_COLUMNS = 96
_WORDS_SHOWN = 20


@expand_options
def senses(
    word: Annotated[
        str | None,
        typer.Argument(
            metavar="WORD",
            show_default=False,
            help="The word, in upper or lower case. Without it, all frequent words of --labelled are evaluated.",
        ),
    ] = None,
    *,
    corpus: CorpusOptions,
    labelled: Labelled = None,
    layer: OneLayer = None,
    num_senses: Annotated[
        int | None, typer.Option("--senses", help="Number of senses, instead of detecting it.", min=1)
    ] = None,
    max_occurrences: MaxOccurrences = 1000,
    min_occurrences: Annotated[
        int, typer.Option(help="Without WORD: minimum number of occurrences of a word to evaluate.", min=2)
    ] = 50,
    max_words: Annotated[
        int | None, typer.Option(help="Without WORD: maximum number of words; more are sampled.", min=1)
    ] = None,
    contexts: Annotated[int, typer.Option(help="Number of typical contexts to show of each sense.", min=0)] = 3,
    seed: Seed = 0,
    json: options.AsJson = False,
    model: ModelOptions,
) -> None:
    """Find the senses that a word has in a text.

    Its occurrences are clustered; each sense is shown with typical contexts and with words that would fit there.

    \b
    Examples:
      elmo senses bank --corpus texts.txt
      elmo senses bank --labelled semcor.data.xml
      elmo senses --labelled semcor.data.xml --min-occurrences 50
    """
    from elmo.analysis import evaluate_induction, induce_senses, read_labelled

    if word is None:
        if labelled is None:
            raise InputError("Give a WORD to find the senses of, or --labelled FILE to evaluate all its words.")
        if num_senses is not None:
            raise InputError("--senses is for one WORD; each word of --labelled has its own number of senses.")
        words = read_labelled(labelled)
        scores = evaluate_induction(
            model.open(), words, layer=layer, min_occurrences=min_occurrences, max_occurrences=max_occurrences,
            max_words=max_words, seed=seed, progress=True,
        )  # fmt: skip
        print(to_json(scores.to_dict()) if json else "\n".join(_describe_scores(scores)))
        return
    (occurrences, num_found), elmo = corpus.find(word, labelled, model, max_occurrences, seed)
    found = induce_senses(
        elmo, word, occurrences, num_found=num_found, layer=layer, num_senses=num_senses, num_typical=contexts,
        seed=seed, progress=True,
    )  # fmt: skip
    print(to_json(found.to_dict()) if json else "\n".join(_describe_senses(found)))


def _describe_senses(found: "WordSenses") -> Iterator[str]:
    from elmo.analysis.senses import FEWEST_OCCURRENCES

    num_clustered = len(found.occurrences)
    sampled = f" ({num_clustered:,} of them sampled)" if num_clustered < found.num_found else ""
    senses = "one sense" if len(found.senses) == 1 else f"{len(found.senses)} senses"
    yield f"{found.word}: {senses} in {_count(found.num_found)}{sampled}."
    if num_clustered < FEWEST_OCCURRENCES:
        yield f"These are too few to tell senses apart; at least {FEWEST_OCCURRENCES} are needed."
    elif found.silhouette is not None and found.expected_silhouette is not None:
        yield f"Silhouette {found.silhouette:.3f}; a single cloud cut alike has {found.expected_silhouette:.3f}."
    for number, sense in enumerate(found.senses, start=1):
        yield ""
        yield f"{number}. {_count(sense.num_occurrences)}, {sense.num_occurrences / num_clustered:.0%}"
        if sense.substitutes:
            yield f"   would fit: {', '.join(each.word for each in sense.substitutes)}"
        for each in sense.typical:
            yield f"   {fit(each.mark(10), _CONTEXT_COLUMNS)}"
    if found.scores is not None:
        yield ""
        yield f"Against {found.scores.num_labels} labels:"
        yield from _tabulate(found.scores)


def _describe_scores(found: "InductionScores") -> Iterator[str]:
    from elmo.analysis.senses import SenseScores

    count = sum(each.num_occurrences for each in found.words)
    words = "word" if len(found.words) == 1 else "words"
    yield f"{len(found.words):,} {words}, {_count(count)}; means over the words:"
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


def _count(number: int) -> str:
    return f"{number:,} occurrence{'' if number == 1 else 's'}"
