"""`elmo static`: a prepared corpus -> one vector per word, in a text file."""

from pathlib import Path
from typing import Annotated

import typer

from elmo.errors import InputError
from elmo.files.durable import output_file
from elmo.progress import progress_bar

CorpusArgument = Annotated[Path, typer.Argument(metavar="CORPUS", help="A folder that elmo prepare wrote.")]
NumWords = Annotated[int, typer.Option("--words", help="Number of words, the most frequent ones.", min=2)]
Dimensions = Annotated[int, typer.Option("--dim", help="Dimensions of the static vectors.", min=1)]
Seed = Annotated[int, typer.Option("--seed", help="Random seed.", min=0)]


def static(
    corpus: CorpusArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The text file to write.")],
    words: NumWords = 40_000,
    dim: Dimensions = 256,
    window: Annotated[int, typer.Option(help="How many words apart two words are counted together.", min=1)] = 8,
    keep_case: Annotated[
        bool, typer.Option("--keep-case", help="Keep capital letters; without it, words are in lower case.")
    ] = False,
    seed: Seed = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
) -> None:
    """Make static word vectors from a corpus.

    Words used in like company are alike: which words stand near each other is counted, turned into positive mutual
    information and reduced by a singular value decomposition. The file is as word2vec writes it; `elmo fuse` and
    `elmo task train` read it. Needs the extra `fuse`.

    \b
    Example:
      elmo static corpus --output vectors.txt
    """
    if output.exists() and not force:
        raise InputError(f"{output} exists already; give another name, or --force to replace it.")
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
