"""`elmo tag` uses an included tagger; `elmo task train|evaluate|predict` trains and uses tasks with ELMo."""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from elmo.cli import options
from elmo.cli.command import argument, list_given, option
from elmo.cli.options import read_pairs
from elmo.cli.run import resumable
from elmo.cli.terminal import say
from elmo.errors import InputError
from elmo.extras import require
from elmo.files.durable import output_file
from elmo.files.rows import to_json
from elmo.files.sources import STDIN
from elmo.heap import reuse_large_blocks
from elmo.tasks.examples import locate_words
from elmo.tasks.settings import DEFAULTS, ReadSettings, TaskOptions, TaskSettings

if TYPE_CHECKING:
    from elmo.tasks import ComparisonSettings, Tagger, Task, TaskResult

SENTENCES_AT_ONCE = 256
_SHOWN = {name: "depends on the family" for changes in DEFAULTS.values() for name in changes}

TaskFolder = Annotated[str, argument("TASK", "A folder written by `elmo task train`, or a name such as en-pos.")]
Threads = Annotated[
    int | None, option("--threads N", "Number of CPU threads; one is best for small networks.", shown="1", min=1)
]
# How a file of examples is read; words are split as in training.
Read = Annotated[dict[str, Any], ReadSettings, {"split_on_spaces": None}]


@dataclasses.dataclass(frozen=True)
class ComputingOptions:
    """How the biLM of a trained task is opened."""

    bilm: str | None = option("--bilm MODEL", "Location of the biLM, if it has moved since training.", None)
    precision: str | None = option(
        "--precision PRECISION", "Precision of the frozen biLM.", None, shown="as in training"
    )
    device: options.Device = "cpu"
    threads: Threads = None

    def open(self, task: str, command: str) -> "Task | Tagger":
        """Open a task; an included tagger does not need torch."""
        from elmo.tasks.taggers import list_taggers, load

        if task not in list_taggers():
            require("torch", "tasks", f"elmo task {command}")
        return load(task, bilm=self.bilm, precision=self.precision, device=self.device, num_threads=self.threads)


@dataclasses.dataclass(frozen=True)
class ComparisonOptions:
    """The runs of --compare."""

    variants: str = option(
        "NAMES",
        "Variants of --compare: baseline, top, learned, concat, output, both, tuned; for classification also tfidf "
        "and pooled.",
        "",
        shown="baseline, learned and, for classification, tfidf",
    )
    seeds: int = option("", "Number of seeds for --compare, starting with --seed.", 3, min=1)
    fractions: str = option("NUMBERS", "Fractions of the training data for --compare.", "1")
    keep_runs: bool = option("", "Keep each run of --compare as a task, not only its scores.", False)

    def read(self, first_seed: int) -> "ComparisonSettings":
        """Return the settings of the comparison."""
        from elmo.tasks import ComparisonSettings

        names = tuple(name.strip() for name in self.variants.split(",") if name.strip())
        try:
            fractions = tuple(sorted({float(part) for part in self.fractions.split(",")}))
        except ValueError:
            raise InputError(f"--fractions is {self.fractions!r}; give numbers, as in 0.01,0.1,1.") from None
        return ComparisonSettings(names, tuple(range(first_seed, first_seed + self.seeds)), fractions)


_COMPARISON_FLAGS = ("--variants", "--seeds", "--fractions", "--keep-runs")


def tag(
    inputs: options.Rows = None,
    text: options.Texts = None,
    task: str = option(
        "--task NAME", "entities or pos, in the language of the text, or a tagger such as en-pos.", "entities"
    ),
    column: options.Column = None,
    precision: options.PrecisionChoice = None,
    threads: options.Threads = None,
    as_json: bool = option("--json", "Print one line of JSON per sentence, with character offsets.", False),
) -> None:
    """Tag the named entities or parts of speech of a text, one line per sentence, with an included tagger.

    \b
    Examples:
      elmo tag "Ada Lovelace was born in London"
      elmo tag "The bank raised its rates" --task pos
      elmo tag 我来到北京大学 --json
    """
    from elmo.cli.text_input import TextInput
    from elmo.corpus.rows import Columns
    from elmo.tasks.taggers import Tagger, choose_tagger, load

    tagger = None
    with TextInput(inputs, text, columns=Columns(column)).rows("sentences", prints=True) as rows:
        while window := [row.content for row in islice(rows, SENTENCES_AT_ONCE)]:
            if tagger is None:
                words = (word for content in window for word in ([content] if isinstance(content, str) else content))
                tagger = cast(Tagger, load(choose_tagger(task, words), precision=precision, num_threads=threads))
            examples = tagger.read_items(window)
            for example, prediction in zip(examples, tagger.predict_examples(examples), strict=True):
                print(to_json(tagger.to_json(example, prediction)) if as_json else _mark_tags(example, prediction))


