"""Read input files as rows and group the rows into parts of roughly equal text size.

A row is a text or a list of words, with an id and spans; a row that cannot be read is a BrokenRow with a reason. The
parts depend only on the text size, not on the number of workers, so they are the same in every run.
"""

import itertools
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from elmo.corpus.settings import Split
from elmo.errors import InputError
from elmo.files.rows import LONGEST_ROW_BYTES, Record, open_parquet, read_cells, read_json_lines
from elmo.files.sources import (
    BYTE_ORDER_MARK,
    CONVERT_ADVICE,
    BrokenRow,
    Source,
    open_stream,
    read_lines,
    report_damage,
    too_long,
)
from elmo.text.tokenize import split_sentences

CONTENT_COLUMNS = ("text", "sentence", "tokens", "words")  # the first of these that exists is used
ID_COLUMN = "id"


@dataclass(frozen=True)
class Columns:
    """Column names (None selects the defaults) and how text is split into rows."""

    content: str | None = None
    id: str | None = None
    spans: str | None = None
    split: Split = "lines"
    language: str | None = None

    def find(self, names: Collection[str]) -> tuple[str, str | None]:
        """Return the content column and the id column among `names`; raise ValueError if a column is missing."""
        candidates = CONTENT_COLUMNS if self.content is None else (self.content,)
        content = next((name for name in candidates if name in names), None)
        columns = (("--column", content), ("--id-column", self.id), ("--spans", self.spans))
        for option, name in columns:
            if name not in names and (name is not None or option == "--column"):
                column = " or ".join(map(repr, candidates if name is None else (name,)))
                listed = ", ".join(map(repr, list(names)[:8])) or "none"
                raise ValueError(f"has no column {column}, only {listed}; choose one with {option}")
        id_column = ID_COLUMN if self.id is None else self.id
        return str(content), id_column if id_column in names else None


class Row(NamedTuple):
    """One sentence: a text to be tokenized, or its words."""

    number: int  # of the line or row in the file, from 1
    content: str | list[str]
    id: str | None = None
    spans: list[tuple[int, int]] | None = None

    @property
    def num_bytes(self) -> int:
        """The approximate size of the text, which is the same in every run."""
        if isinstance(self.content, str):
            return len(self.content.encode()) + 1  # a line end
        return sum(len(word.encode()) + 1 for word in self.content) + 1  # a space after each word, and a line end


Rows: TypeAlias = Iterator[Row | BrokenRow]


@dataclass(frozen=True)
class Part:
    """Consecutive rows of the input, possibly from several files."""

    number: int
    first_index: int  # index of the first row in the whole input, from 0
    rows: tuple[Row | BrokenRow, ...]
    num_rows: Counter[Source]  # of each file, in order
    input_bytes: int  # the size of this part in the input files

    def source_of(self, index: int) -> Source:
        """Return the file of the row with an index in the whole input."""
        ends = list(itertools.accumulate(self.num_rows.values(), initial=self.first_index))[1:]
        return list(self.num_rows)[bisect_right(ends, index)]


def cut_rows(
    sources: Sequence[Source], columns: Columns, part_bytes: int, *, keep_broken: bool = False
) -> Iterator[Part]:
    """Read all files in order and yield their rows in parts of at least `part_bytes` of text; the last may be smaller.

    Raises InputError for a row that cannot be read, unless `keep_broken`.
    """
    rows: list[Row | BrokenRow] = []
    num_rows: Counter[Source] = Counter()
    number = first_index = size = 0
    yielded_bytes = finished_bytes = 0  # of the parts so far, and of the files before `source`
    for source in sources:
        with open_rows(source, columns) as (rows_of_file, bytes_read):
            for row in rows_of_file:
                if isinstance(row, BrokenRow) and not keep_broken:
                    raise row.to_error(source.label, source.unit)
                rows.append(row)
                num_rows[source] += 1
                size += len(row.reason) if isinstance(row, BrokenRow) else row.num_bytes
                if size >= part_bytes:
                    input_bytes = finished_bytes + bytes_read() - yielded_bytes
                    yield Part(number, first_index, tuple(rows), num_rows, input_bytes)
                    number += 1
                    first_index += len(rows)
                    yielded_bytes += input_bytes
                    size, rows, num_rows = 0, [], Counter()
        finished_bytes += source.path.stat().st_size
    if rows:
        yield Part(number, first_index, tuple(rows), num_rows, finished_bytes - yielded_bytes)


