"""The lines of an input file, and the base class of the readers of all formats."""

import io
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from elmo.errors import InputError
from elmo.files.sources import (
    STDIN,
    BrokenRow,
    Place,
    Source,
    describe_file,
    open_stream,
    read_lines,
    report_damage,
)
from elmo.tasks.settings import ReadSettings


class Lines:
    """The lines of one file, of standard input, or of texts in memory, with lookahead.

    Iterating yields text without line ends and raises InputError for lines that cannot be read; `number` is the
    number of the last line read.
    """

    def __init__(self, path: str | Path, *, texts: Sequence[str] | None = None, encoding: str = "utf-8") -> None:
        """`texts` are read instead of a file."""
        self.path = str(path) if texts is None else "--text"
        self.name = "standard input" if self.path == STDIN else self.path
        self.number = 0
        self._ahead: list[str] = []
        if texts is None:
            self._lines = self._read(encoding)
        else:
            self._lines = (line for text in texts for line in text.split("\n"))

    def place(self) -> Place:
        """Return the place of the last line read."""
        return Place(self.name, self.number)

    def fail(self, fault: str) -> InputError:
        """Return an error about the last line read."""
        return InputError(f"{self.place()}: {fault}")

    def peek(self, num_lines: int) -> list[str]:
        """Return up to `num_lines` of the next lines without consuming them."""
        self._ahead += itertools.islice(self._lines, max(0, num_lines - len(self._ahead)))
        return self._ahead[:num_lines]

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._ahead.pop(0) if self._ahead else next(self._lines)
        self.number += 1
        return line

    def _read(self, encoding: str) -> Iterator[str]:
        is_stdin = self.path == STDIN
        source = Source(STDIN, Path()) if is_stdin else describe_file(self.path, "txt")
        number = 0
        with open_stream(source) as (stream, _), report_damage(source, lambda: f"after line {number:,}"):
            for line in read_lines(stream if encoding == "utf-8" else _transcode(stream, self.name, encoding)):
                number += 1
                if isinstance(line, BrokenRow):
                    raise line.to_error(self.name)
                yield line


def _transcode(stream: BinaryIO, name: str, encoding: str) -> BinaryIO:
    """Return a stream of UTF-8; the whole file is read."""
    try:
        return io.BytesIO(stream.read().decode(encoding).encode())
    except LookupError as error:
        raise InputError(
            f"--encoding {encoding!r} is not known; use for example latin-1, cp1252 or gb18030."
        ) from error
    except UnicodeError as error:
        raise InputError(f"{name} is not {encoding} ({error}); name another --encoding.") from error


class Reader(ABC):
    """An open file of examples; with its `settings`, other files are read in the same way."""

    def __init__(self, lines: Lines, family: str, settings: ReadSettings, *, labelled: bool) -> None:
        """With `labelled`, each example must have a target."""
        self.lines, self.family, self.settings, self.labelled = lines, family, settings, labelled
        self.tokenizer = settings.tokenizer(family)

    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...

    @abstractmethod
    def write(self, predicted: Iterable[tuple[Any, Any]]) -> Iterator[str]:
        """Yield the input as text, given its examples with their predictions, which replace the targets."""
