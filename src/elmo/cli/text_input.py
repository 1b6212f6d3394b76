"""The input of a command: sentences, text files, standard input and --text, read as rows."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from elmo.corpus.rows import Columns, Row, cut_rows
from elmo.errors import InputError
from elmo.files.sources import STDIN, InputFormat, find_sources
from elmo.progress import Advance, progress_bar

_PATH_LIKE = re.compile(
    r".*\.(txt|jsonl|csv|tsv|parquet|conllu)(\.(gz|xz|bz2|zst))?|\S*[\\/*]\S*|\S+\.[A-Za-z0-9]{1,8}", re.DOTALL
)


def split_inputs(inputs: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Split the inputs of a command into file names and sentences; an existing file takes precedence."""
    files: list[str] = []
    sentences: list[str] = []
    for text in inputs or ():
        if not text.strip():
            raise InputError(f"The sentence {text!r} is empty; give some words, or the name of a file.")
        if text == STDIN or os.path.exists(text):  # noqa: PTH110 (False for a text that is too long for a path)
            files.append(text)
        elif _PATH_LIKE.fullmatch(text) is None:
            sentences.append(text)
        elif glob.has_magic(text):
            files.append(text)
        else:
            raise InputError(
                f"No such file: {text!r}; a sentence that looks like the name of a file goes after --text."
            )
    return files, sentences


class TextInput:
    """The input of a command, checked before any of it is read."""

    def __init__(
        self,
        inputs: Sequence[str] | None,
        texts: Sequence[str] | None = None,
        *,
        output: Path | None = None,
        input_format: InputFormat | None = None,
        columns: Columns | None = None,
    ) -> None:
        """`input_format` is the format of all files; by default, each extension determines it."""
        files, sentences = split_inputs(inputs)
        self.texts = [*sentences, *(texts or ())]
        if not files and not self.texts:
            raise InputError("Nothing to read; give a sentence, name text files, or - for standard input.")
        self._sources = find_sources(files, Path(), format=input_format) if files else []
        self._columns = columns or Columns()
        check_not_input(output, *(source.name for source in self._sources))

    @contextmanager
    def rows(self, unit: str, *, prints: bool = False) -> Iterator[Iterator[Row]]:
        """Yield an iterator of rows with a progress bar in `unit`; it raises an error at the first invalid row."""
        paths = [source.path for source in self._sources]
        num_bytes = None  # unknown if an input is a pipe
        if all(path.is_file() for path in paths):
            num_bytes = sum(path.stat().st_size for path in paths) + sum(len(text.encode()) for text in self.texts)
        with progress_bar(unit=unit, num_bytes=num_bytes, prints=prints) as advance:
            yield self._read(advance)

    def _read(self, advance: Advance) -> Iterator[Row]:
        # Parts of one row each, so that each line of a pipe is processed when it arrives.
        for part in cut_rows(self._sources, self._columns, part_bytes=1):
            yield from cast("tuple[Row, ...]", part.rows)  # cut_rows raises an error for an invalid row
            advance(part.input_bytes)
        for number, text in enumerate(self.texts, start=1):
            yield Row(number, text)
            advance(len(text.encode()))


def check_not_input(output: Path | None, *names: str) -> None:
    """Raise InputError if the file to write is one of the files to read."""
    for name in names:
        if output is not None and output.exists() and name != STDIN and output.samefile(name):
            raise InputError(f"{name} is both input and output; give --output another name.")


def text_of(row: Row) -> str:
    """Return the text of a row on one line; words are joined by spaces."""
    return " ".join(row.content.split() if isinstance(row.content, str) else row.content)
