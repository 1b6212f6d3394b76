"""Files of any kind -> their rows one after another, numbered through all files; a row that cannot be read too."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from elmo.corpus.input_files import Source
from elmo.corpus.reading import damage_told, open_stream
from elmo.jobs.records import BrokenRow, Columns, Row
from elmo.jobs.table_rows import open_table_rows, read_separated
from elmo.jobs.text_rows import read_conllu, read_json_lines, read_text

Rows = Iterator[Row | BrokenRow]
ROW_UNITS = {"txt": "line", "jsonl": "line", "csv": "line", "tsv": "line", "conllu": "line", "parquet": "row"}


@dataclass(frozen=True)
class Entry:
    """A row and its place in the whole input."""

    index: int  # from 0, through all files
    source: int  # number of its file, from 0
    row: Row | BrokenRow


class RowStream:
    """Everything a job is to read, in order; says how far it is."""

    def __init__(self, sources: Sequence[Source], columns: Columns) -> None:
        self.sources, self.columns = sources, columns
        self.num_rows = [0] * len(sources)
        self._bytes_before = 0
        self._bytes_of_file: Callable[[], int] = lambda: 0

    @property
    def bytes_read(self) -> int:
        """How much of all files was read so far, as they are on the disk."""
        return self._bytes_before + self._bytes_of_file()

    def __iter__(self) -> Iterator[Entry]:
        index = 0
        for number, source in enumerate(self.sources):
            with open_rows(source, self.columns) as (rows, self._bytes_of_file):
                for row in rows:
                    self.num_rows[number] += 1
                    yield Entry(index, number, row)
                    index += 1
            self._bytes_of_file = lambda: 0
            self._bytes_before += source.path.stat().st_size


@contextmanager
def open_rows(source: Source, columns: Columns) -> Iterator[tuple[Rows, Callable[[], int]]]:
    """Give the rows of one file, and what says how many bytes of it were read so far."""
    if source.kind == "parquet":
        with open_table_rows(source, columns) as opened:
            yield opened
        return
    with open_stream(source) as (stream, bytes_read):
        yield _damage_told(source, read_rows(stream, source, columns)), bytes_read


def read_rows(stream: BinaryIO, source: Source, columns: Columns) -> Rows:
    """Give the rows of unpacked bytes of any kind but parquet."""
    if source.kind == "jsonl":
        return read_json_lines(stream, columns)
    if source.kind == "conllu":
        return read_conllu(stream)
    if source.kind in ("csv", "tsv"):
        return read_separated(stream, source, columns)
    return read_text(stream)


def _damage_told(source: Source, rows: Rows) -> Rows:
    last = 0
    with damage_told(source, lambda: f"after line {last:,}"):
        for row in rows:
            last = row.number
            yield row


def describe_place(name: str, kind: str, number: int) -> str:
    """Give the words for a row: its file and its number there."""
    return f"{'standard input' if name == '-' else name}, {ROW_UNITS[kind]} {number}"
