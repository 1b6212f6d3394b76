"""Tables, of separated values or parquet -> rows."""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, BinaryIO

from elmo.corpus.input_files import Source
from elmo.corpus.reading import damage_told, is_text, open_table
from elmo.corpus.separated import QUOTING_ADVICE, SeparatedRows
from elmo.errors import InputError
from elmo.jobs.records import LONGEST_ROW_BYTES, BrokenRow, Columns, Row, read_record
from elmo.jobs.text_rows import describe_bad_byte

_ROWS_AT_ONCE = 256


def read_separated(stream: BinaryIO, source: Source, columns: Columns) -> Iterator[Row | BrokenRow]:
    """Give a sentence for each row after the header; a row is numbered by the line it ends at."""
    # Bytes that are no text come through as surrogates, so that they break their own row alone.
    content = iter(partial(stream.readline, LONGEST_ROW_BYTES), b"")
    lines = (line.decode("utf-8", "surrogateescape") for line in content)
    is_tsv = source.kind == "tsv"
    reader = SeparatedRows(lines, "\t" if is_tsv else ",", quoted=not is_tsv, longest_cell=LONGEST_ROW_BYTES)
    header: list[str] | None = None
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield BrokenRow(reader.first_line, f"is not a row of a table ({error}): {QUOTING_ADVICE}")
            continue
        if not fields:
            continue
        if header is None:
            header = [fields[0].removeprefix("\ufeff"), *fields[1:]]
            _check_header(source, header, columns)
        else:
            yield _read_fields(reader.last_line, header, fields, columns)


def _check_header(source: Source, header: list[str], columns: Columns) -> None:
    if missing := columns.missing(header):
        raise InputError(f"{source.name} {missing}.")


def _read_fields(number: int, header: list[str], fields: list[str], columns: Columns) -> Row | BrokenRow:
    if len(fields) != len(header):
        return BrokenRow(number, f"has {len(fields)} fields, but the header has {len(header)}")
    for field in fields:
        content = field.encode("utf-8", "surrogateescape")
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as error:
            return BrokenRow(number, describe_bad_byte(content, error))
    return read_record(number, dict(zip(header, fields, strict=True)), columns)


@contextmanager
def open_table_rows(
    source: Source, columns: Columns
) -> Iterator[tuple[Iterator[Row | BrokenRow], Callable[[], int]]]:
    """Give the rows of a parquet file, and what says how many bytes of it their share is so far."""
    with open_table(source) as table:
        schema = table.schema_arrow
        if missing := columns.missing(schema.names):
            raise InputError(f"{source.name} {missing}.")
        content = columns.find_content(schema.names)
        kind = schema.field(content).type
        if not is_text(kind) and not _is_word_list(kind):
            raise InputError(f"{source.name}, column {content!r}, holds {kind}, not text or lists of words.")
        wanted = [content, columns.find_id(schema.names), columns.spans]
        num_done = 0

        def read() -> Iterator[Row | BrokenRow]:
            nonlocal num_done
            with damage_told(source, lambda: f"after row {num_done:,}"):
                names = [name for name in wanted if name is not None]
                for batch in table.iter_batches(_ROWS_AT_ONCE, columns=names, use_threads=False):
                    for position in range(batch.num_rows):
                        num_done += 1
                        yield _read_row(num_done, batch, position, columns)

        num_rows, num_bytes = max(1, table.metadata.num_rows), source.path.stat().st_size
        yield read(), lambda: num_bytes * num_done // num_rows


def _is_word_list(kind: Any) -> bool:
    types = import_module("pyarrow.types")
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and is_text(kind.value_type))


def _read_row(number: int, batch: Any, position: int, columns: Columns) -> Row | BrokenRow:
    try:
        record = {name: batch.column(name)[position].as_py() for name in batch.schema.names}
    except UnicodeDecodeError as error:
        return BrokenRow(number, f"is not UTF-8 ({error.reason}); convert the text first")
    row = read_record(number, record, columns)
    if isinstance(row, Row) and row.num_bytes > LONGEST_ROW_BYTES:
        return BrokenRow(number, f"is longer than {LONGEST_ROW_BYTES >> 20} MiB; cut it into sentences first")
    return row
