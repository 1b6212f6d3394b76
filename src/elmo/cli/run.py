"""Arguments of a call -> exit code: 0, 1 (closed pipe), 2 (a mistake, reported in one line) or 130 (Ctrl-C)."""

import io
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from elmo.cli.terminal import show
from elmo.errors import ElmoError
from elmo.language import translate
from elmo.text.units import UnfamiliarScriptWarning

_call: list[str] = []
_advice: list[str] = []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command with the given arguments, or those of the process, and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _replace_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Words of any script must not end a command on a terminal that cannot show them.
        sys.stdout.reconfigure(errors="backslashreplace")
    _call[:], _advice[:] = arguments, []
    try:
        with _warnings_on_stderr():
            return _flush(_invoke(arguments))
    except KeyboardInterrupt:
        return _fail("; ".join([translate("interrupted"), *_advice]), 130)
    except typer.Abort as error:
        if isinstance(error.__cause__, EOFError):  # typer takes any EOFError for Ctrl-D
            raise error.__cause__ from None
        return _fail("; ".join([translate("interrupted"), *_advice]), 130)


@contextmanager
def resumable(find_arguments: Callable[[], Sequence[str] | None] = lambda: None) -> Iterator[None]:
    """Print the command that resumes the work in this context if it is interrupted.

    `find_arguments` returns the arguments of that command; None stands for the present call.
    """
    try:
        yield
    except KeyboardInterrupt:
        arguments = find_arguments()
        again = _call if arguments is None else arguments
        call = shlex.join(["elmo", *again])
        same_input = f"resume with the same standard input: {call}"
        _advice[:] = [translate(same_input if arguments is None and "-" in again else f"resume: {call}")]
        raise


def _invoke(arguments: Sequence[str]) -> int:
    from elmo.cli.app import app  # here, because the commands import this module

    try:
        code = app(list(arguments), prog_name="elmo", standalone_mode=False)
    except ElmoError as error:
        return _fail(str(error), 2)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _fail(f"{name}{error.strerror or error}.", 2)
    except SystemExit as error:  # completions for a shell (0), or nobody reads our output any more (1)
        if error.code == 1:
            _drop_output()
        return error.code if isinstance(error.code, int) else 0
    except Exception as error:
        if not hasattr(error, "format_message"):  # what typer raises for wrong arguments has it
            raise
        return _fail(_describe_usage(error), 2)
    if code == 130:
        raise KeyboardInterrupt  # typer turns Ctrl-C into this code
    return int(code or 0)


def _describe_usage(error: Any) -> str:
    """Return typer's message about wrong arguments as a sentence, and where to find help."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "elmo"
    # The prefix is pydantic's, in which typer checks values.
    message = error.format_message().replace("Value error, ", "", 1)
    message = translate(message if message.endswith((".", "?", "!")) else f"{message}.")
    return f"{message} {translate(f'See {command} --help.')}"


def _fail(message: str, code: int) -> int:
    """Print a message as one line, whatever it contains, and return the code."""
    print("elmo:", show(translate(" ".join(message.split()))), file=sys.stderr)
    return code


def _flush(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return 1
    except OSError as error:  # a full disk, for example, which the command may have reported already
        _drop_output()
        return code or _fail(f"standard output: {error.strerror}.", 2)
    return code


def _drop_output() -> None:
    # Otherwise Python writes the buffered rest at exit, into the broken output, and complains.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"elmo: {translate(record.levelname.lower())}: {translate(' '.join(record.getMessage().split()))}"


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
                    print(f"elmo: {translate('warning')}:", show(translate(str(message))), file=sys.stderr)
                else:
                    show_as_before(message, category, *place, **options)

            warnings.showwarning = show_line
            yield
    finally:
        logger.removeHandler(handler)


def _replace_closed_streams() -> None:
    """Replace standard streams that were closed when the process started, for which Python has None.

    The system would reuse their numbers for the next files that are opened. Standard input stays None: its readers
    report that it is closed.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
