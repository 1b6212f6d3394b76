"""A file, compressed or not, or standard input -> numbered lines of text, with a look ahead."""

import bz2
import gzip
import itertools
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from elmo.errors import InputError
from elmo.files.sources import open_stdin, refuse_binary
from elmo.tasks.examples import Place

STDIN = "-"
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_BYTE_ORDER_MARK = "\ufeff"


class Lines:
    """The lines of one input, without their line ends; `number` is that of the line given last."""

    GIVEN = "--text"

    def __init__(self, path: str | Path, *, texts: Sequence[str] | None = None) -> None:
        """`texts` are read instead of a file, each a line."""
        self.path = str(path) if texts is None else self.GIVEN
        self.name = "standard input" if self.path == STDIN else self.path
        self.number = 0
        self._ahead: list[str] = []
        self._raw = self._read() if texts is None else (line for text in texts for line in text.split("\n"))

    @property
    def suffix(self) -> str:
        """The ending of the name that tells the format, without that of a compression."""
        suffixes = [suffix.lower() for suffix in Path(self.path).suffixes]
        return next((suffix for suffix in reversed(suffixes) if suffix not in _OPENERS), "")

    def place(self) -> Place:
        """Where the line given last stands."""
        return Place(self.name, self.number)

    def fail(self, fault: str) -> InputError:
        """Make the error that tells of a fault in the line given last."""
        return InputError(f"{self.place()}: {fault}")

    def peek(self, num_lines: int) -> list[str]:
        """Give the next lines, as many as there are, without taking them."""
        self._ahead += itertools.islice(self._raw, max(0, num_lines - len(self._ahead)))
        return self._ahead[:num_lines]

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._ahead.pop(0) if self._ahead else next(self._raw)
        self.number += 1
        return line

    def _read(self) -> Iterator[str]:
        if self.path == STDIN:
            yield from self._decode(open_stdin())
            return
        path = Path(self.path)
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file of examples.")
        if not path.exists():
            raise InputError(f"There is no file {self.path!r}; name a file of examples.")
        refuse_binary(path, self.path)
        try:
            with _OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
                yield from self._decode(file)
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise InputError(f"{path} could not be read: {error}.") from error

    def _decode(self, file: IO[bytes]) -> Iterator[str]:
        # Bytes are cut at line feeds alone; text would be cut at U+2028 and its like too.
        for number, content in enumerate(file, start=1):
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{self.name}, line {number} is not UTF-8 (byte 0x{content[error.start]:02x}); convert the "
                    "file first, for example with iconv."
                ) from error
            text = text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text
            yield text.removesuffix("\n").removesuffix("\r")
