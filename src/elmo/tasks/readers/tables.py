"""CSV, TSV, JSON lines and JSON arrays -> records of named fields, and records back to text.

Columns of a table without a header are named by number, from 1.
"""

import csv
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from elmo.errors import InputError
from elmo.files.rows import QUOTING_ADVICE, SeparatedRows
from elmo.tasks.examples import Place
from elmo.tasks.readers.lines import Lines
from elmo.tasks.readers.usual_names import USUAL_NAMES

TableKind: TypeAlias = Literal["csv", "tsv", "jsonl", "json"]
ROWS_LOOKED_AT = 200
MOST_NAME_WORDS = 4
_DELIMITERS = (",", ";", "\t", "|")
_SPACE = re.compile(r"\s*")
_NAME_LIKE = re.compile(r"[^\W\d][\w.:#/-]{0,39}")


@dataclass(frozen=True)
class Record:
    """The fields of one row, by the name of their column."""

    fields: dict[str, Any]
    place: Place


class Table:
    """Rows of a table, one by one; `first_rows` may be looked at before."""

    def __init__(
        self, lines: Lines, kind: TableKind, *, header: bool | None = None, delimiter: str | None = None
    ) -> None:
        """`header`: whether the first row names the columns; `delimiter`: of CSV. None finds out."""
        self._lines, self.kind = lines, kind
        self.delimiter = "\t" if kind == "tsv" else delimiter
        self._num_written = 0
        self.has_header = False
        rows = self._read_delimited(header) if kind in ("csv", "tsv") else self._read_json()
        self.first_rows = list(itertools.islice(rows, ROWS_LOOKED_AT))
        if not self.first_rows:
            where = " below its first one, which is taken for the names of the columns" if self.has_header else ""
            raise InputError(f"{lines.name} has no rows{where}; a table of examples was expected.")
        self.names = list(dict.fromkeys(name for row in self.first_rows for name in row.fields))
        self._rows = itertools.chain(self.first_rows, rows)

    def __iter__(self) -> Iterator[Record]:
        return self._rows

    def begin(self) -> str:
        """Give the header, or what opens an array; columns that a prediction adds are known by then."""
        if self.kind == "json":
            return "[\n"
        return self._row(self.names) if self.has_header else ""

    def write(self, record: Record, changes: dict[str, Any]) -> str:
        """Give a row with some fields changed; a new one goes behind the last."""
        fields = record.fields
        for name, value in changes.items():
            fields = _with_field(fields, name, value)
        if self.kind in ("json", "jsonl"):
            text = json.dumps(fields, ensure_ascii=False)
            self._num_written += 1
            if self.kind == "jsonl":
                return text + "\n"
            return text if self._num_written == 1 else ",\n" + text
        return self._row([str(fields.get(name, "")) for name in self.names])

    def end(self) -> str:
        """Give what closes an array."""
        return "\n]\n" if self.kind == "json" else ""

    def _row(self, cells: list[str]) -> str:
        if self.kind == "tsv":
            return "\t".join(cells) + "\n"
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter or ",", lineterminator="\n").writerow(cells)
        return text.getvalue()

    def _read_delimited(self, header: bool | None) -> Iterator[Record]:
        if self.delimiter is None:
            self.delimiter = _find_delimiter(self._lines.peek(ROWS_LOOKED_AT))
        text = (line + "\n" for line in self._lines)
        rows = SeparatedRows(text, self.delimiter, quoted=self.kind == "csv")
        first = self._next_row(rows)
        if first is None:
            raise InputError(f"{self._lines.name} is empty; a table of examples was expected.")
        ahead = list(itertools.islice(iter(lambda: self._next_row(rows), None), ROWS_LOOKED_AT))
        self.has_header = _is_header(first[1], [row[1] for row in ahead]) if header is None else header
        names = first[1] if self.has_header else [str(number) for number in range(1, len(first[1]) + 1)]
        if len(set(names)) != len(names):
            raise InputError(f"{self._lines.name}, line 1: two columns have the same name in {names!r:.80}.")
        later = itertools.chain(ahead, iter(lambda: self._next_row(rows), None))
        for line, cells in later if self.has_header else itertools.chain([first], later):
            if len(cells) != len(names):
                raise InputError(
                    f"{self._lines.name}, line {line}: {len(cells)} columns, but the first row has {len(names)}; "
                    "every row must have the same."
                )
            yield Record(dict(zip(names, cells, strict=True)), Place(self._lines.name, line))

    def _next_row(self, rows: SeparatedRows) -> tuple[int, list[str]] | None:
        try:
            for cells in rows:
                if any(cell.strip() for cell in cells):
                    return rows.first_line, cells
        except csv.Error as error:
            place = Place(self._lines.name, rows.first_line)
            raise InputError(f"{place}: not a row of a table ({error}); {QUOTING_ADVICE}.") from error
        return None

    def _read_json(self) -> Iterator[Record]:
        if self.kind == "json":
            yield from self._read_json_array()
            return
        for line in self._lines:
            if line.strip():
                try:
                    fields = json.loads(line)
                except json.JSONDecodeError as error:
                    raise self._lines.fail(f"not valid JSON ({error.msg} at character {error.pos}).") from error
                if not isinstance(fields, dict):
                    raise self._lines.fail(f"{line!r:.60} is not a JSON object.")
                yield Record(fields, self._lines.place())

    def _read_json_array(self) -> Iterator[Record]:
        text = "\n".join(self._lines)
        decoder = json.JSONDecoder()
        at, line = _after_space(text, 0), 1
        line += text.count("\n", 0, at)
        if text[at : at + 1] != "[":
            raise InputError(f"{self._lines.name}, line 1: a JSON array of objects was expected.")
        is_first = True
        while True:
            start = _after_space(text, at + 1)
            line += text.count("\n", at, start)
            place = Place(self._lines.name, line)
            if start == len(text):
                raise InputError(f"{place}: the array ends without its ]; the file seems to be cut off.")
            if is_first and text[start] == "]":
                return self._check_end(text, start, line)
            try:
                fields, end = decoder.raw_decode(text, start)
            except json.JSONDecodeError as error:
                raise InputError(f"{place}: not valid JSON ({error.msg}).") from error
            if not isinstance(fields, dict):
                raise InputError(f"{place}: {fields!r:.60} is not a JSON object.")
            yield Record(fields, place)
            is_first = False
            at = _after_space(text, end)
            line += text.count("\n", start, at)
            if text[at : at + 1] == "]":
                return self._check_end(text, at, line)
            if at < len(text) and text[at] != ",":
                raise InputError(
                    f"{Place(self._lines.name, line)}: {text[at : at + 20]!r} between two objects of the array; a "
                    "comma was expected."
                )

    def _check_end(self, text: str, at: int, line: int) -> None:
        """Raise InputError if anything stands behind the array that ends at `at`."""
        end = _after_space(text, at + 1)
        if end < len(text):
            place = Place(self._lines.name, line + text.count("\n", at, end))
            raise InputError(
                f"{place}: {text[end : end + 20]!r} stands behind the end of the array; put all objects into one "
                "array, or write one object a line (.jsonl)."
            )


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _find_delimiter(lines: list[str]) -> str:
    """Give the delimiter that cuts all the first rows into the same number of cells, the most cells first."""
    best, most = ",", 1
    for delimiter in _DELIMITERS:
        try:
            rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        counts = set(map(len, rows[:-1] or rows))  # the last one may be looked at in part
        if len(counts) == 1 and max(counts) > most:
            best, most = delimiter, max(counts)
    return best


