"""`elmo similarity` and `neighbors`: where words are used alike, in sentences and in a corpus."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elmo.cli import options
from elmo.cli.corpus_options import CorpusOptions, Layers, ModelOptions, expand_options
from elmo.cli.options import open_model
from elmo.cli.run import resumable
from elmo.cli.terminal import fit, pad
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import check_text

if TYPE_CHECKING:
    from elmo.analysis.neighbors import LayerNeighbors, Neighbors
    from elmo.analysis.similarity import WordSimilarities


def similarity(
    sentences: Annotated[
        list[str],
        typer.Argument(
            metavar="SENTENCE", help="Two or more sentences, each with one [marked] word, or none marked."
        ),
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
    """Compare marked words, or whole sentences: a cosine.

    Two sentences print one number from -1 to 1, more a table. Where no word is marked, the sentences themselves
    are compared, by the vectors of `elmo encode`.

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
    from elmo.analysis import compare_texts, compare_words
    from elmo.analysis.occurrences import read_query

    for sentence in sentences:
        check_text(sentence, "The sentence")
    whole = index_a is None and index_b is None and not any("[" in sentence for sentence in sentences)
    if whole and (by_layer or layers is not None):
        raise InputError("Whole sentences are compared by one vector each; mark a word in brackets to use layers.")
    if whole:
        opened = open_model(model, format=format, local_files_only=local_files_only)
        found = compare_texts(opened, sentences)
        print(to_json(found.to_dict()) if json else "\n".join(_describe(found, sentences)))
        return
    indexes = [("--index-a", index_a), ("--index-b", index_b), *[("", None)] * len(sentences)]
    asked = list(zip(sentences, indexes, strict=False))
    for sentence, (name, index) in asked:
        read_query(sentence, index, name=name)  # reports mistakes before the model is opened
    chosen = "all" if by_layer else None if layers is None else options.read_layers(layers)
    opened = open_model(model, format=format, local_files_only=local_files_only)
    words = [
        read_query(sentence, index, name=name, tokenization=opened.tokenization)
        for sentence, (name, index) in asked
    ]
    found = compare_words(opened, words, layers=chosen)
    print(to_json(found.to_dict()) if json else "\n".join(_describe(found, [each.mark() for each in found.words])))


def _describe(found: "WordSimilarities", marked: Sequence[str]) -> Iterator[str]:
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


_CONTEXT_WORDS = 8
_CONTEXT_COLUMNS = 84


@expand_options
def neighbors(
    sentence: Annotated[
        str | None,
        typer.Argument(metavar="SENTENCE", show_default=False, help="A sentence with one [marked] word."),
    ] = None,
    *,
    corpus: CorpusOptions,
    build: Annotated[
        Path | None,
        typer.Option("--build", metavar="INDEX", help="Build this index of the corpus, resume it, or add to it."),
    ] = None,
    index: Annotated[
        int | None,
        typer.Option("--word-index", metavar="N", help="Index of the word, from 0, instead of brackets."),
    ] = None,
    layers: Layers = None,
    match: Annotated[
        Literal["any", "same", "other"],
        typer.Option("--match", help="Find occurrences of any word, of the same word, or of other words."),
    ] = "any",
    top_k: Annotated[int, typer.Option("--top-k", help="Number of neighbours per layer.")] = 10,
    max_words: Annotated[
        int | None, typer.Option(help="With --build: maximum number of words to read of each file.", min=1)
    ] = None,
    json: options.AsJson = False,
    model: ModelOptions,
) -> None:
    """Find where words are used as one is in a sentence.

    Each layer has its own neighbours; beside them are the nearest words by layer 0, which sees no sentence.

    \b
    Examples:
      elmo neighbors "made a spectacular [play] on the ground ball" --corpus texts.txt
      elmo neighbors --build index --corpus texts.txt.xz --max-words 2000000
      elmo neighbors "signed to do a Broadway [play]" --corpus index --match same
    """
    if build is not None:
        if sentence is not None or corpus.source or corpus.sentences:
            raise InputError(
                "--build builds an index and searches nothing; leave out SENTENCE, --source and --sentences."
            )
        return _build(build, corpus, layers, max_words, model, as_json=json)
    if sentence is None:
        raise InputError("Give a sentence with one [marked] word, or --build INDEX to build an index.")
    check_text(sentence, "The sentence")
    if max_words is not None:
        raise InputError("--max-words is for --build; to search a part of the corpus give --sentences FIRST:LAST.")
    from elmo.analysis import find_neighbors

    opened, chosen = corpus.open(), corpus.filter
    found = find_neighbors(
        model.open(opened), sentence, opened, index=index, layers=layers, words=match, corpus_filter=chosen,
        top_k=top_k, reading=corpus.reading, progress=True,
    )  # fmt: skip
    if not found.num_occurrences:
        what = "The corpus" if chosen.is_whole else "This part of the corpus"
        raise InputError(f"{what} has no words; choose one that has some.")
    print(to_json(found.to_dict()) if json else "\n".join(_describe_neighbors(found, match)))


def _build(
    folder: Path,
    corpus: CorpusOptions,
    layers: list[str] | None,
    max_words: int | None,
    model: ModelOptions,
    *,
    as_json: bool,
) -> None:
    if not corpus.corpus:
        raise InputError("There is no text to build an index of; name files with --corpus.")
    from elmo.analysis import build_index

    with resumable():
        built = build_index(
            model.open(), folder, corpus.corpus, layers=layers, reading=corpus.reading, max_words=max_words,
            model_name=model.model, progress=True,
        )  # fmt: skip
    manifest = built.manifest
    if as_json:
        print(to_json({**manifest.to_dict(), "num_occurrences": manifest.num_occurrences}))
        return
    names = ", ".join(map(str, manifest.layers))
    files = "file" if len(manifest.sources) == 1 else "files"
    print(
        f"{folder} has {manifest.num_occurrences:,} occurrences from {len(manifest.sources):,} {files}, by "
        f"{'layer' if len(manifest.layers) == 1 else 'layers'} {names}."
    )


def _describe_neighbors(found: "Neighbors", match: str) -> Iterator[str]:
    yield found.query.mark()
    yield f"Searched {found.num_occurrences:,} occurrences."
    for layer in found.layers:
        yield ""
        yield from _tabulate(layer, found, match)


def _tabulate(layer: "LayerNeighbors", found: "Neighbors", match: str) -> Iterator[str]:
    from elmo.analysis.layers import name_layer

    contexts = [
        f"{each.cosine:.3f}  {fit(each.occurrence.mark(_CONTEXT_WORDS), _CONTEXT_COLUMNS)}"
        for each in layer.neighbors
    ]
    if not contexts:
        nothing = f"{found.query.word!r} does not occur there, except in the query." if match == "same" else (
            "There is nothing except the query."
        )  # fmt: skip
        contexts = [f"       {nothing}"]
    static = [f"{each.cosine:.3f}  {each.word}" for each in found.static]
    yield f"{pad(name_layer(layer.layer), _CONTEXT_COLUMNS + 7)}  layer 0, no sentence"
    for number in range(max(len(contexts), len(static))):
        left = contexts[number] if number < len(contexts) else ""
        right = static[number] if number < len(static) else ""
        yield f"{pad(left, _CONTEXT_COLUMNS + 7)}  {right}".rstrip()
