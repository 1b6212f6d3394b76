"""`elmo neighbors`: a word in a sentence and a corpus -> where words are used alike; or an index to ask."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.cli import analysis_options, options
from elmo.cli.neighbors_report import to_lines
from elmo.cli.opening import open_model
from elmo.cli.resuming import resumable
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import check_text
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.analysis.corpus_index import CorpusIndex
    from elmo.analysis.corpus_text import ReadingSettings
    from elmo.model import Elmo


class Words(str, Enum):
    """Which words' occurrences are wanted."""

    any = "any"
    same = "same"
    other = "other"


def neighbors(
    sentence: Annotated[
        str | None,
        typer.Argument(metavar="SENTENCE", show_default=False, help="A sentence with one [marked] word."),
    ] = None,
    corpus: analysis_options.Corpus = None,
    build: Annotated[
        Path | None,
        typer.Option(
            "--build", metavar="INDEX", help="Make this index of the corpus, go on with it, or add to it."
        ),
    ] = None,
    index: Annotated[
        int | None,
        typer.Option("--word-index", metavar="N", help="Number of the word, from 0, instead of brackets."),
    ] = None,
    layer: analysis_options.Layer = None,
    words: Annotated[
        Words, typer.Option("--match", help="Find occurrences of any word, of the same word, or of other words.")
    ] = Words.any,
    source: analysis_options.SourcePatterns = None,
    sentences: analysis_options.SentenceRange = None,
    top_k: Annotated[int, typer.Option("--top-k", help="How many to show a layer.")] = 10,
    max_words: Annotated[
        int | None, typer.Option(help="Of --build: read so many words of each file.", min=1)
    ] = None,
    split: analysis_options.SplitChoice = analysis_options.Split.sentences,
    language: analysis_options.Language = None,
    field: analysis_options.Field = "text",
    split_on_spaces: options.SplitOnSpaces = False,
    json: options.AsJson = False,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    device: options.Device = "cpu",
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Find where words are used as one is in a sentence.

    Each layer answers for itself; layer 0, which sees no sentence, stands beside it.

    \b
    Examples:
      elmo neighbors "made a spectacular [play] on the ground ball" --corpus texts.txt
      elmo neighbors --build index --corpus texts.txt.xz --max-words 2000000
      elmo neighbors "signed to do a Broadway [play]" --corpus index --match same
    """
    reading = analysis_options.make_reading(split, language, field, split_on_spaces)
    if build is not None:
        if sentence is not None or source or sentences:
            raise InputError(
                "--build makes an index and answers nothing; leave SENTENCE, --source, --sentences out."
            )
        if not corpus:
            raise InputError("There is no text to build an index of; name files with --corpus.")
        elmo = open_model(model, format=format, device=device, local_files_only=local_files_only)
        return _build(elmo, build, corpus, layer, reading, max_words, model, as_json=json)
    if sentence is None:
        raise InputError("Give a sentence with one [marked] word, or --build INDEX to make an index.")
    check_text(sentence, "The sentence")
    if max_words is not None:
        raise InputError("--max-words belongs to --build; for a part of the corpus give --sentences FIRST:LAST.")
    opened = analysis_options.open_corpus(corpus, reading)
    part = analysis_options.make_part(source, sentences)
    elmo = analysis_options.open_model_of(
        opened, model, format=format, device=device, local_files_only=local_files_only
    )
    from elmo.analysis.neighbors import find_neighbors

    num_bytes = _count_bytes(opened)
    with progress_bar(unit="sentences", num_bytes=num_bytes, prints=False) as advance:
        found = find_neighbors(
            elmo, sentence, opened, index=index, layers=layer, words=words.value, part=part, top_k=top_k,
            reading=reading, advance=advance,
        )  # fmt: skip
    if not found.num_occurrences:
        what = "The corpus" if part.is_whole else "This part of the corpus"
        raise InputError(f"{what} has no words; name one that has some.")
    print(to_json(found.to_dict()) if json else "\n".join(to_lines(found, words.value)))


def _build(
    elmo: "Elmo",
    folder: Path,
    corpus: list[str],
    layers: list[str] | None,
    reading: "ReadingSettings",
    max_words: int | None,
    model_name: str | None,
    *,
    as_json: bool,
) -> None:
    from elmo.analysis.index_build import build_index

    with resumable(), progress_bar(unit="words", num_bytes=_count_bytes(corpus), prints=False) as advance:
        built = build_index(
            elmo, folder, corpus, layers=layers, reading=reading, max_words=max_words, model_name=model_name,
            advance=advance,
        )  # fmt: skip
    manifest = built.manifest
    if as_json:
        print(to_json({**manifest.to_dict(), "num_occurrences": manifest.num_occurrences}))
        return
    layers_told = ", ".join(map(str, manifest.layers))
    print(
        f"{folder} holds {manifest.num_occurrences:,} occurrences of {len(manifest.sources):,} file(s), by the "
        f"layers {layers_told}."
    )


def _count_bytes(corpus: "CorpusIndex | list[str]") -> int | None:
    from elmo.analysis.corpus_text import count_bytes, find_corpus

    return count_bytes(find_corpus(corpus)) if isinstance(corpus, list) else None
