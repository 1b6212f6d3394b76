"""`elmo fuse`: a model and a prepared corpus -> the model with a context layer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from elmo.cli import options
from elmo.cli.model_output import check_model_output
from elmo.cli.opening import open_model
from elmo.cli.static import CorpusArgument, Dimensions, NumWords, Seed
from elmo.files.durable import output_folder
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.checkpoint.folder import Storage


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
            elmo, opened, vectors=vectors, num_words=words, dim=dim, seed=seed,
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
