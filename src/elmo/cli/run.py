"""Run the command line. Exit codes: 0, 1 (closed pipe), 2 (an error, reported in one line) and 130 (Ctrl-C)."""

import io
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from elmo.cli.terminal import show
from elmo.errors import ElmoError
from elmo.language import translate
from elmo.text.units import UnfamiliarScriptWarning

_COMPLETION = "_ELMO_COMPLETE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command with the given arguments, by default sys.argv, and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed when the process started
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A command must not fail because the terminal cannot display a script.
        sys.stdout.reconfigure(errors="backslashreplace")
    with _warnings_on_stderr():
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
    try:
        print(end="", flush=True)
    except OSError as error:  # a closed pipe, or a full disk that the command may have reported already
        # Otherwise Python flushes its buffer to the broken output at exit, and prints another error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return 1
        return code or _fail(f"standard output: {error.strerror}.", 2)
    return code


def _run(arguments: list[str]) -> int:
    from elmo.cli.app import app  # here, because the commands import this module

    for argument in arguments:  # bytes that are not UTF-8 may be a file name, but not text
        if argument != argument.encode("utf-8", "replace").decode() and not Path(argument).exists():
            return _fail(f"The argument {argument!r:.60} is not UTF-8; type it in a terminal set to UTF-8.", 2)
    try:
        if _COMPLETION in os.environ:
            from click.shell_completion import shell_complete

            return shell_complete(app, {}, "elmo", _COMPLETION, os.environ[_COMPLETION])
        with app.make_context("elmo", [*arguments], obj=arguments) as context:
            app.invoke(context)
    except KeyboardInterrupt as error:
        return _fail("; ".join([translate("interrupted"), *map(str, error.args)]), 130)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        return _fail(_describe_usage(error), 2)
    except ElmoError as error:
        return _fail(str(error), 2)
    except BrokenPipeError:
        return 1
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _fail(f"{name}{error.strerror or error}.", 2)
    return 0


@contextmanager
def resumable(find_arguments: Callable[[], Sequence[str] | None] = lambda: None) -> Iterator[None]:
    """If the work in this context is interrupted, add the command that resumes it to the message.

    `find_arguments` returns the arguments of that command; None stands for the current arguments.
    """
    try:
        yield
    except KeyboardInterrupt:
        resuming, current = find_arguments(), click.get_current_context().obj
        command = shlex.join(["elmo", *(resuming or current)])
        reads_stdin = resuming is None and "-" in current
        advice = f"resume with the same standard input: {command}" if reads_stdin else f"resume: {command}"
        raise KeyboardInterrupt(translate(advice)) from None


def _describe_usage(error: click.ClickException) -> str:
    """Return click's message about invalid arguments as a sentence, with a reference to the help page."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "elmo"
    message = error.format_message()
    message = translate(message if message.endswith((".", "?", "?)")) else f"{message}.")
    return f"{message} {translate(f'See {command} --help.')}"


def _fail(message: str, code: int) -> int:
    print("elmo:", show(translate(" ".join(message.split()))), file=sys.stderr)
    return code


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"elmo: {translate(record.levelname.lower())}: {translate(' '.join(record.getMessage().split()))}"


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """Print the warnings of the logger and those about unfamiliar scripts on stderr, one line each."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_OneLine())
    logger = logging.getLogger("elmo")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UnfamiliarScriptWarning)
            warnings.showwarning = lambda message, *_: logger.warning("%s", show(str(message)))
            yield
    finally:
        logger.removeHandler(handler)
