"""`elmo task train|evaluate|predict`: ELMo in a task of the user's own."""

import dataclasses
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from elmo.cli import options
from elmo.cli.commands.pretrain import read_changes
from elmo.cli.run import measure, pad, resumable
from elmo.errors import InputError
from elmo.files.durable import output_file
from elmo.files.sources import STDIN, Lines, check_text
from elmo.heap import reuse_large_blocks
from elmo.tasks.settings import DEFAULTS, ReadSettings, TaskOptions, TaskSettings

if TYPE_CHECKING:
    from elmo.tasks import TaskResult

GIGABYTE = 2**30
VARIANTS, NUM_SEEDS = "baseline,top,learned,tuned", 3
_READ = ("format", "columns", "header")
_QUIET_TAGS = ("O", "PUNCT", ".", ",", ":")
_WIDEST_COLUMN = 30
FunctionT = TypeVar("FunctionT", bound=Callable[..., None])

task = typer.Typer(rich_markup_mode=None)  # its help is in elmo.cli.app
TaskFolder = Annotated[str, typer.Argument(metavar="TASK", help="A folder that `elmo task train` wrote.")]
BilmPlace = Annotated[
    str | None,
    typer.Option("--bilm", metavar="MODEL", help="Where the task's biLM is now, if not where it was in training."),
]
Precision = Annotated[
    str | None, typer.Option("--precision", show_default="that of training", help="Precision of the frozen biLM.")
]