@contextmanager
def open_rows(source: Source, columns: Columns) -> Iterator[tuple[Rows, Callable[[], int]]]:
    """Yield the rows of one file, and a function that returns how many bytes of it have been read."""

    def choose(names: Collection[str]) -> list[str]:
        return [name for name in (*_check_columns(source, names, columns), columns.spans) if name is not None]

    opened: AbstractContextManager[tuple[Any, Callable[[], int]]]
    opened = open_parquet(source, choose) if source.format == "parquet" else open_stream(source)
    with opened as (content, bytes_read):
        yield _split_rows(_report_damage(source, _read_rows(content, source, columns)), source, columns), bytes_read


def _split_rows(rows: Rows, source: Source, columns: Columns) -> Rows:
    """Split rows into sentences, or join lines into documents, according to `columns.split`."""
    if columns.split == "none" and source.format == "txt":
        yield from _join_documents(rows)
        return
    for row in rows:
        if columns.split == "sentences" and isinstance(row, Row) and isinstance(row.content, str):
            for sentence in split_paragraphs(row.content, columns.language):
                yield row._replace(content=sentence)
        else:
            yield row


def split_paragraphs(text: str, language: str | None) -> Iterator[str]:
    """Yield the sentences of a text; every line is a paragraph."""
    for line in text.split("\n"):
        yield from split_sentences(line, language=language or "en")


def _join_documents(rows: Rows) -> Rows:
    lines: list[Row] = []
    num_bytes = 0
    for row in itertools.chain(rows, [None]):
        if isinstance(row, Row) and isinstance(row.content, str) and row.content.strip():
            if num_bytes <= LONGEST_ROW_BYTES:
                lines.append(row)
            num_bytes += row.num_bytes
            continue
        if lines:
            joined = lines[0]._replace(content="\n".join(str(line.content) for line in lines))
            yield joined if num_bytes <= LONGEST_ROW_BYTES else too_long(joined.number, LONGEST_ROW_BYTES)
        lines, num_bytes = [], 0
        if isinstance(row, BrokenRow):
            yield row


def _read_rows(content: Any, source: Source, columns: Columns) -> Rows:
    """Return the rows of the records of a Parquet file, or of a stream of uncompressed bytes."""
    if source.format == "parquet":
        return (_make_row(record, columns) for record in content)
    if source.format in ("csv", "tsv"):
        return _read_separated(content, source, columns)
    lines = read_lines(content, longest=LONGEST_ROW_BYTES)
    if source.format == "jsonl":
        return (_make_row(record, columns) for record in read_json_lines(lines))
    if source.format == "conllu":
        return _read_conllu(lines)
    return (line if isinstance(line, BrokenRow) else Row(number, line) for number, line in enumerate(lines, start=1))


def _report_damage(source: Source, rows: Rows) -> Rows:
    last = 0
    with report_damage(source, lambda: f"after {source.unit} {last:,}"):
        for row in rows:
            last = row.number
            yield row


def _check_columns(source: Source, names: Collection[str], columns: Columns) -> tuple[str, str | None]:
    try:
        return columns.find(names)
    except ValueError as error:
        raise InputError(f"{source.name} {error}.") from error


