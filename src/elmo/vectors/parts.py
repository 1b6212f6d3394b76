"""Rows -> numbered parts, cut by the size of the text alone: the same parts in every run, for any workers."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from elmo.files.sources import BrokenRow
from elmo.vectors.rows import Entry, RowStream


@dataclass(frozen=True)
class Part:
    """Rows that follow each other, read or broken."""

    number: int
    entries: tuple[Entry, ...]
    input_bytes: int  # its share of the input files
    sha256: str  # of what was read


def cut_parts(stream: RowStream, part_bytes: int) -> Iterator[Part]:
    """Read all rows and give them in parts of at least `part_bytes` of text, but for the last one."""
    number = bytes_before = 0
    for entries, digest in _gather(stream, part_bytes):
        yield Part(number, tuple(entries), stream.bytes_read - bytes_before, digest)
        bytes_before, number = stream.bytes_read, number + 1


def _gather(stream: RowStream, part_bytes: int) -> Iterator[tuple[list[Entry], str]]:
    entries: list[Entry] = []
    size, digest = 0, hashlib.sha256()
    for entry in stream:
        entries.append(entry)
        size += len(entry.row.reason) if isinstance(entry.row, BrokenRow) else entry.row.num_bytes
        digest.update(_identify(entry).encode("utf-8", "surrogatepass"))
        if size >= part_bytes:
            yield entries, digest.hexdigest()
            entries, size, digest = [], 0, hashlib.sha256()
    if entries:
        yield entries, digest.hexdigest()


def _identify(entry: Entry) -> str:
    row = entry.row
    held = row.reason if isinstance(row, BrokenRow) else (row.content, row.id, row.spans)
    return f"{entry.index} {entry.source} {row.number} {held!r}\n"
