"""`elmo neighbors`: a word in a sentence and a corpus -> where words are used alike; or an index to search."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elmo.cli import options
from elmo.cli.corpus_options import CorpusOptions, Layers, ModelOptions, expand_options
from elmo.cli.run import resumable
from elmo.cli.terminal import fit, pad
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import check_text

if TYPE_CHECKING:
    from elmo.analysis.neighbors import LayerNeighbors, Neighbors

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
    print(to_json(found.to_dict()) if json else "\n".join(_describe(found, match)))


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


def _describe(found: "Neighbors", match: str) -> Iterator[str]:
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
