"""Bytes of a text, of JSON lines or of CoNLL-U -> rows. Only a line feed ends a line."""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from elmo.jobs.records import LONGEST_ROW_BYTES, BrokenRow, Columns, Row, read_record

_BYTE_ORDER_MARK = "\ufeff"
Line = tuple[int, str]


def read_lines(stream: BinaryIO) -> Iterator[Line | BrokenRow]:
    """Give the number and the text of each line, without what ends it; one that is no text is broken."""
    number = 0
    while content := stream.readline(LONGEST_ROW_BYTES + 1):
        number += 1
        if len(content) > LONGEST_ROW_BYTES and not content.endswith(b"\n"):
            while content and not content.endswith(b"\n"):
                content = stream.readline(LONGEST_ROW_BYTES)
            yield BrokenRow(number, f"is longer than {LONGEST_ROW_BYTES >> 20} MiB; cut it into sentences first")
            continue
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            yield BrokenRow(number, describe_bad_byte(content, error))
            continue
        if number == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        yield number, text.removesuffix("\n").removesuffix("\r")


def describe_bad_byte(content: bytes, error: UnicodeDecodeError) -> str:
    """Give the reason why bytes are no text."""
    return (
        f"is not UTF-8 (byte 0x{content[error.start]:02x} at position {error.start}); convert the text first, for "
        "example with iconv"
    )


def read_text(stream: BinaryIO) -> Iterator[Row | BrokenRow]:
    """Give a sentence for each line; an empty one has no words."""
    for line in read_lines(stream):
        yield line if isinstance(line, BrokenRow) else Row(*line)


def read_json_lines(stream: BinaryIO, columns: Columns) -> Iterator[Row | BrokenRow]:
    """Give a sentence for each JSON object; a blank line is none."""
    for line in read_lines(stream):
        if isinstance(line, BrokenRow):
            yield line
        elif line[1] and not line[1].isspace():
            yield _read_json(*line, columns)


def _read_json(number: int, line: str, columns: Columns) -> Row | BrokenRow:
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        return BrokenRow(number, f"is not JSON ({error})")
    if not isinstance(record, dict):
        return BrokenRow(number, f"holds {record!r:.40}; a JSON object was expected")
    return read_record(number, record, columns)


def read_conllu(stream: BinaryIO) -> Iterator[Row | BrokenRow]:
    """Give the words of each sentence, numbered by its first line, without multiword tokens and empty nodes."""
    sentence: list[Line | BrokenRow] = []
    for line in read_lines(stream):
        if isinstance(line, BrokenRow) or line[1].strip():
            sentence.append(line)
        elif sentence:
            yield _read_sentence(sentence)
            sentence = []
    if sentence:
        yield _read_sentence(sentence)


def _read_sentence(lines: list[Line | BrokenRow]) -> Row | BrokenRow:
    words, sentence_id = [], None
    first = lines[0].number if isinstance(lines[0], BrokenRow) else lines[0][0]
    for line in lines:
        if isinstance(line, BrokenRow):
            return BrokenRow(first, f"begins a sentence whose line {line.number} {line.reason}")
        number, text = line
        if text.startswith("#"):
            name, _, value = text[1:].partition("=")
            if name.strip() == "sent_id":
                sentence_id = value.strip()
            continue
        fields = text.split("\t")
        if len(fields) != 10:
            return BrokenRow(
                first, f"begins a sentence whose line {number} has {len(fields)} columns between tabs, not 10"
            )
        if fields[0].isdigit():
            words.append(fields[1])
    return Row(first, words, sentence_id)
