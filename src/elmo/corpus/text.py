"""Files of running text -> parts of about equal size -> documents -> sentences -> words, as the settings say.

The same files make the same parts in every run. A part ends where a line or a row ends; where a document is one
sequence, at the end of a document. Parts are read here as bytes and decoded in the worker processes.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path

from elmo.corpus.settings import TextSettings
from elmo.errors import InputError
from elmo.files.rows import describe_missing, describe_surrogate, open_parquet, read_json_lines
from elmo.files.sources import (
    BYTE_ORDER_MARK,
    BrokenRow,
    Lines,
    Source,
    damage_reported,
    describe_bad_byte,
    find_sources,
    open_stream,
)
from elmo.text.tokenize import split_sentences
from elmo.text.units import Tokenization

PART_BYTES = 8 << 20  # of text that is read together
LONGEST_DOCUMENT_BYTES = 64 << 20  # what is tokenized as a whole must fit into memory several times over
_CHARACTERS_AT_ONCE = 1 << 20  # words with offsets take a hundred times the memory of the text
_WHITESPACE = re.compile(r"\s")


@dataclass(frozen=True)
class Passage:
    """Consecutive lines or rows of one file."""

    source: Source
    first_number: int  # of the first line or row, counted from 1
    content: bytes | tuple[str, ...]

    def fail(self, row: BrokenRow) -> InputError:
        """Return the error about a line or a row that cannot be read."""
        return InputError(f"{self.source.name}, {self.source.unit} {row.number:,}, {row.reason}.")


@dataclass(frozen=True)
class PartText:
    """A part of the input, to become one shard."""

    number: int
    passages: tuple[Passage, ...]
    input_bytes: int  # its share of the input files


# A line or a row: its number, its content, whether a part may end after it, and a count of the bytes read so far.
_Piece = tuple[int, bytes | str, bool, Callable[[], int]]


def cut_parts(
    sources: Sequence[Source], settings: TextSettings, part_bytes: int = PART_BYTES
) -> Iterator[PartText]:
    """Read all sources in order and yield their parts: at least one, which may be empty."""
    passages: list[Passage] = []
    size = number = bytes_before = bytes_cut = 0
    for source in sources:
        collected: list[bytes | str] = []
        first = 1
        for last, content, may_end, bytes_read in _read_pieces(source, settings):
            collected.append(content)
            size += len(content)
            if may_end and size >= part_bytes:
                passages.append(_join_pieces(source, first, collected))
                yield PartText(number, tuple(passages), bytes_before + bytes_read() - bytes_cut)
                bytes_cut = bytes_before + bytes_read()
                passages, collected, first = [], [], last + 1
                size, number = 0, number + 1
        if collected:
            passages.append(_join_pieces(source, first, collected))
        bytes_before += source.path.stat().st_size
    if passages or number == 0:
        yield PartText(number, tuple(passages), bytes_before - bytes_cut)


def _join_pieces(source: Source, first: int, pieces: list[bytes | str]) -> Passage:
    if isinstance(pieces[0], str):
        return Passage(source, first, tuple(map(str, pieces)))
    return Passage(source, first, b"".join(pieces))  # type: ignore[arg-type]


def _read_pieces(source: Source, settings: TextSettings) -> Iterator[_Piece]:
    if source.kind == "parquet":
        yield from _read_rows(source, settings)
        return
    by_document = source.kind == "txt" and settings.split == "none"
    document_size, document_start, number = 0, 1, 0
    with open_stream(source) as (stream, bytes_read), damage_reported(source, lambda: f"after line {number:,}"):
        for line in iter(partial(stream.readline, LONGEST_DOCUMENT_BYTES + 1), b""):
            number += 1
            document_size += len(line)
            if document_size > LONGEST_DOCUMENT_BYTES:
                raise _too_long(source, number if len(line) > LONGEST_DOCUMENT_BYTES else document_start)
            may_end = not by_document or line.isspace()
            if may_end:
                document_size, document_start = 0, number + 1
            yield number, line, may_end, bytes_read


def _read_rows(source: Source, settings: TextSettings) -> Iterator[_Piece]:
    with open_parquet(source) as table:
        if settings.field not in table.names:
            raise InputError(f"{source.name} {describe_missing(settings.field, table.names)}.")
        table.check_column(settings.field)
        for row in table.read([settings.field]):
            if isinstance(row, BrokenRow):
                raise Passage(source, row.number, ()).fail(row)
            text = row.fields[settings.field] or ""  # a null is an empty document
            if len(text) > LONGEST_DOCUMENT_BYTES:
                raise _too_long(source, row.number)
            yield row.number, text, True, table.bytes_read


def _too_long(source: Source, number: int) -> InputError:
    return InputError(
        f"{source.name}, {source.unit} {number:,}: the text that begins here is longer than "
        f"{LONGEST_DOCUMENT_BYTES >> 20} MiB; split it into lines or documents first."
    )


# --- a part -> documents


def read_documents(part: PartText, settings: TextSettings) -> Iterator[tuple[str, float]]:
    """Yield each document and the share of the part that was read with it, lines ended by a line feed alone.

    A document is a block between blank lines, a JSON record or a table row; unless split is "none", the lines of
    plain text need not be kept together, and each comes as one document.
    """
    sizes = [max(1, len(passage.content)) for passage in part.passages]
    for number, passage in enumerate(part.passages):
        before, share = sum(sizes[:number]) / sum(sizes), sizes[number] / sum(sizes)
        documents, num_pieces = _split_passage(passage, settings)
        for done, document in documents:
            yield document, before + share * done / num_pieces


def _split_passage(passage: Passage, settings: TextSettings) -> tuple[Iterator[tuple[int, str]], int]:
    """Return the documents, each with the number of lines or rows up to its end, and how many those are."""
    if isinstance(passage.content, tuple):
        return _check_unicode(passage, enumerate(passage.content, start=1)), len(passage.content)
    lines = _decode(passage, passage.content).split("\n")
    if passage.first_number == 1:
        lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
    if passage.source.kind == "jsonl":
        return _check_unicode(passage, _read_records(passage, lines, settings.field)), len(lines)
    if settings.split == "none":
        return _join_lines(lines), len(lines)
    return enumerate((line.removesuffix("\r") for line in lines), start=1), len(lines)


def _decode(passage: Passage, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        number = passage.first_number + content.count(b"\n", 0, error.start)
        line = content[content.rfind(b"\n", 0, error.start) + 1 :]
        position = error.start - (len(content) - len(line))
        raise passage.fail(BrokenRow(number, describe_bad_byte(line, position))) from error


def _join_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    document: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line and not line.isspace():
            document.append(line.removesuffix("\r"))
        elif document:
            yield min(number, len(lines)), "\n".join(document)
            document = []


def _read_records(passage: Passage, lines: list[str], field: str) -> Iterator[tuple[int, str]]:
    for row in read_json_lines(lines, first_number=passage.first_number):
        if isinstance(row, BrokenRow):
            raise passage.fail(row)
        if field not in row.fields:
            raise passage.fail(BrokenRow(row.number, describe_missing(field, row.fields)))
        value = row.fields[field]
        if value is not None and not isinstance(value, str):
            raise passage.fail(BrokenRow(row.number, f"has {value!r:.40} in {field!r}; text was expected"))
        yield row.number - passage.first_number + 1, value or ""  # a null is an empty document


def _check_unicode(passage: Passage, documents: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for number, document in documents:
        if reason := describe_surrogate(document):
            raise passage.fail(BrokenRow(passage.first_number + number - 1, reason))
        yield number, document.replace("\r\n", "\n") if "\r" in document else document


# --- documents -> sentences -> words


def read_sentences(names: Sequence[str], settings: TextSettings, *, stdin_copy: Path) -> Iterator[list[str]]:
    """Yield the words of every sentence of some files, without preparing them; empty ones are left out."""
    for part in cut_parts(find_sources(names, stdin_copy), settings):
        for sentence, _ in cut_sentences(part, settings):
            words = [word for piece in cut_words(sentence, settings) for word in piece]
            if words:
                yield words


def read_lines(sources: Sequence[Source], settings: TextSettings) -> Iterator[str]:
    """Yield the lines of some files as they are; a blank one ends each file, record and row."""
    for source in sources:
        if source.kind == "txt":
            yield from Lines(source.name)  # standard input and pipes too, which have no size
            yield ""
            continue
        for part in cut_parts([source], settings):
            for document, _ in read_documents(part, settings):
                yield from document.split("\n")
                yield ""


def cut_sentences(part: PartText, settings: TextSettings) -> Iterator[tuple[str, float]]:
    """Yield each sentence and the share of the part that was read with it."""
    language = settings.language or "en"
    for document, share in read_documents(part, settings):
        if settings.split == "none":
            yield document.replace("\n", " "), share
            continue
        for line in document.split("\n"):
            if settings.split == "lines":
                yield line, share
            else:
                for sentence in split_sentences(line, language=language):
                    yield sentence, share


def cut_words(sentence: str, settings: TextSettings) -> Iterator[list[str]]:
    """Yield the words of a sentence, in one list unless it is huge."""
    split = Tokenization(settings.tokenization)
    if sentence.isspace():
        return
    start = 0
    while start + _CHARACTERS_AT_ONCE < len(sentence):
        space = _WHITESPACE.search(sentence, start + _CHARACTERS_AT_ONCE)
        end = space.start() if space else len(sentence)
        yield list(map(itemgetter(0), split(sentence[start:end])))
        start = end
    yield list(map(itemgetter(0), split(sentence[start:] if start else sentence)))
