"""`elmo prepare`, `static`, `fuse` and `train`: raw text -> a corpus -> a model."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from elmo.cli import options
from elmo.cli.commands.models import RewriteOptions, write_model
from elmo.cli.options import argument, expand_options, option
from elmo.cli.run import resumable
from elmo.config import ContextConfig
from elmo.corpus.settings import Split
from elmo.errors import InputError
from elmo.files.durable import output_file
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.config import Script
    from elmo.pretrain.launch import TrainingResult


TextInputs = Annotated[
    list[str],
    argument(
        "INPUT",
        "Files .txt, .jsonl or .parquet, plain or compressed (.gz, .xz, .bz2, .zst), or patterns such as "
        "'texts/*.txt.xz'; - is standard input, plain text.",
        shown=False,
    ),
]
TextColumn = Annotated[str, option("--column NAME", "Column of the text in .jsonl and .parquet files.")]


def prepare(
    inputs: TextInputs,
    output: Path = option("--output -o DIR", "Folder to write."),
    column: TextColumn = "text",
    split: Split = option(
        "",
        "sentences: every line is a paragraph, split into sentences. lines: every line is a sentence. "
        "none: a document (lines up to a blank one, a record or a row) is one sequence.",
        "sentences",
    ),
    language: str | None = option(
        "CODE", "Language whose rules split the sentences, for example de.", None, shown="en"
    ),
    split_on_spaces: options.SplitOnSpaces = False,
    characters: list[str] | None = option(
        "SCRIPT",
        "Script without spaces whose letters are the units of the model, such as Han; repeatable.",
        None,
        shown=False,
    ),
    vocabulary_size: int | None = option(
        "N", "Number of words that the softmax predicts, <S>, </S> and <UNK> included.", None, shown="40000"
    ),
    min_count: int | None = option("N", "Instead of a size: take every word that occurs at least N times.", None),
    vocabulary: Path | None = option(
        "FILE", "Instead of a size: take these words, one per line, <S>, </S> and <UNK> among them.", None
    ),
    workers: int | None = option(
        "N", "Number of processes that tokenize.", None, shown="number of cores, at most 8"
    ),
    force: bool = option("--force", "Replace another corpus in DIR.", False),
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


CorpusArgument = Annotated[Path, argument("CORPUS", "Folder that elmo prepare wrote.")]
NumWords = Annotated[int, option("--words", "Number of words, the most frequent ones.", min=2)]
Dimensions = Annotated[int, option("--dim", "Dimensions of the static vectors.", min=1)]
Seed = Annotated[int, option("--seed", "Random seed.", min=0)]


def static(
    corpus: CorpusArgument,
    output: Path = option("--output -o FILE", "Text file to write."),
    words: NumWords = 40_000,
    dim: Dimensions = 256,
    window: int = option("", "Maximum distance of two words that are counted.", 8, min=1),
    keep_case: bool = option(
        "--keep-case", "Keep capital letters instead of converting words to lower case.", False
    ),
    teacher: str | None = option(
        "ENCODER",
        "Hugging Face encoder, a folder or a name on the hub, whose vectors of single words are joined with the "
        "corpus's.",
        None,
    ),
    seed: Seed = 0,
    force: bool = option("--force", "Replace FILE.", False),
) -> None:
    """Compute static word vectors from a corpus.

    Words that occur in similar contexts get similar vectors: words near each other are counted, the counts become
    positive pointwise mutual information, and a singular value decomposition reduces it. The file has the text
    format of word2vec; `elmo fuse` and `elmo task train` read it. Needs the extra `fuse`, with a teacher `distill`
    too.

    \b
    Examples:
      elmo static corpus --output vectors.txt
      elmo static corpus --teacher sentence-transformers/all-MiniLM-L6-v2 --output vectors.txt
    """
    if output.exists() and not force:
        raise InputError(f"{output} exists already; choose another name, or use --force to replace it.")
    from elmo.corpus.prepared import PreparedCorpus
    from elmo.corpus.static_vectors import make_static_vectors, write_static_vectors

    opened = PreparedCorpus.open(corpus)
    encoder = None
    if teacher is not None:
        from elmo.pretrain.teacher import Teacher, join_static_vectors

        encoder = Teacher(teacher)  # before the corpus is read: a wrong name is reported at once
    with (
        output_file(output) as temporary,
        progress_bar(unit="words", num_bytes=opened.num_tokens, prints=False) as advance,
    ):
        made = make_static_vectors(
            opened, num_words=words, dim=dim, window=window, lowercase=not keep_case, seed=seed,
            advance=lambda num_tokens: advance(num_tokens, num_tokens),
        )  # fmt: skip
        if encoder is not None:
            made = join_static_vectors(made, encoder)
        write_static_vectors(made, temporary)
    print(
        f"Wrote {output}: {len(made.words):,} words of {dim} dimensions, from {opened.num_words:,} words of text."
    )


@expand_options
def fuse(
    model: options.ModelArgument,
    corpus: CorpusArgument,
    rewrite: RewriteOptions,
    output: Path = option("--output -o OUT", "Folder to write."),
    vectors: Path | None = option(
        "FILE",
        "Static vectors to use instead of making them from the corpus: a text file of GloVe or word2vec, plain or "
        "compressed. The row of a word in lower case counts; without one, that of its usual spelling.",
        None,
    ),
    words: NumWords = 40_000,
    dim: int | None = option(
        "", "Dimensions of the static vectors made from the corpus.", None, shown="256", min=1
    ),
    window: int = option("", "Number of words on each side whose topic counts.", ContextConfig.window, min=1),
    focus: float = option(
        "", "How much more the words count that are related to the word in the middle.", ContextConfig.focus, min=0
    ),
    share: float = option(
        "", "Weight of the context in `meaning`, relative to the top layer.", ContextConfig.share
    ),
    frequency: float = option("", "Share of the text at which a word counts half as much as a rare one.", 1e-4),
    seed: Seed = 0,
    storage: options.StoredAs | None = option(
        "", "Storage format of the weights, as in elmo convert.", None, shown="as MODEL is stored"
    ),
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
    if vectors is not None and dim is not None:
        raise InputError(
            f"--dim is {dim}, but --vectors {vectors} has static vectors of its own dimensions; leave out --dim."
        )
    rewrite.check_folder(model, output)
    from elmo.corpus.prepared import PreparedCorpus
    from elmo.fusion import fuse as add_context

    opened = PreparedCorpus.open(corpus)
    elmo = rewrite.open(model)
    with progress_bar(unit="words", num_bytes=opened.num_tokens, prints=False) as advance:
        fused = add_context(
            elmo, opened, vectors=vectors, num_words=words, dim=dim, window=window, focus=focus, share=share,
            frequency=frequency, seed=seed,
            advance=lambda num_tokens: advance(num_tokens, num_tokens),
        )  # fmt: skip
    checkpoint = fused.checkpoint()
    write_model(checkpoint, output, storage or checkpoint.storage)
    assert fused.context is not None
    print(
        f"Wrote {output} with a context layer of {fused.context.num_words:,} words and {fused.context.dim} "
        f"dimensions, from {opened.num_words:,} words of text."
    )


def train(
    corpus: Path | None = argument("CORPUS", "Folder that `elmo prepare` wrote.", None, shown=False),
    output: Path | None = option("--output -o RUN", "New folder of the run.", None),
    resume: Path | None = option(
        "RUN",
        "Resume this run from its last checkpoint, exactly; with --output and --set, in a new folder "
        "with changed settings.",
        None,
    ),
    preset: str | None = option("", "Settings to start from: tiny, en-small, small, medium or original.", None),
    config: Path | None = option("FILE", "TOML file of settings that override the preset.", None),
    set_: list[str] | None = option(
        "--set NAME=VALUE",
        "Setting that overrides preset and file, as in optimizer.learning_rate=0.1; repeatable.",
        None,
        shown=False,
    ),
    validation: list[str] | None = option(
        "FILE", "Raw text to validate on, not in the corpus; repeatable.", None, shown=False
    ),
    init: str | None = option("MODEL", "Model whose weights to start from, to adapt it to other text.", None),
    word_vectors: str | None = option(
        "FILE", "GloVe or word2vec text file that the word embedding starts from.", None
    ),
    teacher: str | None = option(
        "ENCODER",
        "Hugging Face encoder, a folder or a name on the hub, whose vectors to learn as well.",
        None,
    ),
    teacher_words: float | None = option(
        "WEIGHT", "Weight of the teacher's vectors of words.", None, shown="10", min=0
    ),
    teacher_sentences: float | None = option(
        "WEIGHT", "Weight of the teacher's vectors of sentences.", None, shown="0", min=0
    ),
    device: options.Device = "cpu",
) -> None:
    """Train a bidirectional language model. Killed at any moment, it resumes exactly with --resume.

    Ctrl-C and SIGTERM save after the current update, and stop.

    \b
    Examples:
      elmo train corpus --preset small --validation valid.txt --output run
      elmo train corpus --init en-small --teacher ENCODER --teacher-sentences 10 --output run
      elmo train --resume run
      elmo train --resume run --output cooled --set max_updates=9000 --set optimizer.cooldown_steps=1000
      torchrun --nproc-per-node 8 -m elmo train corpus --preset original --output run --device cuda
    """
    from elmo.checkpoint.source import RUN_FILE
    from elmo.pretrain import launch

    folder = output or resume
    if folder is None or (corpus is None) == (resume is None):
        raise InputError("Give CORPUS and --output RUN for a new run, or --resume RUN to resume one.")
    changes = read_changes(set_ or [])
    new_only = {
        "--preset": preset, "--config": config, "--validation": validation, "--init": init,
        "--word-vectors": word_vectors, "--teacher": teacher, "--teacher-words": teacher_words,
        "--teacher-sentences": teacher_sentences,
    }  # fmt: skip
    with resumable(lambda: ["train", "--resume", str(folder)] if (folder / RUN_FILE).exists() else None):
        if resume is not None:
            if unused := [name for name, value in new_only.items() if value is not None]:
                raise InputError(f"--resume uses the settings of the run, so it takes no {', '.join(unused)}.")
            result = launch.resume_training(resume, output=output, changes=changes, device=device, progress=True)
        else:
            assert corpus is not None
            distilled = {"model": teacher, "words": teacher_words, "sentences": teacher_sentences}
            changes |= {f"teacher.{name}": value for name, value in distilled.items() if value is not None}
            result = launch.train(
                corpus, folder, preset=preset, config=config, changes=changes, validation=validation or (),
                init=init, word_vectors=word_vectors, device=device, progress=True,
            )  # fmt: skip
    _report(result)


def _report(result: "TrainingResult") -> None:
    """Print how a run ended, in the first process only; exit as a signal does if one stopped it."""
    if result.is_first and result.is_done:
        perplexity = ""
        if result.perplexity is not None:
            perplexity = f" Validation perplexity (full softmax) {result.perplexity:.2f}."
        print(
            f"{result.folder} is done: {result.num_words:,} words read.{perplexity} Open it with "
            f"Elmo.from_pretrained({str(result.folder)!r})."
        )
    elif result.is_first:
        print(
            f"stopped after update {result.num_updates:,}, which is saved; resume: "
            f"elmo train --resume {shlex.quote(str(result.folder))}",
            file=sys.stderr,
        )
    if result.stopped_by is not None:
        raise typer.Exit(128 + result.stopped_by)


def read_changes(changes: list[str]) -> dict[str, Any]:
    """Return the settings that NAME=VALUE arguments state; a value is TOML, or a string without its quotes."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    found: dict[str, Any] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set {change!r} is not NAME=VALUE, as in optimizer.learning_rate=0.1.")
        try:
            found[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip()] = value.strip()
    return found
