"""Arguments of a call -> exit code: 0, 1 (a closed pipe), 2 (a mistake, told in one line) or 130 (Ctrl-C)."""

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, cast

import typer

from elmo.cli.commands import app
from elmo.cli.old_spellings import translate
from elmo.cli.resuming import interruption, remember_call
from elmo.cli.standard_streams import replace_closed_streams
from elmo.cli.text_width import show
from elmo.errors import ElmoError
from elmo.text.scripts import UnfamiliarScriptWarning

# typer exports only this subclass of the errors it raises for wrong arguments.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


COMPLETE_VARIABLE = "_ELMO_COMPLETE"  # which typer's scripts for shells set


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, with the arguments given or those of the process, and give its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    closed_output = replace_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper):
        # Words of any script must not end a command on a terminal that cannot show them.
        sys.stdout.reconfigure(errors="backslashreplace")
    remember_call(arguments)
    try:
        with _warnings_on_stderr():
            code = _flush(_invoke(translate(arguments)))
    except KeyboardInterrupt:
        return _say(interruption(), 130)
    except typer.Abort as error:
        if isinstance(error.__cause__, EOFError):  # which typer takes for Ctrl-D
            raise error.__cause__ from None
        return _say(interruption(), 130)
    names = [argument.partition("=")[0] for argument in arguments]
    if code == 0 and closed_output is not None and closed_output.has_content and not {"-o", "--output"} & {*names}:
        return _say("standard output is closed, so the answer is lost; give --output FILE, or leave it open.", 2)
    return code


def _invoke(arguments: Sequence[str]) -> int:
    try:
        code = app(list(arguments), prog_name="elmo", standalone_mode=False)
    except _UsageError as error:
        return _say(_describe_usage(cast(typer.BadParameter, error)), 2)
    except ElmoError as error:
        return _say(str(error), 2)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _say(f"{name}{error.strerror or error}.", 2)
    except SystemExit as error:  # a shell asked for completions, or nobody reads our output any more
        if COMPLETE_VARIABLE in os.environ:
            return error.code if isinstance(error.code, int) else 0
        _drop_output()
        return 1
    if code == 130:
        raise KeyboardInterrupt  # typer hands Ctrl-C on as this code
    return int(code or 0)


def _describe_usage(error: typer.BadParameter) -> str:
    command = error.ctx.command_path if error.ctx else "elmo"
    return f"{error.format_message()} See {command} --help."


def _say(message: str, code: int) -> int:
    """Print one line, whatever the message holds."""
    print("elmo:", show(" ".join(message.split())), file=sys.stderr)
    return code


def _flush(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return 1
    except OSError as error:  # a full disk, for example, which the command may have told of already
        _drop_output()
        return code or _say(f"standard output: {error.strerror}.", 2)
    return code


def _drop_output() -> None:
    # What is still buffered would be written at exit, into the broken output and with a complaint.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"elmo: {record.levelname.lower()}: {' '.join(record.getMessage().split())}"


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_OneLine())
    logger = logging.getLogger("elmo")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UnfamiliarScriptWarning)
            show_as_before = warnings.showwarning

            def show_line(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
                if issubclass(category, UnfamiliarScriptWarning):
                    print("elmo: warning:", show(str(message)), file=sys.stderr)
                else:
                    show_as_before(message, category, *place, **options)

            warnings.showwarning = show_line
            yield
    finally:
        logger.removeHandler(handler)
