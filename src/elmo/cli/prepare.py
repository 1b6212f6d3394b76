"""`elmo prepare`: raw text -> the folder that `elmo train` reads."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from elmo.cli import options
from elmo.cli.resuming import resumable
from elmo.corpus.settings import Split


def prepare(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            show_default=False,
            help="Files .txt, .jsonl or .parquet, plain or compressed (.gz, .xz, .bz2, .zst), or patterns such as "
            "'texts/*.txt.xz'; - is standard input, plain text.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")],
    column: Annotated[
        str,
        typer.Option("--column", metavar="NAME", help="Column of the text in .jsonl and .parquet files."),
    ] = "text",
    split: Annotated[
        Split,
        typer.Option(
            help="sentences: every line is a paragraph, split into sentences. lines: every line is a sentence. "
            "none: a document (lines up to a blank one, a record or a row) is one sequence."
        ),
    ] = "sentences",
    language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", show_default="en", help="Language whose rules split the sentences, for example de."
        ),
    ] = None,
    split_on_spaces: options.SplitOnSpaces = False,
    vocabulary_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default="40000",
            help="Number of words that the softmax predicts, <S>, </S> and <UNK> included.",
        ),
    ] = None,
    min_count: Annotated[
        int | None,
        typer.Option(metavar="N", help="Instead of a size: take every word that occurs at least N times."),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of a size: take these words, one per line, <S>, </S> and <UNK> among them.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", show_default="number of cores, at most 8", help="Number of processes that tokenize."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another corpus in DIR.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn raw text into a corpus for training.

    The command can be stopped at any time: the same command resumes it.

    \b
    Examples:
      elmo prepare 'texts/*.txt.xz' --output corpus
      zcat dump.gz | elmo prepare - --split lines --output corpus
    """
    from elmo.corpus import prepare as preparation

    with resumable():
        corpus = preparation.prepare(
            inputs,
            output,
            column=column,
            split=split,
            language=language,
            split_on_spaces=split_on_spaces,
            vocabulary_size=vocabulary_size,
            min_count=min_count,
            vocabulary=vocabulary,
            workers=workers,
            force=force,
            progress=True,
        )
    counts: dict[str, Any] = corpus.manifest["counts"]
    if as_json:
        print(json.dumps({"folder": str(output), **counts, "num_shards": corpus.num_shards}))
        return
    print(
        f"{output} holds {counts['num_words']:,} words in {counts['num_sentences']:,} sentences; "
        f"{counts['num_distinct_words']:,} words are distinct, {counts['vocabulary_size']:,} are in the "
        f"vocabulary, {counts['unknown_rate']:.2%} of the text is unknown."
    )
