"""The texts given to a command, as files of any kind, standard input and --text -> sentences, none left out."""

import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.errors import InputError
from elmo.files.sources import (
    ALL_KINDS,
    STDIN,
    BrokenRow,
    Kind,
    Lines,
    Source,
    check_text,
    describe_file,
    expand_pattern,
    open_stdin,
)

if TYPE_CHECKING:
    from elmo.model import Elmo

_TEXT_ADVICE = "give a sentence itself with --text"


@dataclass(frozen=True)
class Sentence:
    """A text or its words, and how many bytes of the input it was."""

    content: str | list[str]
    num_bytes: int

    @property
    def text(self) -> str:
        """The text; words are joined by spaces."""
        return self.content if isinstance(self.content, str) else " ".join(self.content)

    def words(self, model: "Elmo", *, split_on_spaces: bool) -> list[str]:
        """Return the words, those of a text as the model tokenizes it."""
        if isinstance(self.content, list):
            return self.content
        return [word.text for word in model.tokenize(self.content, split_on_spaces=split_on_spaces)]


class TextInput:
    """Everything a command reads, checked before the work begins; iterating stops at the first broken row."""

    def __init__(
        self,
        inputs: Sequence[str] | None,
        texts: Sequence[str] | None,
        *,
        output: Path | None,
        kind: Kind | None = "txt",
        column: str | None = None,
    ) -> None:
        """`kind` is the format of all files, None the one of their endings; `column` holds the text in a table."""
        names = [path for name in inputs or () for path in expand_pattern(name, advice=_TEXT_ADVICE)]
        self.texts = list(texts or ())
        if not names and not self.texts:
            raise InputError("Nothing to read; name text files, - for standard input, or give --text.")
        if names.count(STDIN) > 1:
            raise InputError("Standard input (-) was named more than once, but it can be read only once.")
        self.sources = [self._describe(name, kind) for name in names]
        self._column = column
        for source in self.sources:
            if output is not None and output.exists() and source.name != STDIN and output.samefile(source.path):
                raise InputError(f"{source.name} is both input and output; give --output another name.")
        for text in self.texts:
            check_text(text, "--text")

    @staticmethod
    def _describe(name: str, kind: Kind | None) -> Source:
        if name != STDIN:
            return describe_file(name, ALL_KINDS if kind is None else (kind,), kind or "txt", advice=_TEXT_ADVICE)
        if kind == "parquet":
            raise InputError("Parquet cannot be read from standard input; name the file.")
        return Source(STDIN, Path(), kind or "txt")

    @property
    def num_bytes(self) -> int | None:
        """The size of all the input, or None if part of it, such as a pipe, has no size."""
        if any(source.name == STDIN for source in self.sources):
            return None
        sizes = [source.path.stat() for source in self.sources]
        if not all(stat.S_ISREG(size.st_mode) for size in sizes):
            return None
        return sum(size.st_size for size in sizes) + sum(len(text.encode()) for text in self.texts)

    def __iter__(self) -> Iterator[Sentence]:
        for source in self.sources:
            yield from self._read(source)
        for text in self.texts:
            yield Sentence(text, len(text.encode()))

    def _read(self, source: Source) -> Iterator[Sentence]:
        before = 0
        if source.kind == "txt":
            lines = Lines(source.name)
            for line in lines:
                yield Sentence(line, lines.num_bytes - before)
                before = lines.num_bytes
            return
        from elmo.vectors.rows import Columns, open_rows, read_rows

        columns, has_size = Columns(content=self._column), source.path.is_file()
        bytes_read: Callable[[], int]
        with ExitStack() as stack:
            if source.name == STDIN:
                rows, bytes_read = read_rows(open_stdin(), source, columns), int
            else:
                rows, bytes_read = stack.enter_context(open_rows(source, columns))
            for row in rows:
                if isinstance(row, BrokenRow):
                    raise row.to_error(source.label, source.unit)
                position = bytes_read() if has_size else 0
                yield Sentence(row.content, position - before)
                before = position