def _mark_tags(example: Any, prediction: Any) -> str:
    """Return a sentence with its spans marked as [New York](location), or its words tagged as York/PROPN."""
    words = list(prediction.words)
    if not any(tag == "O" or tag.startswith("B-") for tag in prediction.tags):
        return " ".join(f"{word}/{tag}" for word, tag in zip(words, prediction.tags, strict=True))
    text = example.record or " ".join(words)
    offsets = locate_words(words, text)
    for name, start, end in reversed(prediction.spans):
        first, last = offsets[start][0], offsets[end - 1][1]
        text = f"{text[:first]}[{text[first:last]}]({name}){text[last:]}"
    return text


def train(
    family: str | None = argument(
        "FAMILY",
        "tagging (or ner, pos, chunking), classification (sentiment, topic), pairs (similarity, entailment), "
        "relations, question_answering (qa) or senses (wsd).",
        None,
    ),
    train: str | None = option("--train FILE", "Training examples, with labels.", None),
    dev: str | None = option("--dev FILE", "Examples for early stopping; default: a part of --train.", None),
    test: str | None = option("--test FILE", "Test examples, evaluated once at the end.", None),
    output: Path | None = option("--output -o RUN", "New folder for the trained task.", None),
    resume: Path | None = option("--resume RUN", "Resume a run from its last epoch, exactly.", None),
    model: options.ModelName = None,
    set_: list[str] | None = option(
        "--set NAME=VALUE", "A setting such as network.dim=300; repeatable.", None, shown=False
    ),
    compare: bool = option("--compare", "Train variants on the same seeds and print a table.", False),
    *,
    compared: ComparisonOptions,
    threads: Threads = None,
    as_json: options.AsJson = False,
    settings: Annotated[dict[str, Any], TaskSettings, _SHOWN],
    data: Annotated[dict[str, Any], TaskOptions],
) -> None:
    """Train a task network with ELMo.

    An interrupted run resumes exactly with --resume.

    \b
    Examples:
      elmo task train pos --train train.conllu --dev dev.conllu --test test.conllu --output tagger
      elmo task train sentiment --train reviews.csv --label-column stars --output stars
      elmo task train tagging --train train.conll --compare --fractions 0.01,0.1,1 --output compared
    """
    require("torch", "tasks", "elmo task train")
    from elmo import tasks

    reuse_large_blocks()
    if resume is not None:
        options.check_resume("--json")
        with resumable(lambda: _resuming(resume)):
            return _report(tasks.resume(resume, show_progress_bar=True), as_json=as_json)
    if family is None or train is None or output is None:
        raise InputError("Give FAMILY, --train FILE and --output RUN for a new run, or --resume RUN for an old one.")
    if "words.kinds" in settings:
        kinds = [kind.strip() for kind in settings["words.kinds"].split(",") if kind.strip()]
        settings["words.kinds"] = [] if kinds == ["none"] else kinds
    changes = {**settings, **options.read_changes(set_)}
    files: dict[str, Any] = {"kind": family, "dev": dev, "test": test, "model": model, "output": output}
    files |= {"settings": changes, "options": _read_options(data, threads), "show_progress_bar": True}
    if not compare:
        if unused := [flag for flag in list_given() if flag in _COMPARISON_FLAGS]:
            raise InputError(f"{unused[0]} needs --compare.")
        with resumable(lambda: _resuming(output)):
            return _report(tasks.train(train, **files), as_json=as_json)
    comparison = compared.read(changes.get("fit.seed", 0))
    with resumable():
        rows = tasks.compare(train, comparison=comparison, keep_runs=compared.keep_runs, **files)
    print(to_json([dataclasses.asdict(row) for row in rows]) if as_json else tasks.format_table(rows))


