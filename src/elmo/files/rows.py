"""Read the rows of CSV, TSV, JSON Lines and Parquet files as numbered records of named fields.

A row that cannot be read becomes a BrokenRow, so that each caller decides whether to stop or to skip it.
"""

import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from elmo.extras import require
from elmo.files.sources import CONVERT_ADVICE, BrokenRow, Source, report_damage

LONGEST_ROW_BYTES = 16 << 20  # a row is tokenized at once, which takes several times its size in memory
QUOTING_ADVICE = "a quote that opens a cell must close it, and a quote inside such a cell is written twice"
_PARQUET_ROWS_AT_ONCE = 256
# Some programs also end a line at these characters; JSON itself escapes the control characters.
_LINE_SEPARATORS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one row by column name; `number` is the number of the row or of its first line."""

    number: int
    fields: dict[str, Any]


Records: TypeAlias = Iterator[Record | BrokenRow]


def to_json(value: Any) -> str:
    """Return a value as one line of JSON in readable UTF-8, without characters that some programs take as line ends."""
    return json.dumps(value, ensure_ascii=False).translate(_LINE_SEPARATORS)


# --- JSON


def read_json_lines(lines: Iterable[str | BrokenRow]) -> Records:
    """Yield the JSON object on each non-blank line."""
    for number, line in enumerate(lines, start=1):
        if isinstance(line, BrokenRow):
            yield line
        elif line.strip():
            try:
                fields: Any = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield BrokenRow(number, f"is not JSON ({error})")
                continue
            if isinstance(fields, dict):
                yield Record(number, fields)
            else:
                yield BrokenRow(number, f"holds {json.dumps(fields):.40}; a JSON object was expected")


# --- CSV and TSV


def read_cells(lines: Iterable[str], delimiter: str, *, quoted: bool) -> Iterator[tuple[int, list[str]] | BrokenRow]:
    """Yield the first line number and the cells of each non-empty row; `lines` include their line ends.

    Unless `quoted`, cells are taken literally, quotes included. An unclosed quote makes its row a BrokenRow, whereas
    the csv module alone would read the following rows as part of the cell.
    """
    csv.field_size_limit(LONGEST_ROW_BYTES)  # global to the process; every caller sets the same value
    rows = csv.reader(
        lines, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, strict=quoted
    )
    while True:
        first_line = rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield BrokenRow(first_line, f"is not a row of a table ({error}): {QUOTING_ADVICE}")
        else:
            if cells:
                yield first_line, cells


# --- Parquet


@contextmanager
def open_parquet(
    source: Source, choose: Callable[[Collection[str]], Sequence[str]]
) -> Iterator[tuple[Records, Callable[[], int]]]:
    """Yield the rows of a Parquet file, numbered from 1, and a function that estimates the bytes read so far.

    `choose` takes the names of all columns and returns those to read.
    """
    parquet = require("pyarrow.parquet", "data", source.name)
    num_read = 0

    def read(columns: list[str]) -> Records:
        nonlocal num_read
        for batch in table.iter_batches(_PARQUET_ROWS_AT_ONCE, columns=columns, use_threads=False):
            for position in range(batch.num_rows):
                num_read += 1
                try:
                    fields = {name: batch.column(name)[position].as_py() for name in columns}
                except UnicodeDecodeError as error:
                    yield BrokenRow(num_read, f"is not UTF-8 ({error.reason}); {CONVERT_ADVICE}")
                else:
                    yield Record(num_read, fields)

    with report_damage(source):
        opened = parquet.ParquetFile(source.path)
    with opened as table:
        num_rows, num_bytes = max(1, table.metadata.num_rows), source.path.stat().st_size
        yield read(list(choose(table.schema_arrow.names))), lambda: num_bytes * num_read // num_rows
