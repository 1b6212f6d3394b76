"""`elmo prepare`: raw text -> the folder that `elmo train` reads."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.cli import options
from elmo.cli.resuming import resumable
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.corpus.prepare import PrepareProgress

# The bar counts thousandths of the work, since the size of packed text is not known.
_BAR_UNITS = 1000


class Split(str, Enum):
    """What becomes one sentence."""

    sentences = "sentences"
    lines = "lines"
    none = "none"


def prepare(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            show_default=False,
            help="Files .txt, .jsonl or .parquet, plain or packed (.gz, .xz, .zst), or patterns such as "
            "'texts/*.txt.xz'; - is standard input, plain text.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write.")],
    field: Annotated[
        str,
        typer.Option("--column", metavar="NAME", help="Column or field of the text in .jsonl and .parquet files."),
    ] = "text",
    split: Annotated[
        Split,
        typer.Option(
            help="sentences: every line is a paragraph, split into sentences. lines: every line is a sentence. "
            "none: a document (lines up to a blank one, a record or a row) is one sequence."
        ),
    ] = Split.sentences,
    language: Annotated[
        str | None,
        typer.Option(metavar="CODE", show_default="en", help="Whose rules split the sentences, for example de."),
    ] = None,
    split_on_spaces: options.SplitOnSpaces = False,
    vocabulary_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default="40000",
            help="How many words the softmax predicts, <S>, </S> and <UNK> included.",
        ),
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(metavar="N", help="Instead: every word that occurs at least N times.")
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead: these words, one a line, <S>, </S> and <UNK> among them."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", show_default="the cores, at most 8", help="How many processes tokenize."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another corpus that DIR holds.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn raw text into a corpus for training. Stopped midway, the same command goes on where it was.

    \b
    Examples:
      elmo prepare 'texts/*.txt.xz' --output corpus
      zcat dump.gz | elmo prepare - --split lines --output corpus
    """
    from elmo.corpus.prepare import PrepareSettings, prepare_corpus

    settings = PrepareSettings(
        field=field,
        split=split.value,
        language=language,
        split_on_spaces=split_on_spaces,
        vocabulary_size=vocabulary_size,
        min_count=min_count,
        vocabulary=vocabulary,
    )
    with resumable(), _progress_shown() as progress:
        corpus = prepare_corpus(inputs, output, settings, progress, workers=workers, force=force)
    counts: dict[str, Any] = corpus.manifest["counts"]
    if as_json:
        print(json.dumps({"folder": str(output), **counts, "num_shards": corpus.num_shards}))
        return
    print(
        f"{output} holds {counts['num_words']:,} words in {counts['num_sentences']:,} sentences; "
        f"{counts['num_distinct_words']:,} words are distinct, {counts['vocabulary_size']:,} are in the "
        f"vocabulary, {counts['unknown_rate']:.2%} of the text is unknown."
    )


@contextmanager
def _progress_shown() -> "Iterator[Callable[[PrepareProgress], None]]":
    done_words = done_units = 0
    with progress_bar(unit="words", num_bytes=_BAR_UNITS, prints=False) as advance:

        def show(progress: "PrepareProgress") -> None:
            nonlocal done_words, done_units
            units = int(progress.fraction * _BAR_UNITS)
            advance(units - done_units, progress.num_words - done_words)
            done_words, done_units = progress.num_words, units

        yield show