def _resuming(folder: Path) -> list[str] | None:
    from elmo.tasks.training import is_started

    return ["task", "train", "--resume", str(folder)] if is_started(folder) else None


def _read_options(chosen: dict[str, Any], threads: int | None) -> TaskOptions:
    read = {name.removeprefix("read."): chosen.pop(name) for name in list(chosen) if name.startswith("read.")}
    return TaskOptions(**chosen, read=_make_read_settings(read), num_threads=threads or 1)


def _make_read_settings(chosen: dict[str, Any]) -> ReadSettings:
    return ReadSettings(**{**chosen, "columns": read_pairs(chosen.get("columns"), "--column", "ROLE=NAME")})


def _report(result: "TaskResult", *, as_json: bool) -> None:
    if as_json:
        values = result.to_dict()
        print(to_json({name: value for name, value in values.items() if name not in ("history", "settings")}))
        return
    split, scores = ("test", result.test) if result.test else ("dev", result.dev)
    say(f"{result.folder} is done, best after epoch {result.best_epoch}: {split} {_format_scores(scores)}.")
    folder = str(result.folder)
    say(f"Use it: elmo task predict {folder} FILE, or elmo.tasks.load({folder!r}).predict([…]).")


def _format_scores(scores: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in scores.items())


def evaluate(
    task: TaskFolder,
    file: Annotated[str, argument("FILE", "Labelled examples; - is standard input.")],
    *,
    read: Read,
    computing: ComputingOptions,
    as_json: options.AsJson = False,
) -> None:
    """Evaluate a trained task on labelled examples.

    \b
    Example:
      elmo task evaluate tagger test.conllu
    """
    opened = computing.open(task, "evaluate")
    examples = opened.read_examples(file, _make_read_settings(read))
    scores = opened.evaluate(examples)
    if as_json:
        print(to_json({"num_examples": len(examples), **scores}))
    else:
        say(f"{file}: {_format_scores(scores)} (examples: {len(examples):,}).")


def predict(
    task: TaskFolder,
    file: str | None = argument(
        "FILE", "Text, one sentence per line, or examples in any format; if missing or -, standard input.", None
    ),
    text: options.Texts = None,
    output: Path | None = option("--output -o FILE", "File to write; default: standard output.", None),
    *,
    read: Read,
    computing: ComputingOptions,
    as_json: options.AsJson = False,
) -> None:
    """Predict, and write the input with the predictions added.

    Input without a known extension is plain text. Its output has one word and its tag per line, or a label, its
    probability and the text. Write a pair of sentences, or a question and its passage, on one line with a tab or |||
    between them.

    \b
    Examples:
      elmo task predict tagger --text "The bank raised its rates"
      echo "a great film" | elmo task predict sentiment
      elmo task predict entailment --text "A man runs ||| Someone moves"
      elmo task predict tagger untagged.conllu --output tagged.conllu
      echo '{"text": "a great film"}' | elmo task predict sentiment --format jsonl
    """
    from elmo.cli.text_input import check_not_input
    from elmo.tasks.readers import open_reader
    from elmo.tasks.readers.reader import Lines

    if text and file is not None:
        raise InputError(f"FILE ({file}) and --text were both given; use one.")
    path = file or STDIN
    check_not_input(output, *([] if text else [path]))
    requested = _make_read_settings(read)
    opened = computing.open(task, "predict")
    source = Lines(path, texts=text) if text else path
    reader = open_reader(source, opened.family, requested, trained=opened.read, labelled=False)
    ahead, examples = tee(reader)

    predicted = zip(examples, opened.predict_examples(ahead), strict=True)
    with _writing(output) as write:
        if as_json:
            for example, prediction in predicted:
                write(f"{to_json(opened.to_json(example, prediction))}\n")
            return
        for written in reader.write(predicted):
            write(written)


@contextmanager
def _writing(output: Path | None) -> Iterator[Callable[[str], object]]:
    if output is None:
        yield sys.stdout.write
        return
    # A lone surrogate, which JSON may contain, is escaped as on standard output.
    with (
        output_file(output) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        yield file.write
