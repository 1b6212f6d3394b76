"""Files -> their text in parts of about equal size, the same parts in every run.

A part ends where a line or a row ends; where a document is one sequence, at the end of a document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elmo.corpus.input_files import Kind, Source
from elmo.corpus.reading import LONGEST_DOCUMENT_BYTES, open_lines, open_rows, too_long
from elmo.corpus.settings import PrepareSettings


@dataclass(frozen=True)
class Passage:
    """Lines or rows of one file that follow each other."""

    name: str
    kind: Kind
    first_number: int  # of the first line or row, counted from 1
    content: bytes | tuple[str, ...]


@dataclass(frozen=True)
class PartText:
    """A part of the input, to be made into one shard."""

    number: int
    passages: tuple[Passage, ...]
    input_bytes: int  # its share of the input files


class _Cutter:
    """Gathers lines or rows and says when they are enough."""

    def __init__(self, part_size: int) -> None:
        self.part_size = part_size
        self.size = self.number = 0
        self.passages: list[Passage] = []

    @property
    def is_full(self) -> bool:
        return self.size >= self.part_size

    def add(self, source: Source, end: int, gathered: list[bytes] | list[str]) -> None:
        """Take over what was gathered of a source up to the line or row numbered `end`."""
        if gathered:
            is_rows = isinstance(gathered[0], str)
            content = tuple(gathered) if is_rows else b"".join(gathered)  # type: ignore[arg-type]
            first = end - len(gathered) + 1
            self.passages.append(Passage(source.name, source.kind, first, content))  # type: ignore[arg-type]
            gathered.clear()

    def cut(self, input_bytes: int) -> PartText:
        part = PartText(self.number, tuple(self.passages), input_bytes)
        self.passages.clear()
        self.size, self.number = 0, self.number + 1
        return part


def cut_parts(sources: Sequence[Source], settings: PrepareSettings) -> Iterator[PartText]:
    """Read all sources in order and give their parts; at least one, which may be empty."""
    cutter = _Cutter(settings.shard_bytes)
    bytes_before = bytes_cut = 0
    for source in sources:
        steps = _gather_rows if source.kind == "parquet" else _gather_lines
        for bytes_read in steps(source, settings, cutter):
            yield cutter.cut(bytes_before + bytes_read - bytes_cut)
            bytes_cut = bytes_before + bytes_read
        bytes_before += source.path.stat().st_size
    if cutter.passages or cutter.number == 0:
        yield cutter.cut(bytes_before - bytes_cut)


def _gather_lines(source: Source, settings: PrepareSettings, cutter: _Cutter) -> Iterator[int]:
    """Feed the cutter and stop, with the bytes of the file read so far, whenever a part is full."""
    gathered: list[bytes] = []
    by_document = source.kind == "txt" and settings.split == "none"
    document_size, document_start, number = 0, 1, 0
    with open_lines(source) as (lines, bytes_read):
        for number, line in enumerate(lines, start=1):
            gathered.append(line)
            cutter.size += len(line)
            if by_document:
                document_size += len(line)
                if document_size > LONGEST_DOCUMENT_BYTES:
                    raise too_long(source.name, "line", document_start)
                if not line.isspace():
                    continue
                document_size, document_start = 0, number + 1
            if cutter.is_full:
                cutter.add(source, number, gathered)
                yield bytes_read()
        cutter.add(source, number, gathered)


def _gather_rows(source: Source, settings: PrepareSettings, cutter: _Cutter) -> Iterator[int]:
    gathered: list[str] = []
    number = 0
    with open_rows(source, settings.field) as (rows, bytes_read):
        for number, text in enumerate(rows, start=1):
            gathered.append(text)
            cutter.size += len(text)
            if cutter.is_full:
                cutter.add(source, number, gathered)
                yield bytes_read()
        cutter.add(source, number, gathered)
