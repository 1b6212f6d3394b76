"""Lines of text and Parquet files -> records of named fields with their place: CSV, TSV and JSON lines.

A row that cannot be read becomes a BrokenRow, so that each caller decides whether to stop or to skip it.
"""

import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from elmo.extras import require
from elmo.files.sources import CONVERT_ADVICE, BrokenRow, Source, report_damage

LONGEST_ROW_BYTES = 16 << 20  # what is tokenized at once must fit into memory several times over
QUOTING_ADVICE = "a quote that opens a cell must close it, and a quote inside such a cell is written twice"
_PARQUET_ROWS_AT_ONCE = 256
# Some programs end a line at these too; JSON escapes the control characters itself.
_LINE_SEPARATORS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one row by the name of their column; `number` is that of its first line, or of the row."""

    number: int
    fields: dict[str, Any]


Records: TypeAlias = Iterator[Record | BrokenRow]


def to_json(value: Any) -> str:
    """Return the JSON of a value on one line that every way of splitting lines leaves whole, in readable UTF-8."""
    return json.dumps(value, ensure_ascii=False).translate(_LINE_SEPARATORS)


# --- JSON


def read_json_lines(lines: Iterable[str | BrokenRow]) -> Records:
    """Yield the object of each line that is not blank."""
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
    """Yield the first line and the cells of each row that is not empty; `lines` have their line ends.

    Tab-separated cells are taken as they are, quotes included. Others may be quoted, and then a quote that is not
    closed breaks its row, where csv by itself would take the following rows for the rest of the cell.
    """
    csv.field_size_limit(LONGEST_ROW_BYTES)  # a setting of the whole process, the same in every use
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
    """Yield the rows of a Parquet file, numbered from 1, and a function that returns how many bytes they take so far.

    `choose` returns which columns to read, given the names of all.
    """
    require("pyarrow", "data", source.name)
    parquet = import_module("pyarrow.parquet")
    num_read = 0

    def read(columns: list[str]) -> Records:
        nonlocal num_read
        with report_damage(source, lambda: f"after row {num_read:,}"):
            for batch in table.iter_batches(_PARQUET_ROWS_AT_ONCE, columns=columns, use_threads=False):
                for position in range(batch.num_rows):
                    num_read += 1
                    try:
                        fields = {name: batch.column(name)[position].as_py() for name in columns}
                    except UnicodeDecodeError as error:
                        yield BrokenRow(num_read, f"is not UTF-8 ({error.reason}); {CONVERT_ADVICE}")
                    else:
                        yield Record(num_read, fields)

    with ExitStack() as stack:
        with report_damage(source):
            table = stack.enter_context(parquet.ParquetFile(source.path))
        num_rows, num_bytes = max(1, table.metadata.num_rows), source.path.stat().st_size
        yield read(list(choose(table.schema_arrow.names))), lambda: num_bytes * num_read // num_rows
