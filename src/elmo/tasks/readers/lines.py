"""The lines of a file of examples, with a look ahead: what every reader of text reads from."""

import io
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

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
    split_extensions,
)


class Lines:
    """The lines of one file, of standard input, or of texts in memory, with a look ahead.

    Iterating yields text without line ends and raises InputError for what cannot be read; `number` is that of the
    line read last.
    """

    GIVEN = "--text"

    def __init__(self, path: str | Path, *, texts: Sequence[str] | None = None, encoding: str = "utf-8") -> None:
        """`texts` are read instead of a file."""
        self.path = str(path) if texts is None else self.GIVEN
        self.name = "standard input" if self.path == STDIN else self.path
        self.number = 0
        self._ahead: list[str] = []
        if texts is None:
            self._lines = self._read(encoding)
        else:
            self._lines = (line for text in texts for line in text.split("\n"))

    @property
    def suffix(self) -> str:
        """The extension of the name that says the format, such as ".csv", without that of a compression."""
        extension, _ = split_extensions(Path(self.path))
        return f".{extension}" if extension else ""

    def place(self) -> Place:
        """Return the place of the line read last."""
        return Place(self.name, self.number)

    def fail(self, fault: str) -> InputError:
        """Return the error about a fault in the line read last."""
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
