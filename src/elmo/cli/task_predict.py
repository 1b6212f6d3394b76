"""`elmo task predict`: text or examples in, predictions out as they come, in the form that came in."""

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from elmo.cli import options, task_options
from elmo.cli.text_width import measure, pad
from elmo.errors import InputError
from elmo.files.durable import output_file
from elmo.files.sources import check_text

_QUIET_TAGS = ("O", "PUNCT", ".", ",", ":")
WIDEST_COLUMN = 30


def predict(
    task: task_options.TaskFolder,
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
    format: task_options.PredictFormatChoice = None,
    column: task_options.Columns = None,
    header: task_options.Header = None,
    bilm: task_options.BilmPlace = None,
    precision: task_options.Precision = None,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
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
    from itertools import tee

    from elmo.tasks import load
    from elmo.tasks.readers.columns import TARGETS
    from elmo.tasks.readers.formats import open_reader
    from elmo.tasks.readers.lines import STDIN, Lines
    from elmo.tasks.readers.unlabelled import check_targets, choose_settings

    if text and file is not None:
        raise InputError(f"FILE ({file}) and --text were both given; use one.")
    for each in text or ():
        check_text(each, "--text")
    path = file or STDIN
    if output is not None and not text and path != STDIN and output.exists() and output.samefile(path):
        raise InputError(f"{path} is both input and output; give --output another name.")
    given = task_options.read_pairs(column, "--column")
    opened = load(task, bilm=bilm, precision=precision, device=device)
    if not text and path == STDIN and sys.stdin is not None and sys.stdin.isatty():
        print("elmo: reading standard input; write one sentence per line, then Ctrl-D.", file=sys.stderr)
    lines = Lines(path, texts=text or None)
    read = choose_settings(
        lines, opened.family, opened.description.read, opened.targets, format=format, columns=given, header=header
    )
    reader = open_reader(lines, opened.family, read, labelled=False, sense_entries=opened.sense_entries).reader
    check_targets(reader, lines.name, opened.family, opened.targets, given)
    is_guessed = getattr(reader, "is_positional", False) and TARGETS[opened.family] not in given
    ahead, examples = tee(opened.check_replaced(reader) if is_guessed else reader)
    is_painted = output is None and not as_json and read.format == "text" and _has_colours()
    with _writing(output) as write:
        write("" if as_json else reader.begin())
        for example, prediction in zip(examples, opened.predict_examples(ahead), strict=True):
            if as_json:
                write(_to_json(example, prediction))
            elif is_painted:
                write(_paint(example, prediction))
            else:
                write(reader.write(example, prediction))
        write("" if as_json else reader.end())


def _to_json(example: Any, prediction: Any) -> str:
    from elmo.tasks.families.tagging import TagPrediction

    found: dict[str, Any] = {"input": example.record} if isinstance(example.record, str) else {}
    if not found and hasattr(example, "words"):
        found["words"] = example.words
    found |= dataclasses.asdict(prediction)
    if isinstance(prediction, TagPrediction):
        found["spans"] = [{"type": kind, "start": start, "end": end} for kind, start, end in prediction.spans]
    return json.dumps(found, ensure_ascii=False) + "\n"


def _has_colours() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _paint(example: Any, prediction: Any) -> str:
    """Return the rows of plain text for a terminal: aligned, with what was predicted in colour."""
    from elmo.tasks.examples import TaggedSentence
    from elmo.tasks.readers.plain_text import prediction_rows

    rows = prediction_rows(example, prediction)
    is_tagged = isinstance(example, TaggedSentence)
    widths = [min(WIDEST_COLUMN, max(map(measure, cells))) for cells in zip(*rows, strict=True)]
    painted = []
    for row in rows:
        cells = [pad(cell, width) for cell, width in zip(row, widths, strict=True)]
        at = 1 if is_tagged else 0
        if row[at] not in _QUIET_TAGS:
            cells[at] = typer.style(cells[at], fg=typer.colors.GREEN, bold=True)
        painted.append("  ".join(cells).rstrip() + "\n")
    return "".join(painted) + ("\n" if is_tagged else "")


def _open(path: Path) -> TextIO:
    # Half of a character that needs two, which JSON may hold, is written as on standard output.
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="")


@contextmanager
def _writing(output: Path | None) -> Iterator[Callable[[str], object]]:
    if output is None:
        yield sys.stdout.write
        return
    with output_file(output) as aside, _open(aside) as file:
        yield file.write
