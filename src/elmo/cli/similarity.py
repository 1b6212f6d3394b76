"""`elmo similarity`: sentences with a marked word each -> how alike these words are there."""

from itertools import combinations
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.cli import options
from elmo.cli.opening import open_model
from elmo.cli.similarity_report import PointedSentence, to_lines, to_object
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import check_text

if TYPE_CHECKING:
    from elmo.model import Array


def similarity(
    sentences: Annotated[
        list[str],
        typer.Argument(metavar="SENTENCE", help="Two or more sentences, in each one [marked] word."),
    ],
    index_a: Annotated[
        int | None,
        typer.Option(help="Which word of the first of two sentences is meant, from 0, in place of brackets."),
    ] = None,
    index_b: Annotated[int | None, typer.Option(help="The same for the second sentence.")] = None,
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
    pointed = _read_sentences(sentences, index_a, index_b)
    given = None if layers is None else options.read_layers(layers)
    elmo = open_model(model, format=format, local_files_only=local_files_only)
    chosen = "all" if by_layer else elmo.meaning_layers if given is None else given
    vectors = [
        elmo.embed_spans(sentence.words, [(sentence.start, sentence.end)], layers=chosen)[0]
        for sentence in pointed
    ]
    cosines = {(a, b): _cosines(vectors[a], vectors[b]) for a, b in combinations(range(len(vectors)), 2)}
    if json:
        print(to_json(to_object(pointed, cosines, by_layer=by_layer)))
    else:
        print("\n".join(to_lines(pointed, cosines, by_layer=by_layer)))


def _read_sentences(sentences: list[str], index_a: int | None, index_b: int | None) -> list[PointedSentence]:
    if len(sentences) < 2:
        raise InputError(
            "One sentence was given; give two or more, in each one word in brackets, as in 'I went to the [bank]'."
        )
    if len(sentences) == 2:
        indexes = (("--index-a", index_a), ("--index-b", index_b))
        return [_read(text, *index) for text, index in zip(sentences, indexes, strict=True)]
    if index_a is not None or index_b is not None:
        raise InputError(
            f"--index-a and --index-b are for two sentences, but {len(sentences)} were given; mark the words "
            "with brackets."
        )
    return [_read(text, "", None) for text in sentences]


def _read(sentence: str, option: str, index: int | None) -> PointedSentence:
    from elmo.text.marks import read_marked
    from elmo.text.tokenize import tokenize

    check_text(sentence, "The sentence")
    if index is None:
        words, (start, end) = read_marked(sentence, tokenize)
        return PointedSentence(words, start, end, marked=sentence)
    found = tokenize(sentence)
    if not -len(found) <= index < len(found):
        raise InputError(
            f"{option} is {index}, but the sentence {sentence!r:.80} has {len(found)} words, counted from 0."
        )
    start, word = index % len(found), found[index]
    marked = f"{sentence[: word.start]}[{word.text}]{sentence[word.end :]}"
    return PointedSentence([each.text for each in found], start, start + 1, marked)


def _cosines(first: "Array", second: "Array") -> list[float]:
    """Give the cosine of two vectors, or of each row of the one with the same row of the other."""
    import numpy as np

    from elmo.inference.layers import cosine

    return [float(value) for value in np.atleast_1d(cosine(first, second))]
