"""The texts a command was given, files, standard input and --text -> sentences, one a line, none left out."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.corpus.input_files import open_stdin
from elmo.errors import InputError
from elmo.text.file_kinds import refuse_binary

STDIN = "-"
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Line:
    """One sentence, and how much of the input it was."""

    text: str
    num_bytes: int


class TextInput:
    """Everything a command is to read, checked before the work begins; iterating reads it."""

    def __init__(self, inputs: Sequence[str] | None, texts: Sequence[str] | None, *, output: Path | None) -> None:
        self.inputs = list(inputs or ())
        self.texts = list(texts or ())
        if not self.inputs and not self.texts:
            raise InputError("Nothing to read; name text files, - for standard input, or give --text.")
        if self.inputs.count(STDIN) > 1:
            raise InputError("Standard input (-) was named more than once, but it can be read only once.")
        for name in self.inputs:
            if name != STDIN:
                _check_file(name, output)
        for text in self.texts:
            check_text(text, "--text")

    @property
    def num_bytes(self) -> int | None:
        """The size of all the input, or None if a part of it, such as a pipe, has no size."""
        if STDIN in self.inputs:
            return None
        sizes = [Path(name).stat() for name in self.inputs]
        if not all(stat.S_ISREG(size.st_mode) for size in sizes):
            return None
        return sum(size.st_size for size in sizes) + sum(len(text.encode()) for text in self.texts)

    def __iter__(self) -> Iterator[Line]:
        for name in self.inputs:
            if name == STDIN:
                yield from _read_lines(open_stdin(), "standard input")
            else:
                with Path(name).open("rb") as file:
                    yield from _read_lines(file, name)
        for text in self.texts:
            yield Line(text, len(text.encode()))


def _read_lines(file: Iterable[bytes], name: str) -> Iterator[Line]:
    # Bytes are cut at line feeds alone; text would be cut at U+2028 and its like too.
    for number, content in enumerate(file, start=1):
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name}, line {number}, is not UTF-8 (byte 0x{content[error.start]:02x} at position "
                f"{error.start}); convert the text first, for example with iconv."
            ) from error
        if number == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        yield Line(text.removesuffix("\n").removesuffix("\r"), len(content))


def _check_file(name: str, output: Path | None) -> None:
    path = Path(name)
    if path.is_dir():
        raise InputError(f"{name} is a folder; name the text files in it.")
    if not path.exists():
        raise InputError(f"There is no file {name!r}; give a sentence itself with --text.")
    if not os.access(path, os.R_OK):
        raise InputError(f"{name} may not be read; change its permissions or read a copy.")
    refuse_binary(path, name)
    if output is not None and output.exists() and output.samefile(path):
        raise InputError(f"{name} is both input and output; give --output another name.")


def check_text(text: str, name: str) -> None:
    """Refuse an argument whose bytes were not UTF-8; `name` says which one it is."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name} {text!r:.60} is not UTF-8; type it in a terminal set to UTF-8.") from error
