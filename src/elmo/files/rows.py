"""Lines of text and Parquet files -> records of named fields with their place: CSV, TSV, JSON lines and arrays.

A row that cannot be read becomes a BrokenRow, so that each caller decides whether to stop or to skip it.
"""

import csv
import json
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import IO, Any, BinaryIO, TypeAlias, cast

from elmo.errors import InputError
from elmo.files.sources import (
    CONVERT_ADVICE,
    BrokenRow,
    Place,
    Source,
    damage_reported,
    decompress,
    import_extra,
)

LONGEST_ROW_BYTES = 16 << 20  # what is tokenized at once must fit into memory several times over
QUOTING_ADVICE = "a quote that opens a cell must close it, and a quote inside such a cell is written twice"
_PARQUET_ROWS_AT_ONCE = 256
_SPACE = re.compile(r"\s*")
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


def describe_missing(column: str, names: Collection[str], option: str = "--column") -> str:
    """Return the reason why a row or a table without a column cannot be read."""
    return f"has no column {column!r}{describe_names(names, option)}"


def describe_names(names: Collection[str], option: str = "--column") -> str:
    """Return the end of that reason: which columns there are, and the option that chooses one."""
    there = ", ".join(map(repr, list(names)[:8])) or "none"
    return f", only {there}; choose one with {option}"


def describe_surrogate(text: str) -> str | None:
    """Return the reason why a text of JSON or CSV cannot be encoded, or None if it can."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"contains a lone surrogate (\\u{ord(text[error.start]):04x}), which UTF-8 cannot encode"
    return None


# --- JSON


def read_json_lines(lines: Iterable[str | BrokenRow], *, first_number: int = 1) -> Records:
    """Yield the object of each line that is not blank."""
    for number, line in enumerate(lines, start=first_number):
        if isinstance(line, BrokenRow):
            yield line
        elif line and not line.isspace():
            yield _read_object(number, line)


def _read_object(number: int, line: str) -> Record | BrokenRow:
    try:
        fields: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        return BrokenRow(number, f"is not JSON ({error})")
    if not isinstance(fields, dict):
        return BrokenRow(number, f"holds {json.dumps(fields):.40}; a JSON object was expected")
    return Record(number, fields)


def read_json_array(text: str, name: str) -> Iterator[Record]:
    """Yield the objects of a JSON array one by one; InputError names the file and the line of a fault."""
    decoder = json.JSONDecoder()
    at, line = 0, 1

    def skip_space(start: int) -> None:
        nonlocal at, line
        match = _SPACE.match(text, start)
        end = match.end() if match else start
        line += text.count("\n", at, end)
        at = end

    skip_space(0)
    if text[at : at + 1] != "[":
        raise InputError(f"{Place(name, 1)}: a JSON array of objects was expected.")
    skip_space(at + 1)
    is_open = text[at : at + 1] != "]"
    while is_open:
        place = Place(name, line)
        if at == len(text):
            raise InputError(f"{place}: the array ends without its ]; the file seems to be truncated.")
        try:
            fields, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise InputError(f"{place}, is not JSON ({error.msg}).") from error
        if not isinstance(fields, dict):
            raise InputError(f"{place}, holds {json.dumps(fields):.40}; a JSON object was expected.")
        yield Record(line, fields)
        skip_space(end)
        is_open = text[at : at + 1] != "]"
        if is_open and at < len(text) and text[at] != ",":
            found = text[at : at + 20]
            raise InputError(
                f"{Place(name, line)}: {found!r} between two objects of the array; a comma was expected."
            )
        if is_open:
            skip_space(at + 1)
    skip_space(at + 1)
    if at < len(text):
        raise InputError(
            f"{Place(name, line)}: {text[at : at + 20]!r} follows the end of the array; put all objects into one "
            "array, or write one object per line (.jsonl)."
        )


# --- CSV and TSV


class SeparatedRows:
    """The rows of a table of separated values as lists of cells; `first_line` is where the last row began.

    Tab-separated cells are taken as they are, quotes included. Others may be quoted, and then a quote that is not
    closed raises csv.Error where csv itself would take the following rows for the rest of the cell.
    """

    def __init__(self, lines: Iterable[str], delimiter: str, *, quoted: bool) -> None:
        csv.field_size_limit(LONGEST_ROW_BYTES)  # a setting of the whole process, the same in every use
        if quoted:
            self._reader = csv.reader(lines, delimiter=delimiter, strict=True)
        else:
            self._reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        self.first_line = 0

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        self.first_line = self._reader.line_num + 1
        return next(self._reader)


def read_cells(
    lines: Iterable[str], delimiter: str, *, quoted: bool
) -> Iterator[tuple[int, list[str]] | BrokenRow]:
    """Yield the first line and the cells of each row that is not empty; `lines` have their line ends."""
    rows = SeparatedRows(lines, delimiter, quoted=quoted)
    while True:
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield BrokenRow(rows.first_line, f"is not a row of a table ({error}): {QUOTING_ADVICE}")
        else:
            if cells:
                yield rows.first_line, cells


# --- Parquet


class ParquetTable:
    """An open Parquet file."""

    def __init__(self, source: Source, opened: Any) -> None:
        self._source, self._opened = source, opened
        self._num_done = 0
        self.names: list[str] = opened.schema_arrow.names

    def check_column(self, name: str, *, or_words: bool = False) -> None:
        """Raise InputError if a column holds no text (nor lists of words)."""
        kind = self._opened.schema_arrow.field(name).type
        if not _is_text(kind) and not (or_words and _is_word_list(kind)):
            wanted = "text or lists of words" if or_words else "text"
            raise InputError(f"{self._source.name}, column {name!r}, holds {kind}, not {wanted}.")

    def read(self, columns: Sequence[str]) -> Records:
        """Yield the rows, numbered from 1, with some of their columns."""
        with damage_reported(self._source, lambda: f"after row {self._num_done:,}"):
            for batch in self._opened.iter_batches(
                _PARQUET_ROWS_AT_ONCE, columns=list(columns), use_threads=False
            ):
                for position in range(batch.num_rows):
                    self._num_done += 1
                    try:
                        fields = {name: batch.column(name)[position].as_py() for name in columns}
                    except UnicodeDecodeError as error:
                        yield BrokenRow(self._num_done, f"is not UTF-8 ({error.reason}); {CONVERT_ADVICE}")
                    else:
                        yield Record(self._num_done, fields)

    def bytes_read(self) -> int:
        """Return the share of the file's bytes that the rows read so far are."""
        num_rows: int = max(1, self._opened.metadata.num_rows)
        return self._source.path.stat().st_size * self._num_done // num_rows


@contextmanager
def open_parquet(source: Source) -> Iterator[ParquetTable]:
    """Open a Parquet file, compressed as a whole or not."""
    import_extra("pyarrow", source.name)
    parquet = import_module("pyarrow.parquet")
    with ExitStack() as stack:
        opened: IO[bytes] = stack.enter_context(source.path.open("rb"))
        with damage_reported(source):
            if source.compression is not None:
                # The end of a Parquet file is read first, so a compressed one is unpacked as a whole.
                packed, opened = opened, stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(decompress(cast(BinaryIO, packed), source.compression), opened)
            table = stack.enter_context(parquet.ParquetFile(opened))
        yield ParquetTable(source, table)


def _is_text(kind: Any) -> bool:
    types = import_module("pyarrow.types")
    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or kind == "string_view")


def _is_word_list(kind: Any) -> bool:
    types = import_module("pyarrow.types")
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and _is_text(kind.value_type))