def _read_separated(stream: BinaryIO, source: Source, columns: Columns) -> Rows:
    # Invalid bytes are decoded to surrogates, so that they break only their own row.
    content = iter(partial(stream.readline, LONGEST_ROW_BYTES), b"")
    lines = (line.decode("utf-8", "surrogateescape") for line in content)
    is_tsv = source.format == "tsv"
    header: list[str] = []
    for row in read_cells(lines, "\t" if is_tsv else ",", quoted=not is_tsv):
        if isinstance(row, BrokenRow):
            yield row
            continue
        number, cells = row
        if not header:
            header = [cells[0].removeprefix(BYTE_ORDER_MARK), *cells[1:]]
            _check_columns(source, header, columns)
        elif len(cells) != len(header):
            yield BrokenRow(number, f"has {len(cells)} fields, but the header has {len(header)}")
        else:
            yield _make_row(Record(number, dict(zip(header, cells, strict=True))), columns)


def _make_row(record: Record | BrokenRow, columns: Columns) -> Row | BrokenRow:
    if isinstance(record, BrokenRow):
        return record
    try:
        row = _read_fields(record, columns)
    except ValueError as error:
        return BrokenRow(record.number, str(error))
    return row if row.num_bytes <= LONGEST_ROW_BYTES else too_long(record.number, LONGEST_ROW_BYTES)


def _read_fields(record: Record, columns: Columns) -> Row:
    """Convert a record to a row; raise ValueError if it is invalid."""
    fields = record.fields
    content_name, id_name = columns.find(fields)
    content = "" if fields[content_name] is None else fields[content_name]
    if isinstance(content, list):
        if not all(isinstance(word, str) for word in content):
            raise ValueError(f"has {content!r:.40} in {content_name!r}; every word must be a string")
    elif not isinstance(content, str):
        raise ValueError(f"has {content!r:.40} in {content_name!r}; text or a list of words was expected")
    row_id = None if id_name is None else fields[id_name]
    if isinstance(row_id, float | list | dict | bool):
        raise ValueError(f"has {row_id!r:.40} in {id_name!r}; a text or a whole number was expected")
    spans = None if columns.spans is None else _read_spans(fields[columns.spans], columns.spans)
    row = Row(record.number, content, None if row_id is None else str(row_id), spans)
    try:
        "".join([row.id or "", *([content] if isinstance(content, str) else content)]).encode()
    except UnicodeEncodeError as error:
        surrogate = ord(error.object[error.start])
        if 0xDC80 <= surrogate <= 0xDCFF:  # a byte that could not be decoded
            raise ValueError(f"is not UTF-8 (byte 0x{surrogate - 0xDC00:02x}); {CONVERT_ADVICE}") from None
        raise ValueError(f"contains a lone surrogate (\\u{surrogate:04x}), which UTF-8 cannot encode") from None
    return row


def _read_spans(value: Any, column: str) -> list[tuple[int, int]]:
    with suppress(ValueError, TypeError):
        ranges = json.loads(value) if isinstance(value, str) else value  # text tables store them as JSON
        spans = [(start, end) for start, end in ranges or []]
        if isinstance(ranges, list | None) and all(type(bound) is int for span in spans for bound in span):
            return spans
    raise ValueError(f"has {value!r:.40} in {column!r}; a list of ranges of words such as [[2, 4]] was expected")


def _read_conllu(lines: Iterator[str | BrokenRow]) -> Rows:
    """Yield the words of each sentence, numbered by its first line, without multiword tokens and empty nodes."""
    first, words, sentence_id, error = 0, list[str](), None, ""
    for number, line in enumerate(itertools.chain(lines, [""]), start=1):
        if line == "" or (isinstance(line, str) and line.isspace()):
            if first:
                yield BrokenRow(first, f"begins a sentence whose {error}") if error else Row(first, words, sentence_id)
            first, words, sentence_id, error = 0, [], None, ""
            continue
        first = first or number
        if isinstance(line, BrokenRow):
            error = error or f"line {number} {line.reason}"
        elif line.startswith("#"):
            name, _, value = line[1:].partition("=")
            sentence_id = value.strip() if name.strip() == "sent_id" else sentence_id
        else:
            fields = line.split("\t")
            if len(fields) != 10:
                error = error or f"line {number} has {len(fields)} tab-separated columns, not 10"
            elif fields[0].isdigit():
                words.append(fields[1])
