"""What is known of a finished part, kept beside it until the manifest is written; and the job it belongs to."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmo.files.durable import replace_file
from elmo.files.sources import BrokenRow, Source
from elmo.vectors.formats.part_format import part_stem
from elmo.vectors.parts import Part
from elmo.vectors.rows import Entry
from elmo.vectors.settings import JobSettings

WORK = ".job"  # what is needed on the way; removed at the end


@dataclass(frozen=True)
class WrittenFile:
    """A file of a part, as a manifest tells of it."""

    name: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class Reject:
    """A broken row."""

    index: int
    source: int  # number of its file
    number: int  # of its line or row there
    reason: str


@dataclass(frozen=True)
class PartRecord:
    """What is known of a finished part."""

    identity: str  # of the job
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

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "PartRecord":
        """Read what `asdict` made."""
        files = tuple(WrittenFile(**file) for file in values.pop("files"))
        rejects = tuple(Reject(**reject) for reject in values.pop("rejects"))
        return cls(**values, files=files, rejects=rejects)


@dataclass(frozen=True)
class PartJob:
    """What a worker must know besides the part and the model."""

    output: Path
    settings: JobSettings
    identity: str
    inputs: tuple[Source, ...]
    stops: bool  # at a broken row

    def check(self, rejects: Iterable[Reject]) -> None:
        """Raise InputError for the first broken row, if that is wanted."""
        for reject in rejects if self.stops else ():
            source = self.inputs[reject.source]
            reason = f"{reject.reason}; --on-error reject skips such rows"
            raise BrokenRow(reject.number, reason).to_error(source.label, source.unit)


def list_rejects(entries: Iterable[Entry]) -> tuple[Reject, ...]:
    """Give the broken rows among some."""
    return tuple(
        Reject(entry.index, entry.source, entry.row.number, entry.row.reason)
        for entry in entries
        if isinstance(entry.row, BrokenRow)
    )


def record_path(output: Path, number: int) -> Path:
    """Give where the record of a part is kept until the manifest is written."""
    return output / WORK / f"{part_stem(number)}.json"


def write_part_record(output: Path, record: PartRecord) -> None:
    """Keep a record; the part is finished when its files are in the folder too."""
    replace_file(record_path(output, record.number), json.dumps(asdict(record)).encode())


def read_part_record(job: PartJob, part: Part) -> PartRecord | None:
    """Give the record of this very part if it is finished and its files are there, or None."""
    record = _read(record_path(job.output, part.number))
    if record is None or (record.identity, record.input_sha256) != (job.identity, part.sha256):
        return None
    are_there = all(_size(job.output / file.name) == file.num_bytes for file in record.files)
    return record if are_there else None


def recorded_files(output: Path) -> set[str]:
    """Return the names of all files that the records of an unfinished job list."""
    records = map(_read, (output / WORK).glob("part-*.json"))
    return {file.name for record in records if record for file in record.files}


def count_finished_bytes(job: PartJob) -> int:
    """Give how much of the input the records of earlier runs stand for."""
    records = map(_read, (job.output / WORK).glob("part-*.json"))
    return sum(record.input_bytes for record in records if record and record.identity == job.identity)


def _read(path: Path) -> PartRecord | None:
    try:
        return PartRecord.from_dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1