def with_options(*classes: type, only: tuple[str, ...] = ()) -> Callable[[FunctionT], FunctionT]:
    """Add the options that dataclasses declare to a command, which takes them as `**given`.

    They are named by the path of their field, as in `elmo__where`, and None unless the user gave them.
    """

    def decorate(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        derived = [each for cls in classes for each in _derive(cls, "", only)]
        function.__signature__ = signature.replace(parameters=[*own, *derived])  # type: ignore[attr-defined]
        return function

    return decorate


def _derive(cls: type, path: str, only: tuple[str, ...]) -> Iterator[inspect.Parameter]:
    for field in dataclasses.fields(cls):
        name = f"{path}{field.name}"
        if dataclasses.is_dataclass(field.type):
            yield from _derive(field.type, f"{name}__", only)  # type: ignore[arg-type]
        elif "help" in field.metadata and (not only or field.name in only):
            flag = field.metadata["flag"] or "--" + field.name.replace("_", "-")
            declared = typer.Option(
                f"{flag}/--no-{flag[2:]}" if field.type == bool | None else flag,
                metavar=field.metadata["metavar"],
                help=field.metadata["help"],
                show_default=_describe_default(field, name.replace("__", ".")),
            )
            kind: Any = Annotated[_option_type(field) | None, declared]
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _option_type(field: Any) -> Any:
    if field.name == "cache_bytes":
        return float  # in gigabytes
    if field.default_factory is dict:
        return list[str]
    if field.type == bool | None:
        return bool
    return type(field.default) if isinstance(field.default, int) else str


def _describe_default(field: Any, name: str) -> str | bool:
    if any(name in changes for changes in DEFAULTS.values()):
        return "depends on the family"
    if field.name == "cache_bytes":
        return f"{field.default // GIGABYTE}"
    if isinstance(field.default, tuple):
        return ",".join(field.default)
    return str(field.default) if isinstance(field.default, str | int) and field.default is not False else False


@task.command("train")
@with_options(TaskSettings, TaskOptions)
def train(
    context: typer.Context,
    family: Annotated[
        str | None,
        typer.Argument(
            metavar="FAMILY",
            show_default=False,
            help="tagging (or ner, pos, chunking), classification (sentiment, topic), pairs (similarity, "
            "entailment), relations, question_answering (qa) or senses (wsd).",
        ),
    ] = None,
    train: Annotated[
        str | None, typer.Option("--train", metavar="FILE", help="Labelled examples to learn from.")
    ] = None,
    dev: Annotated[
        str | None,
        typer.Option("--dev", metavar="FILE", help="Examples that decide when to stop; else a tenth of --train."),
    ] = None,
    test: Annotated[
        str | None, typer.Option("--test", metavar="FILE", help="Examples to measure on, once, at the end.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="RUN", help="The new folder of the trained task.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Resume a run from its last epoch, exactly.")
    ] = None,
    model: options.ModelName = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", show_default=False, help="A setting, as in network.dim=300; repeatable."
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Train variants on the same seeds and print a table.")
    ] = False,
    variants: Annotated[
        str,
        typer.Option(
            help="Variants of --compare: baseline, top, learned, concat, output, both, context_mix, "
            "context_concat, tuned."
        ),
    ] = VARIANTS,
    seeds: Annotated[int, typer.Option(help="Number of seeds of --compare, from --seed on.", min=1)] = NUM_SEEDS,
    fractions: Annotated[
        str, typer.Option(help="Fractions of the training data of --compare, for a learning curve.")
    ] = "1",
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep each run of --compare as a task, not only its scores.")
    ] = False,
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Train a task with ELMo in it. Killed at any moment, --resume continues exactly.

    \b
    Examples:
      elmo task train pos --train train.conllu --dev dev.conllu --test test.conllu --output tagger
      elmo task train sentiment --train reviews.csv --column label=stars --output stars
      elmo task train tagging --train train.conll --compare --fractions 0.01,0.1,1 --output compared
    """
    from elmo import tasks

    reuse_large_blocks()
    named = [flag for flag in _given_flags(context) if flag not in ("--resume", "--json")]
    of_compare = [flag for flag in named if flag in ("--variants", "--seeds", "--fractions", "--keep-runs")]
    if not compare and of_compare:
        raise InputError(f"{', '.join(of_compare)} belongs to --compare; give that too, or leave it out.")
    if resume is not None:
        if named:
            raise InputError(
                f"--resume continues with the settings of the run, so it takes no {', '.join(named)}."
            )
        with resumable(lambda: _resuming(resume)):
            return _report(tasks.resume(resume, progress=True), as_json=as_json)
    if family is None or train is None or output is None:
        raise InputError(
            "Give FAMILY, --train FILE and --output RUN for a new run, or --resume RUN for an old one."
        )
    chosen = {name: value for name, value in given.items() if value is not None}
    changes = {**_read_settings(chosen), **read_changes(set_ or [])}
    files: dict[str, Any] = {"kind": family, "dev": dev, "test": test, "model": model, "output": output}
    files |= {"settings": changes, "options": _read_options(chosen), "progress": True}
    if not compare:
        with resumable(lambda: _resuming(output)):
            return _report(tasks.train(train, **files), as_json=as_json)
    first = changes.get("fit.seed", 0)
    comparison = tasks.ComparisonSettings(
        tuple(name.strip() for name in variants.split(",") if name.strip()),
        tuple(range(first, first + seeds)),
        _read_fractions(fractions),
    )
    with resumable():
        rows = tasks.compare(train, comparison=comparison, keep_runs=keep_runs, **files)
    if len(comparison.fractions) > 1:
        from elmo.analysis import draw_learning_curves

        draw_learning_curves(output, output / "learning-curve.png", title=f"{family}: {Path(train).name}")
    print(json.dumps([dataclasses.asdict(row) for row in rows]) if as_json else tasks.format_table(rows))


def _given_flags(context: typer.Context) -> list[str]:
    """Return the options and arguments that the user gave, in the order of the help page."""
    return [
        parameter.opts[0] if parameter.param_type_name == "option" else (parameter.metavar or "").strip("[]")
        for parameter in context.command.params
        if parameter.name and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    ]


def _resuming(folder: Path) -> list[str] | None:
    from elmo.tasks.training import is_started

    return ["task", "train", "--resume", str(folder)] if is_started(folder) else None


def _read_settings(given: dict[str, Any]) -> dict[str, Any]:
    parts = [field.name for field in dataclasses.fields(TaskSettings)]
    found = {name.replace("__", "."): value for name, value in given.items() if name.split("__")[0] in parts}
    if "words.kinds" in found:
        kinds = [kind.strip() for kind in found["words.kinds"].split(",") if kind.strip()]
        found["words.kinds"] = [] if kinds == ["none"] else kinds
    return found


def _read_options(given: dict[str, Any]) -> TaskOptions:
    names = {field.name for field in dataclasses.fields(TaskOptions)}
    values = {name: value for name, value in given.items() if name in names}
    if values.get("cache_bytes", 0) < 0:
        raise InputError(f"--cache-gigabytes is {values['cache_bytes']:g}; give 0 or more.")
    if "cache_bytes" in values:
        values["cache_bytes"] = round(values["cache_bytes"] * GIGABYTE)
    if "label_map" in values:
        values["label_map"] = read_pairs(values["label_map"], "--map-label", may_be_empty=True)
    read = {name.removeprefix("read__"): value for name, value in given.items() if name.startswith("read__")}
    if "columns" in read:
        read["columns"] = read_pairs(read["columns"], "--column")
    return TaskOptions(**values, read=ReadSettings(**read))


def read_pairs(given: list[str] | None, option: str, *, may_be_empty: bool = False) -> dict[str, str]:
    """Return what NAME=VALUE arguments say."""
    found: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not (value.strip() or may_be_empty):
            raise InputError(f"{option} {item!r} is not NAME=VALUE.")
        found[name.strip()] = value.strip()
    return found


def _read_fractions(given: str) -> tuple[float, ...]:
    try:
        fractions = tuple(sorted({float(part) for part in given.split(",")}))
    except ValueError:
        fractions = ()
    if not fractions or not all(0 < fraction <= 1 for fraction in fractions):
        raise InputError(f"--fractions is {given!r}; give numbers above 0 and at most 1, as in 0.01,0.1,1.")
    return fractions


def _report(result: "TaskResult", *, as_json: bool) -> None:
    if as_json:
        values = result.to_dict()
        print(json.dumps({name: value for name, value in values.items() if name not in ("history", "settings")}))
        return
    split, scores = ("test", result.test) if result.test else ("dev", result.dev)
    listed = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
    print(f"{result.folder} is done, best after epoch {result.best_epoch}: {split} {listed}.")
    print(
        f"Use it: elmo task predict {result.folder} FILE, or elmo.tasks.load({str(result.folder)!r}).predict([…])."
    )


@task.command("evaluate")
@with_options(ReadSettings, only=_READ)
def evaluate(
    task: TaskFolder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Labelled examples; - is standard input.")],
    bilm: BilmPlace = None,
    precision: Precision = None,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Measure a trained task on labelled examples.

    \b
    Example:
      elmo task evaluate tagger test.conllu
    """
    from elmo.tasks import load

    columns = read_pairs(given.pop("columns"), "--column")
    opened = load(task, bilm=bilm, precision=precision, device=device)
    examples = opened.read_examples(file, columns=columns, **given)
    scores = opened.evaluate(examples)
    if as_json:
        print(json.dumps({"num_examples": len(examples), **scores}))
    else:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
        print(f"{file}: {listed} (examples: {len(examples):,}).")


@task.command("predict")
@with_options(ReadSettings, only=_READ)
def predict(
    task: TaskFolder,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Text, one sentence per line, or examples in any format; - or nothing is standard input.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="TEXT", show_default=False, help="A sentence to predict; repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write; standard output without it."),
    ] = None,
    bilm: BilmPlace = None,
    precision: Precision = None,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Predict, and write what was read with the predictions in it.

    Plain text is answered as text: a word and its tag per line, or a label, its probability and the text. A pair
    of sentences, or a question and its passage, is one line with a tab or ||| between them.

    \b
    Examples:
      elmo task predict tagger --text "The bank raised its rates"
      echo "a great film" | elmo task predict sentiment
      elmo task predict entailment --text "A man runs ||| Someone moves"
      elmo task predict tagger untagged.conllu --output tagged.conllu
      echo '{"text": "a great film"}' | elmo task predict sentiment
    """
    from elmo.tasks import load
    from elmo.tasks.readers import FILE_ADVICE, open_input
    from elmo.tasks.readers.columns import TARGETS

    if text and file is not None:
        raise InputError(f"FILE ({file}) and --text were both given; use one.")
    for each in text or ():
        check_text(each, "--text")
    path = file or STDIN
    if output is not None and not text and path != STDIN and output.exists() and output.samefile(path):
        raise InputError(f"{path} is both input and output; give --output another name.")
    asked = ReadSettings(columns=read_pairs(given.pop("columns"), "--column"), **given)
    opened = load(task, bilm=bilm, precision=precision, device=device)
    if not text and path == STDIN and sys.stdin is not None and sys.stdin.isatty():
        print("elmo: reading standard input; write one sentence per line, then Ctrl-D.", file=sys.stderr)
    reader, read = open_input(
        Lines(path, texts=text or None, advice=FILE_ADVICE), opened.family, opened.description.read, asked,
        known=opened.targets, sense_entries=opened.sense_entries,
    )  # fmt: skip
    is_guessed = reader.is_positional and TARGETS[opened.family] not in asked.columns
    ahead, examples = tee(opened.check_replaced(reader) if is_guessed else reader)
    has_colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    is_painted = output is None and not as_json and read.format == "text" and has_colours
    form = _to_json if as_json else _paint if is_painted else reader.write
    with _writing(output) as write:
        write("" if as_json else reader.begin())
        for example, prediction in zip(examples, opened.predict_examples(ahead), strict=True):
            write(form(example, prediction))
        write("" if as_json else reader.end())


def _to_json(example: Any, prediction: Any) -> str:
    from elmo.tasks import TagPrediction

    found: dict[str, Any] = {"input": example.record} if isinstance(example.record, str) else {}
    if not found and hasattr(example, "words"):
        found["words"] = example.words
    found |= dataclasses.asdict(prediction)
    if isinstance(prediction, TagPrediction):
        found["spans"] = [{"type": kind, "start": start, "end": end} for kind, start, end in prediction.spans]
    return json.dumps(found, ensure_ascii=False) + "\n"


def _paint(example: Any, prediction: Any) -> str:
    """Return the rows of plain text for a terminal: aligned, with the prediction in colour."""
    from elmo.tasks.examples import TaggedSentence
    from elmo.tasks.readers.plain_text import prediction_rows

    rows = prediction_rows(example, prediction)
    is_tagged = isinstance(example, TaggedSentence)
    widths = [min(_WIDEST_COLUMN, max(map(measure, cells))) for cells in zip(*rows, strict=True)]
    painted = []
    for row in rows:
        cells = [pad(cell, width) for cell, width in zip(row, widths, strict=True)]
        at = 1 if is_tagged else 0
        if row[at] not in _QUIET_TAGS:
            cells[at] = typer.style(cells[at], fg=typer.colors.GREEN, bold=True)
        painted.append("  ".join(cells).rstrip() + "\n")
    return "".join(painted) + ("\n" if is_tagged else "")


@contextmanager
def _writing(output: Path | None) -> Iterator[Callable[[str], object]]:
    if output is None:
        yield sys.stdout.write
        return
    # A lone surrogate, which JSON may hold, is written as on standard output.
    with (
        output_file(output) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        yield file.write
