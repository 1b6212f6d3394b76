"""`elmo prepare`, `static` and `fuse`: prepare a corpus, and compute static vectors and context layers from it."""

from pathlib import Path
from typing import Annotated, Any

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.commands.models import check_folder
from elmo.cli.options import FilesOptions
from elmo.cli.run import resumable
from elmo.cli.terminal import say
from elmo.config import NEW_CONTEXT, ContextConfig
from elmo.corpus.settings import PrepareSettings
from elmo.files.durable import output_file
from elmo.files.rows import to_json

_INPUTS = (
    "Files .txt, .jsonl or .parquet, plain or compressed (.gz, .xz, .bz2, .zst), or patterns such as "
    "'texts/*.txt.xz'; - is standard input, plain text."
)
_VECTORS = (
    "Static vectors to use instead of computing them from the corpus: a text file of GloVe or word2vec, plain or "
    "compressed. Words are looked up in lower case, then in their most frequent spelling."
)


def prepare(
    inputs: Annotated[list[str], argument("INPUT", _INPUTS)],
    output: Path = option("--output -o DIR", "Folder to write."),
    workers: int | None = option("N", "Number of processes that tokenize.", None, shown="one per core, at most 8"),
    force: bool = option("--force", "Replace another corpus in DIR.", False),
    as_json: options.AsJson = False,
    *,
    settings: Annotated[dict[str, Any], PrepareSettings, {"language": "en", "vocabulary_size": "40000"}],
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
            inputs, output, column=settings.pop("field", "text"), **settings, num_workers=workers, force=force,
            show_progress_bar=True,
        )  # fmt: skip
    counts: dict[str, Any] = corpus.manifest["counts"]
    if as_json:
        print(to_json({"folder": str(output), **counts, "num_shards": corpus.num_shards}))
        return
    say(
        f"{output} holds {counts['num_words']:,} words in {counts['num_sentences']:,} sentences; "
        f"{counts['num_distinct_words']:,} words are distinct, {counts['vocabulary_size']:,} are in the "
        f"vocabulary; {counts['unknown_rate']:.2%} of all words are out of vocabulary."
    )


CorpusArgument = Annotated[Path, argument("CORPUS", "Folder written by `elmo prepare`.")]
NumWords = Annotated[int, option("--words", "Number of words; the most frequent ones are kept.", min=2)]


def static(
    corpus: CorpusArgument,
    output: Path = option("--output -o FILE", "Text file to write."),
    words: NumWords = 40_000,
    dim: int = option("", "Dimensions of the static vectors.", 256, min=1),
    window: int = option("", "Maximum distance between two words that are counted.", 8, min=1),
    keep_case: bool = option("--keep-case", "Keep capital letters instead of lowercasing words.", False),
    teacher: str | None = option("ENCODER", "Hugging Face encoder whose word vectors are combined with these.", None),
    seed: options.Seed = 0,
) -> None:
    """Compute static word vectors from a corpus.

    Words that occur in similar contexts get similar vectors: words near each other are counted, the counts become
    positive pointwise mutual information, and a singular value decomposition reduces it. The file has the text
    format of word2vec; `elmo fuse` and `elmo task train` read it. Needs the extra `fuse` and, with a teacher,
    `distill`.

    \b
    Examples:
      elmo static corpus --output vectors.txt
      elmo static corpus --teacher sentence-transformers/all-MiniLM-L6-v2 --output vectors.txt
    """
    from elmo.corpus.prepared import PreparedCorpus
    from elmo.fusion.static_vectors import make_static_vectors, write_static_vectors

    opened = PreparedCorpus.open(corpus)
    encoder = None
    if teacher is not None:
        from elmo.pretrain.teacher import Teacher, join_static_vectors

        encoder = Teacher(teacher)  # before the corpus is read: a wrong name is reported at once
    with output_file(output) as temporary:
        vectors = make_static_vectors(
            opened, num_words=words, dim=dim, window=window, lowercase=not keep_case, seed=seed,
            show_progress_bar=True,
        )  # fmt: skip
        if encoder is not None:
            vectors = join_static_vectors(vectors, encoder)
        write_static_vectors(vectors, temporary)
    say(f"Wrote {output}: {len(vectors.words):,} words of {dim} dimensions, from {opened.num_words:,} words of text.")


def fuse(
    model: options.ModelArgument,
    corpus: CorpusArgument,
    files: FilesOptions,
    output: Path = option("--output -o OUT", "Folder to write."),
    vectors: Path | None = option("FILE", _VECTORS, None),
    words: NumWords = 40_000,
    dim: int | None = option("", "Dimensions of static vectors made from the corpus.", None, shown="256", min=1),
    window: int = option("", "Number of context words on each side.", ContextConfig.window, min=1),
    focus: float = option("", "Extra weight of related context words.", NEW_CONTEXT["focus"], min=0),
    share: float = option("", "Weight of the context, relative to the top layer.", NEW_CONTEXT["share"]),
    frequency: float = option("", "Relative frequency at which a word gets half the weight of a rare word.", 1e-4),
    seed: options.Seed = 0,
    storage: options.Storage = None,
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
    check_folder(output)
    from elmo.corpus.prepared import PreparedCorpus
    from elmo.fusion.fuse import fuse as add_context

    opened = PreparedCorpus.open(corpus)
    fused = add_context(
        files.open_named(model), opened, vectors=vectors, num_words=words, dim=dim, window=window, focus=focus,
        share=share, frequency=frequency, seed=seed, show_progress_bar=True,
    )  # fmt: skip
    fused.save_pretrained(output, storage=storage or fused.checkpoint().storage)
    assert fused.context is not None
    say(
        f"Wrote {output} with a context layer of {fused.context.num_words:,} words and {fused.context.dim} "
        f"dimensions, from {opened.num_words:,} words of text."
    )
