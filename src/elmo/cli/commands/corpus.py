"""`elmo prepare`, `static` and `fuse`: raw text -> a corpus -> static vectors -> a context layer."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from elmo.cli import options
from elmo.cli.commands.models import check_model_output
from elmo.cli.options import open_model
from elmo.cli.run import resumable
from elmo.config import ContextConfig
from elmo.corpus.settings import Split
from elmo.errors import InputError
from elmo.files.durable import output_file, output_folder
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.checkpoint.folder import Storage
    from elmo.config import Script


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
    characters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCRIPT",
            show_default=False,
            help="Script without spaces whose letters are the units of the model, such as Han; repeatable.",
        ),
    ] = None,
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
      elmo prepare chinese.txt --characters Han --language zh --output corpus
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
            characters=cast("list[Script]", characters or []),
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


CorpusArgument = Annotated[Path, typer.Argument(metavar="CORPUS", help="Folder that elmo prepare wrote.")]
NumWords = Annotated[int, typer.Option("--words", help="Number of words, the most frequent ones.", min=2)]
Dimensions = Annotated[int, typer.Option("--dim", help="Dimensions of the static vectors.", min=1)]
Seed = Annotated[int, typer.Option("--seed", help="Random seed.", min=0)]


def static(
    corpus: CorpusArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Text file to write.")],
    words: NumWords = 40_000,
    dim: Dimensions = 256,
    window: Annotated[int, typer.Option(help="Maximum distance of two words that are counted.", min=1)] = 8,
    keep_case: Annotated[
        bool, typer.Option("--keep-case", help="Keep capital letters instead of converting words to lower case.")
    ] = False,
    seed: Seed = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
) -> None:
    """Compute static word vectors from a corpus.

    Words that occur in similar contexts get similar vectors: words near each other are counted, the counts become
    positive pointwise mutual information, and a singular value decomposition reduces it. The file has the text
    format of word2vec; `elmo fuse` and `elmo task train` read it. Needs the extra `fuse`.

    \b
    Example:
      elmo static corpus --output vectors.txt
    """
    if output.exists() and not force:
        raise InputError(f"{output} exists already; choose another name, or use --force to replace it.")
    from elmo.corpus.prepared import PreparedCorpus
    from elmo.corpus.static_vectors import make_static_vectors, write_static_vectors

    opened = PreparedCorpus.open(corpus)
    with (
        output_file(output) as aside,
        progress_bar(unit="words", num_bytes=opened.num_tokens, prints=False) as advance,
    ):
        made = make_static_vectors(
            opened, num_words=words, dim=dim, window=window, lowercase=not keep_case, seed=seed,
            advance=lambda num_tokens: advance(num_tokens, num_tokens),
        )  # fmt: skip
        write_static_vectors(made, aside)
    print(
        f"Wrote {output}: {len(made.words):,} words of {dim} dimensions, from {opened.num_words:,} words of text."
    )


def fuse(
    model: options.ModelArgument,
    corpus: CorpusArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Folder to write.")],
    vectors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Static vectors to use instead of making them from the corpus: a text file of GloVe or word2vec.",
        ),
    ] = None,
    words: NumWords = 40_000,
    dim: Dimensions = 256,
    window: Annotated[
        int, typer.Option(help="Number of words on each side whose topic counts.", min=1)
    ] = ContextConfig.window,
    focus: Annotated[
        float,
        typer.Option(help="How much more the words count that are related to the word in the middle.", min=0),
    ] = ContextConfig.focus,
    share: Annotated[
        float, typer.Option(help="Weight of the context in `meaning`, relative to the top layer.")
    ] = ContextConfig.share,
    frequency: Annotated[
        float, typer.Option(help="Share of the text at which a word counts half as much as a rare one.")
    ] = 1e-4,
    seed: Seed = 0,
    storage: Annotated[
        options.StoredAs | None,
        typer.Option(show_default="as MODEL is stored", help="Storage format of the weights, as in elmo convert."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing model in OUT.")] = False,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Add a context layer to a model.

    The layer represents the topic of the words around a word. Any model can have one, and nothing is trained: a
    hundred million words take a few minutes. The language model does not change. `--layers meaning` concatenates
    the top layer and the context layer, which separates meanings much better than the layers alone, and `elmo
    encode` computes better sentence vectors. Needs the extra `fuse`.

    \b
    Example:
      elmo prepare 'texts/*.txt.xz' --output corpus
      elmo fuse small corpus --output small-fused
    """
    check_model_output(model, output, force=force, source_name="MODEL")
    from elmo.checkpoint.folder import write_folder
    from elmo.corpus.prepared import PreparedCorpus
    from elmo.fusion import fuse as add_context

    opened = PreparedCorpus.open(corpus)
    elmo = open_model(model, format=format, local_files_only=local_files_only)
    with progress_bar(unit="words", num_bytes=opened.num_tokens, prints=False) as advance:
        fused = add_context(
            elmo, opened, vectors=vectors, num_words=words, dim=dim, window=window, focus=focus, share=share,
            frequency=frequency, seed=seed,
            advance=lambda num_tokens: advance(num_tokens, num_tokens),
        )  # fmt: skip
    with output_folder(output) as folder:
        checkpoint = fused.checkpoint()
        stored_as = checkpoint.storage if storage is None else storage.value
        write_folder(checkpoint, folder, storage=cast("Storage", stored_as))
    assert fused.context is not None
    print(
        f"Wrote {output} with a context layer of {fused.context.num_words:,} words and {fused.context.dim} "
        f"dimensions, from {opened.num_words:,} words of text."
    )
