"""Rows -> numbered parts, cut by the size of the text alone, and the records of finished parts.

The parts are the same in every run, for any number of workers. A record is kept in the work folder until the
manifest is written.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmo.files.durable import replace_file
from elmo.files.sources import BrokenRow
from elmo.files.work_folder import read_json
from elmo.vectors.formats import part_stem
from elmo.vectors.rows import Entry, RowStream

WORK = ".job"  # the work folder


@dataclass(frozen=True)
class Part:
    """Consecutive rows, readable or broken."""

    number: int
    entries: tuple[Entry, ...]
    input_bytes: int  # its share of the input files
    sha256: str  # of what was read


@dataclass(frozen=True)
class Reject:
    """A broken row."""

    index: int
    source: int  # number of its file
    number: int  # of its line or row there
    reason: str


@dataclass(frozen=True)
class WrittenFile:
    """The name, size and checksum of a file of a part."""

    name: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class PartRecord:
    """What is known of a finished part; `identity` is that of the job."""

    identity: str
    number: int
    first_index: int
    num_rows: int
    num_written: int
    num_without_span: int
    num_words: int
    num_vectors: int
    input_bytes: int
    input_sha256: str
    files: tuple[WrittenFile, ...]
    rejects: tuple[Reject, ...]


def cut_parts(stream: RowStream, part_bytes: int) -> Iterator[Part]:
    """Read all rows and yield them in parts of at least `part_bytes` of text, except for the last one."""
    number = bytes_before = 0
    for entries, digest in _collect(stream, part_bytes):
        yield Part(number, tuple(entries), stream.bytes_read - bytes_before, digest)
        bytes_before, number = stream.bytes_read, number + 1


def _collect(stream: RowStream, part_bytes: int) -> Iterator[tuple[list[Entry], str]]:
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


def list_rejects(entries: Iterable[Entry]) -> tuple[Reject, ...]:
    """Return the broken rows among some."""
    return tuple(
        Reject(entry.index, entry.source, entry.row.number, entry.row.reason)
        for entry in entries
        if isinstance(entry.row, BrokenRow)
    )


def write_part_record(output: Path, record: PartRecord) -> None:
    """Keep the record of a part, which is finished when its files are in the folder too."""
    replace_file(_record_path(output, record.number), json.dumps(asdict(record)).encode())


def read_part_record(output: Path, identity: str, part: Part) -> PartRecord | None:
    """Return the record of this very part if it is finished and its files are there, or None."""
    record = _parse(read_json(_record_path(output, part.number)))
    if record is None or (record.identity, record.input_sha256) != (identity, part.sha256):
        return None
    are_there = all(
        (output / file.name).is_file() and (output / file.name).stat().st_size == file.num_bytes
        for file in record.files
    )
    return record if are_there else None


def read_part_records(output: Path) -> Iterator[PartRecord]:
    """Yield all records of an unfinished job, whatever job it is."""
    for path in (output / WORK).glob("part-*.json"):
        if record := _parse(read_json(path)):
            yield record


def _record_path(output: Path, number: int) -> Path:
    return output / WORK / f"{part_stem(number)}.json"


def _parse(values: dict[str, Any] | None) -> PartRecord | None:
    try:
        files = tuple(WrittenFile(**file) for file in (values or {}).pop("files"))
        rejects = tuple(Reject(**reject) for reject in (values or {}).pop("rejects"))
        return PartRecord(**(values or {}), files=files, rejects=rejects)
    except (TypeError, KeyError):
        return None
