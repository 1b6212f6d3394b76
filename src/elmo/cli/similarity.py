"""`elmo similarity`: sentences with a marked word each -> how similar these words are there."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.cli import options
from elmo.cli.options import open_model
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import check_text

if TYPE_CHECKING:
    from elmo.analysis.similarity import WordSimilarities


def similarity(
    sentences: Annotated[
        list[str], typer.Argument(metavar="SENTENCE", help="Two or more sentences, each with one [marked] word.")
    ],
    index_a: Annotated[
        int | None,
        typer.Option(help="Index of the word in the first of two sentences, from 0, instead of brackets."),
    ] = None,
    index_b: Annotated[int | None, typer.Option(help="Index of the word in the second sentence.")] = None,
    layers: options.MeaningChoice = None,
    by_layer: Annotated[
        bool, typer.Option("--by-layer", help="Show each layer; layer 0 is the word without its sentence.")
    ] = False,
    json: options.AsJson = False,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Compare a word in two or more sentences: a cosine, -1 to 1.

    \b
    Example:
      elmo similarity "I went to the [bank] to deposit money" "I sat by the [bank] of the river"
    """
    if by_layer and layers is not None:
        raise InputError("--by-layer shows every layer, so it takes no --layers; leave one of them out.")
    if layers == "all":
        raise InputError("--layers all gives a word several vectors; compare them with --by-layer.")
    if len(sentences) > 2 and (index_a is not None or index_b is not None):
        raise InputError(
            f"--index-a and --index-b are for two sentences, but {len(sentences)} were given; mark the words "
            "with brackets."
        )
    from elmo.analysis import compare_words
    from elmo.analysis.occurrences import read_query

    for sentence in sentences:
        check_text(sentence, "The sentence")
    indexes = [("--index-a", index_a), ("--index-b", index_b), *[("", None)] * len(sentences)]
    words = [
        read_query(sentence, index, name=name) for sentence, (name, index) in zip(sentences, indexes, strict=False)
    ]
    chosen = "all" if by_layer else None if layers is None else options.read_layers(layers)
    found = compare_words(
        open_model(model, format=format, local_files_only=local_files_only), words, layers=chosen
    )
    print(to_json(found.to_dict()) if json else "\n".join(_describe(found)))


def _describe(found: "WordSimilarities") -> Iterator[str]:
    marked = [each.mark() for each in found.words]
    if len(marked) == 2 and not found.by_layer:
        yield f"{found.cosines[0, 1]:.3f}  {marked[0]}  ~  {marked[1]}"
        return
    for number, text in enumerate(marked, start=1):
        yield f"{number:>5}  {text}"
    yield ""
    rows = _tabulate_layers(found) if found.by_layer else _tabulate_pairs(found)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _tabulate_layers(found: "WordSimilarities") -> list[list[str]]:
    """Return one row per pair with one column per layer."""
    rows = [["", *(f"layer {number}" for number in range(len(found.cosines)))]]
    for pair in found.to_dict()["pairs"]:
        rows.append([f"{pair['a'] + 1} ~ {pair['b'] + 1}", *(f"{value:.3f}" for value in pair["cosine_by_layer"])])
    return rows


def _tabulate_pairs(found: "WordSimilarities") -> list[list[str]]:
    """Return one row and one column per sentence."""
    rows = [[" " * 5, *(str(number) for number in range(1, len(found.words) + 1))]]
    for number, cosines in enumerate(found.cosines.tolist(), start=1):
        rows.append([str(number), *(f"{value:.3f}" for value in cosines)])
    return rows
