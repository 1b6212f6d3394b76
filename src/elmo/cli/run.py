"""Arguments of a call -> exit code: 0, 1 (closed pipe), 2 (a mistake, reported in one line) or 130 (Ctrl-C).

Text for a terminal is made here too: safe to print, cut and padded by the columns it takes.
"""

import io
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from elmo.errors import ElmoError
from elmo.text.units import UnfamiliarScriptWarning

_call: list[str] = []
_advice: list[str] = []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command with the given arguments, or those of the process, and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    closed_output = _replace_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Words of any script must not end a command on a terminal that cannot show them.
        sys.stdout.reconfigure(errors="backslashreplace")
    _call[:], _advice[:] = arguments, []
    try:
        with _warnings_on_stderr():
            code = _flush(_invoke(arguments))
    except KeyboardInterrupt:
        return _say("; ".join(["interrupted", *_advice]), 130)
    except typer.Abort as error:
        if isinstance(error.__cause__, EOFError):  # typer takes any EOFError for Ctrl-D
            raise error.__cause__ from None
        return _say("; ".join(["interrupted", *_advice]), 130)
    names = [argument.partition("=")[0] for argument in arguments]
    if code == 0 and closed_output is not None and closed_output.has_content and not {"-o", "--output"} & {*names}:
        return _say("standard output is closed, so the answer is lost; give --output FILE, or leave it open.", 2)
    return code


@contextmanager
def resumable(find_arguments: Callable[[], Sequence[str] | None] = lambda: None) -> Iterator[None]:
    """Print the command that resumes the work in this context if it is interrupted.

    `find_arguments` returns the arguments of that command; None stands for the present call.
    """
    try:
        yield
    except KeyboardInterrupt:
        arguments = find_arguments()
        given = _call if arguments is None else arguments
        with_input = " with the same standard input" if arguments is None and "-" in given else ""
        _advice[:] = [f"resume{with_input}: {shlex.join(['elmo', *given])}"]
        raise


def _invoke(arguments: Sequence[str]) -> int:
    from elmo.cli.app import app  # here, because the commands import this module

    try:
        code = app(list(arguments), prog_name="elmo", standalone_mode=False)
    except ElmoError as error:
        return _say(str(error), 2)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _say(f"{name}{error.strerror or error}.", 2)
    except SystemExit as error:  # completions for a shell (0), or nobody reads our output any more (1)
        if error.code == 1:
            _drop_output()
        return error.code if isinstance(error.code, int) else 0
    except Exception as error:
        if not hasattr(error, "format_message"):  # what typer raises for wrong arguments has it
            raise
        return _say(_describe_usage(error), 2)
    if code == 130:
        raise KeyboardInterrupt  # typer turns Ctrl-C into this code
    return int(code or 0)


def _describe_usage(error: Any) -> str:
    """Return typer's message about wrong arguments as a sentence, and where to find help."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "elmo"
    # The prefix is pydantic's, in which typer checks values.
    message = error.format_message().replace("Value error, ", "", 1)
    end = "" if message.endswith((".", "?", "!")) else "."
    return f"{message}{end} See {command} --help."


def _say(message: str, code: int) -> int:
    """Print a message as one line, whatever it contains, and return the code."""
    print("elmo:", show(" ".join(message.split())), file=sys.stderr)
    return code


def _flush(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return 1
    except OSError as error:  # a full disk, for example, which the command may have reported already
        _drop_output()
        return code or _say(f"standard output: {error.strerror}.", 2)
    return code


def _drop_output() -> None:
    # Otherwise Python writes the buffered rest at exit, into the broken output, and complains.
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


class _ClosedOutput(io.RawIOBase):
    """Stands for a closed standard output and remembers whether anything was written to it."""

    has_content = False

    def writable(self) -> bool:
        return True

    def write(self, content: object) -> int:
        size = memoryview(content).nbytes  # type: ignore[arg-type]
        self.has_content = self.has_content or size > 0
        return size


def _replace_closed_streams() -> _ClosedOutput | None:
    """Replace standard streams that were closed when the process started; return the one for standard output.

    Python has None in their place, and the system would reuse their numbers for the next files that are opened.
    Standard input stays None: its readers report that it is closed.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return None
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is not None:
        return None
    closed = _ClosedOutput()
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(closed), encoding="utf-8", errors="backslashreplace")
    return closed


_LONGEST_WORD = 15


def show(text: str) -> str:
    """Return text from a foreign file as one line without characters that would act on the terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def measure(text: str) -> int:
    """Return the number of columns a text takes; wide characters take two, combining marks none."""
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, width: int) -> str:
    """Add spaces up to a width."""
    return text + " " * max(0, width - measure(text))


def align_facts(facts: Mapping[str, str]) -> str:
    """Return one line per fact: its name, then its text, in two columns."""
    width = max(map(len, facts)) + 2
    return "\n".join(show(f"{name:<{width}}{text}") for name, text in facts.items())


def fit(text: str, width: int) -> str:
    """Cut a text to a width around its [marked] word, or from its start, between words where it has spaces."""
    if measure(text) <= width:
        return text
    left = max(0, text.find("["))
    right = text.find("]", left) + 1 or left
    is_growing = True
    while is_growing:
        is_growing = False
        if (start := _step_left(text, left)) < left and measure(text[start:right]) <= width - 2:
            left, is_growing = start, True
        if (end := _step_right(text, right)) > right and measure(text[left:end]) <= width - 2:
            right, is_growing = end, True
    return f"{'…' if left else ''}{text[left:right]}{'…' if right < len(text) else ''}"


def _step_left(text: str, at: int) -> int:
    """Return the start of the word before; long ones, as in writing without spaces, are cut by characters."""
    start = text.rfind(" ", 0, max(0, at - 1)) + 1
    return start if at - start <= _LONGEST_WORD else at - 1


def _step_right(text: str, at: int) -> int:
    end = text.find(" ", at + 1)
    end = len(text) if end < 0 else end
    return end if end - at <= _LONGEST_WORD else at + 1
