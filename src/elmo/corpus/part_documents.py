"""The text of one part -> its documents as strings: blocks between blank lines, JSON records or table rows.

Without `split="none"` the lines of a plain text need not be kept together, so each is given by itself.
"""

import json
from collections.abc import Iterator
from typing import Any

from elmo.corpus.part_text import PartText, Passage
from elmo.corpus.settings import PrepareSettings
from elmo.errors import InputError

_BYTE_ORDER_MARK = "\ufeff"


def read_documents(text: PartText, settings: PrepareSettings) -> Iterator[tuple[str, float]]:
    """Give each document and the share of the part that was read with it, lines ended by a line feed alone."""
    sizes = [max(1, len(passage.content)) for passage in text.passages]
    for number, passage in enumerate(text.passages):
        before, share = sum(sizes[:number]) / sum(sizes), sizes[number] / sum(sizes)
        documents, num_pieces = _split_passage(passage, settings)
        for done, document in documents:
            yield document, before + share * done / num_pieces


def _split_passage(passage: Passage, settings: PrepareSettings) -> tuple[Iterator[tuple[int, str]], int]:
    """Give the documents, each with the number of lines or rows up to its end, and how many these are."""
    if isinstance(passage.content, tuple):
        rows = [_normal_lines(row) for row in passage.content]
        return _check_unicode(passage, "row", enumerate(rows, start=1)), len(rows)
    lines = _decode(passage, passage.content).split("\n")
    if passage.first_number == 1:
        lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
    if passage.kind == "jsonl":
        return _check_unicode(passage, "line", _read_records(passage, lines, settings.field)), len(lines)
    if settings.split == "none":
        return _join_lines(lines), len(lines)
    return enumerate((line.removesuffix("\r") for line in lines), start=1), len(lines)


def _decode(passage: Passage, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        number = passage.first_number + content.count(b"\n", 0, error.start)
        position = error.start - (content.rfind(b"\n", 0, error.start) + 1)
        raise InputError(
            f"{passage.name}, line {number:,}, is not UTF-8 (byte 0x{content[error.start]:02x} at position "
            f"{position:,}); convert the text first, for example with iconv."
        ) from error


def _join_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    document: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line and not line.isspace():
            document.append(line.removesuffix("\r"))
        elif document:
            yield min(number, len(lines)), "\n".join(document)
            document = []


def _read_records(passage: Passage, lines: list[str], field: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        where = f"{passage.name}, line {passage.first_number + number - 1:,},"
        try:
            record: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON ({error}).") from error
        if not isinstance(record, dict):
            raise InputError(f"{where} holds {_shorten(record)}; an object with the field {field!r} was expected.")
        if field not in record:
            fields = ", ".join(map(repr, list(record)[:8])) or "none"
            raise InputError(f"{where} has no field {field!r}, only {fields}; choose one with --column.")
        value = record[field]
        if value is not None and not isinstance(value, str):
            raise InputError(f"{where} has {_shorten(value)} in the field {field!r}; text was expected.")
        yield number, _normal_lines(value or "")  # a null is an empty document


def _normal_lines(text: str) -> str:
    return text.replace("\r\n", "\n") if "\r" in text else text


def _check_unicode(passage: Passage, unit: str, documents: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for number, document in documents:
        try:
            document.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{passage.name}, {unit} {passage.first_number + number - 1:,}, holds half a character "
                f"(\\u{ord(document[error.start]):04x}), which no UTF-8 text can."
            ) from error
        yield number, document


def _shorten(value: Any) -> str:
    return f"{json.dumps(value):.40}"
