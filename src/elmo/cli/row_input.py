"""What `embed` and `encode` read to print or to write one file: files of any kind, standard input, --text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.cli.text_input import STDIN, TextInput
from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.corpus.input_files import Kind, Source
    from elmo.jobs.rows import Rows
    from elmo.model import Elmo


@dataclass(frozen=True)
class Sentence:
    """A text or its words, and how much of the input it was."""

    content: str | list[str]
    num_bytes: int

    def words(self, model: "Elmo", *, split_on_spaces: bool) -> list[str]:
        """Give the words, of a text those of the tokenizer."""
        if isinstance(self.content, list):
            return self.content
        return [word.text for word in model.tokenize(self.content, split_on_spaces=split_on_spaces)]


class RowInput:
    """Everything to be read, checked before the work begins; iterating reads it, and stops at a broken row."""

    def __init__(
        self,
        inputs: Sequence[str] | None,
        texts: Sequence[str] | None,
        *,
        kind: "Kind | None",
        column: str | None,
        output: Path | None,
    ) -> None:
        from elmo.corpus.input_files import expand_pattern

        names = [path for name in inputs or () for path in ([name] if name == STDIN else expand_pattern(name))]
        self._checked = TextInput(names, texts, output=output)
        self._kind, self._column = kind, column

    @property
    def num_bytes(self) -> int | None:
        """The size of all the input, or None if a part of it, such as a pipe, has no size."""
        return self._checked.num_bytes

    def __iter__(self) -> Iterator[Sentence]:
        for name in self._checked.inputs:
            yield from self._read_file(name)
        for text in self._checked.texts:
            yield Sentence(text, len(text.encode()))

    def _read_file(self, name: str) -> Iterator[Sentence]:
        from elmo.corpus.input_files import Source, describe_file, open_stdin
        from elmo.jobs.inputs import KINDS
        from elmo.jobs.records import Columns
        from elmo.jobs.rows import open_rows, read_rows

        columns = Columns(content=self._column)
        if name == STDIN:
            source = Source(STDIN, Path(), self._kind or "txt")
            if source.kind == "parquet":
                raise InputError("Parquet cannot be read from standard input; name the file.")
            yield from _read(source, read_rows(open_stdin(), source, columns))
            return
        source = describe_file(name, KINDS if self._kind is None else (self._kind,), self._kind or "txt")
        with open_rows(source, columns) as (rows, bytes_read):
            before = 0
            for sentence in _read(source, rows):
                position = before if self.num_bytes is None else bytes_read()  # a pipe has none
                yield Sentence(sentence.content, position - before)
                before = position


def _read(source: "Source", rows: "Rows") -> Iterator[Sentence]:
    from elmo.jobs.records import BrokenRow
    from elmo.jobs.rows import describe_place

    for row in rows:
        if isinstance(row, BrokenRow):
            raise InputError(f"{describe_place(source.name, source.kind, row.number)}, {row.reason}.")
        yield Sentence(row.content, 0)
