"""`elmo static`: a prepared corpus -> one vector per word, in a text file."""

from pathlib import Path
from typing import Annotated

import typer

from elmo.errors import InputError
from elmo.files.durable import output_file
from elmo.progress import progress_bar

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
