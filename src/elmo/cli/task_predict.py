"""`elmo task predict`: examples in, the same format with predictions out, as they come."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from elmo.cli import options, task_options
from elmo.cli.writing_aside import file_written_aside
from elmo.errors import InputError


def predict(
    task: task_options.TaskFolder,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Examples, labelled or not; - is standard input.")
    ] = "-",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write; else standard output."),
    ] = None,
    format: task_options.FormatChoice = None,
    column: task_options.Columns = None,
    header: task_options.Header = None,
    bilm: task_options.BilmPlace = None,
    precision: task_options.Precision = None,
    device: options.Device = "cpu",
) -> None:
    """Predict, and write what was read with the predictions in it.

    \b
    Examples:
      elmo task predict tagger untagged.conllu --output tagged.conllu
      echo '{"text": "a great film"}' | elmo task predict sentiment --format jsonl
    """
    from itertools import tee

    from elmo.tasks import load
    from elmo.tasks.readers.columns import TARGETS
    from elmo.tasks.readers.formats import open_reader

    if output is not None and file != "-" and output.exists() and output.samefile(file):
        raise InputError(f"{file} is both input and output; give --output another name.")
    opened = load(task, bilm=bilm, precision=precision, device=device)
    read = task_options.choose_read_settings(opened.description.read, opened.family, file, format, column, header)
    reader = open_reader(file, opened.family, read, labelled=False).reader
    is_guessed = getattr(reader, "is_positional", False) and TARGETS[opened.family] not in (
        task_options.read_pairs(column, "--column")
    )
    ahead, examples = tee(opened.check_replaced(reader) if is_guessed else reader)
    with _writing(output) as write:
        write(reader.begin())
        for example, prediction in zip(examples, opened.predict_examples(ahead), strict=True):
            write(reader.write(example, prediction))
        write(reader.end())


def _open(path: Path) -> TextIO:
    # Half of a character that needs two, which JSON may hold, is written as on standard output.
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="")


@contextmanager
def _writing(output: Path | None) -> Iterator[Callable[[str], object]]:
    if output is None:
        yield sys.stdout.write
        return
    with file_written_aside(output) as aside, _open(aside) as file:
        yield file.write
