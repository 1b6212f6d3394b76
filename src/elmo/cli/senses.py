"""`elmo senses`: a word and a corpus -> the senses it has there; with labels, how well they were found."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.cli import analysis_options, options
from elmo.cli.opening import open_model
from elmo.cli.senses_report import tell_scores, tell_senses
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import check_text
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.analysis.sense_evaluation import InductionScores
    from elmo.model import Elmo


def senses(
    word: Annotated[
        str | None, typer.Argument(metavar="WORD", show_default=False, help="The word, in any capital letters.")
    ] = None,
    corpus: analysis_options.Corpus = None,
    labelled: Annotated[
        str | None,
        typer.Option(
            "--labelled",
            metavar="FILE",
            help="In place of a corpus: X.data.xml with X.gold.key.txt beside it, or lines of label, tab, and "
            "sentence with the [word]. Without WORD, all its frequent words are evaluated.",
        ),
    ] = None,
    layer: analysis_options.OneLayer = None,
    num_senses: Annotated[
        int | None, typer.Option("--senses", help="How many there are, instead of finding out.", min=1)
    ] = None,
    max_occurrences: Annotated[
        int, typer.Option(help="Of a more frequent word, so many are drawn by the seed.", min=1)
    ] = 1000,
    min_occurrences: Annotated[
        int, typer.Option(help="Of --labelled without WORD: evaluate words with so many.", min=2)
    ] = 50,
    max_words: Annotated[
        int | None, typer.Option(help="Of --labelled without WORD: so many words, drawn by the seed.", min=1)
    ] = None,
    contexts: Annotated[int, typer.Option(help="How many typical contexts to show of each sense.", min=0)] = 3,
    source: analysis_options.SourcePatterns = None,
    sentences: analysis_options.SentenceRange = None,
    split: analysis_options.SplitChoice = analysis_options.Split.sentences,
    language: analysis_options.Language = None,
    field: analysis_options.Field = "text",
    split_on_spaces: options.SplitOnSpaces = False,
    seed: analysis_options.Seed = 0,
    json: options.AsJson = False,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    device: options.Device = "cpu",
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Find the senses that a word has in a text.

    Its occurrences are clustered; each sense comes with typical contexts and with words that would fit there.

    \b
    Examples:
      elmo senses bank --corpus texts.txt
      elmo senses bank --labelled semcor.data.xml
      elmo senses --labelled semcor.data.xml --min-occurrences 50
    """
    if labelled is not None and corpus:
        raise InputError("--corpus and --labelled were both given; the occurrences come from one of them.")
    if labelled is not None and (source or sentences):
        raise InputError("--source and --sentences choose a part of --corpus; with --labelled leave them out.")

    def open_it() -> "Elmo":
        return open_model(model, format=format, device=device, local_files_only=local_files_only)

    if word is None:
        if labelled is None:
            raise InputError("Give a WORD to find the senses of, or --labelled FILE to evaluate all its words.")
        if num_senses is not None:
            raise InputError("--senses is for one WORD; each word of --labelled has its own number of senses.")
        scores = _evaluate(open_it, labelled, layer, min_occurrences, max_occurrences, max_words, seed)
        print(to_json(scores.to_dict()) if json else "\n".join(tell_scores(scores)))
        return
    check_text(word, "The word")
    if labelled is not None:
        from elmo.analysis.labelled_words import read_labelled
        from elmo.analysis.sense_evaluation import draw_occurrences

        all_occurrences = read_labelled(labelled, word)[word]
        occurrences, num_found = draw_occurrences(all_occurrences, max_occurrences, seed), len(all_occurrences)
        elmo = open_it()
    else:
        reading = analysis_options.make_reading(split, language, field, split_on_spaces)
        opened = analysis_options.open_corpus(corpus, reading)
        part = analysis_options.make_part(source, sentences)
        occurrences, num_found = analysis_options.find_word(opened, word, part, reading, max_occurrences, seed)
        elmo = analysis_options.open_model_of(
            opened, model, format=format, device=device, local_files_only=local_files_only
        )
    from elmo.analysis.senses import induce_senses

    with progress_bar(unit="sentences", num_bytes=None, prints=False) as advance:
        found = induce_senses(
            elmo, word, occurrences, num_found=num_found, layer=layer, num_senses=num_senses,
            num_typical=contexts, seed=seed, advance=analysis_options.count_sentences(advance),
        )  # fmt: skip
    print(to_json(found.to_dict()) if json else "\n".join(tell_senses(found)))


def _evaluate(
    open_it: "Callable[[], Elmo]",
    labelled: str,
    layer: str | None,
    min_occurrences: int,
    max_occurrences: int,
    max_words: int | None,
    seed: int,
) -> "InductionScores":
    from elmo.analysis.labelled_words import read_labelled
    from elmo.analysis.sense_evaluation import evaluate_induction

    words = read_labelled(labelled)
    with progress_bar(unit="sentences", num_bytes=None, prints=False) as advance:
        return evaluate_induction(
            open_it(), words, layer=layer, min_occurrences=min_occurrences, max_occurrences=max_occurrences,
            max_words=max_words, seed=seed, advance=analysis_options.count_sentences(advance),
        )  # fmt: skip
