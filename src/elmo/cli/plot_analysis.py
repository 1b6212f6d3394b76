"""`elmo plot similarity` and `elmo plot map`: pictures that a model is asked for."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from elmo.cli import analysis_options, options
from elmo.cli.opening import open_model
from elmo.cli.plot_options import PictureFile, PictureFont
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import check_text
from elmo.progress import progress_bar


class Projection(str, Enum):
    """How vectors become points."""

    pca = "pca"
    tsne = "tsne"


def plot_similarity(
    first: Annotated[str, typer.Argument(metavar="SENTENCE", help="A sentence.")],
    second: Annotated[str, typer.Argument(metavar="SENTENCE", help="Another one, or the same.")],
    layer: Annotated[
        list[str] | None,
        typer.Option(
            "--layers",
            metavar="LAYER",
            show_default="meaning, or average without a context layer",
            help="A layer's number, top, average, meaning; repeatable.",
        ),
    ] = None,
    output: PictureFile = Path("similarity.png"),
    split_on_spaces: options.SplitOnSpaces = False,
    font: PictureFont = None,
    json: options.AsJson = False,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    device: options.Device = "cpu",
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Draw how alike the words of two sentences are.

    \b
    Example:
      elmo plot similarity "I sat by the river bank" "The bank lent me money" --layers 0 --layers 2
    """
    from elmo.analysis.drawing import check_output
    from elmo.analysis.similarity_map import compare_sentences, draw_similarity_map

    for sentence in (first, second):
        check_text(sentence, "The sentence")
    check_output(output)
    elmo = open_model(model, format=format, device=device, local_files_only=local_files_only)
    words = [
        [word.text for word in elmo.tokenize(each, split_on_spaces=split_on_spaces)] for each in (first, second)
    ]
    maps = compare_sentences(elmo, words[0], words[1], layers=layer)
    draw_similarity_map(maps, output, font=font)
    print(to_json([each.to_dict() for each in maps]) if json else f"{output} shows {len(maps)} map(s).")


def plot_map(
    word: Annotated[str, typer.Argument(metavar="WORD", help="The word, in any capital letters.")],
    corpus: analysis_options.Corpus = None,
    labelled: Annotated[
        str | None,
        typer.Option(
            "--labelled",
            metavar="FILE",
            help="In place of a corpus, with labels: X.data.xml with X.gold.key.txt beside it, or lines of label, "
            "tab, and sentence with the [word].",
        ),
    ] = None,
    layer: analysis_options.OneLayer = None,
    projection: Annotated[Projection, typer.Option(help="PCA, or t-SNE.")] = Projection.pca,
    max_occurrences: Annotated[
        int, typer.Option(help="Of a more frequent word, so many are drawn by the seed.", min=3)
    ] = 500,
    contexts: Annotated[int, typer.Option(help="How many contexts to show of each group.", min=0)] = 3,
    output: PictureFile = Path("map.png"),
    source: analysis_options.SourcePatterns = None,
    sentences: analysis_options.SentenceRange = None,
    split: analysis_options.SplitChoice = analysis_options.Split.sentences,
    language: analysis_options.Language = None,
    field: analysis_options.Field = "text",
    split_on_spaces: options.SplitOnSpaces = False,
    seed: analysis_options.Seed = 0,
    font: PictureFont = None,
    json: options.AsJson = False,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    device: options.Device = "cpu",
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Draw the occurrences of a word on a plane.

    They are coloured by label, or by cluster where there is none.

    \b
    Examples:
      elmo plot map bank --corpus texts.txt --output bank.png
      elmo plot map bank --labelled semcor.data.xml --projection tsne
    """
    from elmo.analysis.drawing import check_output

    check_text(word, "The word")
    check_output(output)
    if labelled is not None and (corpus or source or sentences):
        raise InputError("--labelled takes the place of --corpus, --source and --sentences; leave them out.")
    if labelled is not None:
        from elmo.analysis.labelled_words import read_labelled
        from elmo.analysis.sense_evaluation import draw_occurrences

        occurrences = draw_occurrences(read_labelled(labelled, word)[word], max_occurrences, seed)
        elmo = open_model(model, format=format, device=device, local_files_only=local_files_only)
    else:
        reading = analysis_options.make_reading(split, language, field, split_on_spaces)
        opened = analysis_options.open_corpus(corpus, reading)
        part = analysis_options.make_part(source, sentences)
        occurrences, _ = analysis_options.find_word(opened, word, part, reading, max_occurrences, seed)
        elmo = analysis_options.open_model_of(
            opened, model, format=format, device=device, local_files_only=local_files_only
        )
    from elmo.analysis.layer_choice import choose_layer
    from elmo.analysis.occurrence_map import draw_occurrence_map, map_occurrences
    from elmo.analysis.occurrence_vectors import embed_occurrences

    key = choose_layer(layer, elmo)
    with progress_bar(unit="sentences", num_bytes=None, prints=False) as advance:
        vectors = embed_occurrences(elmo, occurrences, key, analysis_options.count_sentences(advance))
    found = map_occurrences(word, occurrences, vectors, projection=projection.value, seed=seed)
    draw_occurrence_map(found, output, num_contexts=contexts, font=font)
    print(to_json(found.to_dict()) if json else f"{output} shows {len(occurrences):,} occurrences of {word!r}.")