def _is_header(first: list[str], later: list[list[str]]) -> bool:
    """Tell names from values: one that columns usually have, or short single words above columns of text."""
    names = [cell.strip() for cell in first]
    if len(set(names)) != len(names) or any(len(name.split()) > MOST_NAME_WORDS for name in names):
        return False
    columns = list(zip(*(row for row in later if len(row) == len(first)), strict=True))
    values = [{cell.strip() for cell in column} for column in columns]
    if any(name in column for name, column in zip(names, values, strict=False)):
        return False
    if any(name.lower() in USUAL_NAMES for name in names):
        return True
    if not all(_NAME_LIKE.fullmatch(name.replace(" ", "_")) for name in names):
        return False
    return bool(columns) and any(
        len(name.split()) == 1 and sum(len(cell.split()) for cell in column) > 2 * len(column)
        for name, column in zip(names, columns, strict=True)
    )


def get_field(fields: Mapping[str, Any], name: str) -> Any:
    """Give a field; of nested JSON objects `outer.inner` is one too. None if there is none."""
    if name in fields:
        return fields[name]
    outer, dot, inner = name.partition(".")
    nested = fields.get(outer) if dot else None
    return get_field(nested, inner) if isinstance(nested, dict) else None


def _with_field(fields: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    outer, dot, inner = name.partition(".")
    if name not in fields and dot and isinstance(fields.get(outer), dict):
        return {**fields, outer: _with_field(fields[outer], inner, value)}
    return {**fields, name: value}
