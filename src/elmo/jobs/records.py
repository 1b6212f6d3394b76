"""A row of the input, read or broken, and how a record of named values becomes one."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

USUAL_COLUMNS = ("text", "sentence", "tokens", "words")
USUAL_ID = "id"
LONGEST_ROW_BYTES = 16 << 20  # what is tokenized at once must fit into memory several times over


@dataclass(frozen=True)
class Columns:
    """Which columns hold what; None means the usual names."""

    content: str | None = None
    id: str | None = None
    spans: str | None = None

    def find_content(self, names: Collection[str]) -> str | None:
        """Give the column of the text or the words among `names`, or None."""
        wanted = USUAL_COLUMNS if self.content is None else (self.content,)
        return next((name for name in wanted if name in names), None)

    def find_id(self, names: Collection[str]) -> str | None:
        """Give the column of the ids among `names`, or None."""
        wanted = USUAL_ID if self.id is None else self.id
        return wanted if wanted in names else None

    def missing(self, names: Collection[str]) -> str | None:
        """Say what is not among the names of a table's columns, and what to do, or give None."""
        there = ", ".join(map(repr, list(names)[:8])) or "none"
        if self.find_content(names) is None:
            if self.content is not None:
                return f"has no column {self.content!r}, only {there}; choose one with --column"
            usual = ", ".join(USUAL_COLUMNS)
            return f"has no column with one of the usual names ({usual}), only {there}; choose one with --column"
        for option, name in (("--id-column", self.id), ("--spans", self.spans)):
            if name is not None and name not in names:
                return f"has no column {name!r}, only {there}; choose another one with {option}"
        return None


@dataclass(frozen=True)
class Row:
    """One sentence: a text to be tokenized, or its words."""

    number: int  # of its line or row in the file, from 1
    content: str | list[str]
    id: str | None = None
    spans: list[tuple[int, int]] | None = None

    @property
    def num_bytes(self) -> int:
        """About how much text it is, the same in every run."""
        if isinstance(self.content, str):
            return len(self.content.encode()) + 1
        return sum(len(word.encode()) + 1 for word in self.content) + 1


@dataclass(frozen=True)
class BrokenRow:
    """A row of which no vectors can be made, and why: the end of a sentence that begins with its place."""

    number: int
    reason: str


def read_record(number: int, record: Mapping[str, Any], columns: Columns) -> Row | BrokenRow:
    """Make a row of named values, each of which may be anything."""
    if missing := columns.missing(record.keys()):
        return BrokenRow(number, missing)
    content_name, id_name = columns.find_content(record), columns.find_id(record)
    assert content_name is not None
    content, spans = record[content_name], None
    if content is None:
        content = ""
    if isinstance(content, list):
        if not all(isinstance(word, str) for word in content):
            return BrokenRow(number, f"has {_shorten(content)} in {content_name!r}; every word must be a string")
    elif not isinstance(content, str):
        return BrokenRow(
            number, f"has {_shorten(content)} in {content_name!r}; text or a list of words was expected"
        )
    given_id = None if id_name is None else record[id_name]
    if isinstance(given_id, float | list | dict | bool):
        return BrokenRow(number, f"has {_shorten(given_id)} in {id_name!r}; a text or a whole number was expected")
    if columns.spans is not None:
        spans = _read_spans(record[columns.spans])
        if spans is None:
            return BrokenRow(
                number,
                f"has {_shorten(record[columns.spans])} in {columns.spans!r}; a list of ranges of words such as "
                "[[2, 4]] was expected",
            )
    row = Row(number, content, None if given_id is None else str(given_id), spans)
    return _check_unicode(row)


def _check_unicode(row: Row) -> Row | BrokenRow:
    for text in [row.id or "", *([row.content] if isinstance(row.content, str) else row.content)]:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            half = ord(text[error.start])
            return BrokenRow(row.number, f"holds half a character (\\u{half:04x}), which no UTF-8 text can")
    return row


def _read_spans(value: Any) -> list[tuple[int, int]] | None:
    if isinstance(value, str):  # a table of plain text holds them as JSON
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if value is None:
        return []
    if not isinstance(value, list):
        return None
    spans = []
    for span in value:
        if not isinstance(span, list) or len(span) != 2 or not all(type(end) is int for end in span):
            return None
        spans.append((span[0], span[1]))
    return spans


def _shorten(value: Any) -> str:
    return f"{value!r:.40}"
