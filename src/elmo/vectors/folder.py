"""The manifest of a folder of vectors and the records of its parts; see files/work_folder.py."""

import json
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from elmo.files.durable import replace_file
from elmo.files.work_folder import FileRecords, FolderKind, find_damage, read_records
from elmo.vectors.formats import part_stem

REJECTS = "rejects.jsonl"
INDEX = "index"  # the subfolder that analysis/index.py writes


@dataclass
class Counts:
    """The numbers of rows, words and vectors in a folder or a part."""

    num_rows: int = 0  # in the input
    num_written: int = 0
    num_without_span: int = 0  # rows that were not written because they have no selected span
    num_words: int = 0
    num_vectors: int = 0
    num_rejected: int = 0


@dataclass(frozen=True)
class PartRecord:
    """The record of a finished part; `identity` is the hash of the description of the job."""

    identity: str
    number: int
    first_index: int
    input_bytes: int
    counts: dict[str, int]
    rejects: list[dict[str, Any]]  # the lines of rejects.jsonl
    files: list[dict[str, Any]]  # name, num_bytes and sha256 of each

    def describe(self) -> dict[str, Any]:
        """Return the part's entry in a manifest."""
        return {"number": self.number, "first_index": self.first_index, **self.counts, "files": self.files}


def sum_counts(records: list[PartRecord]) -> dict[str, int]:
    """Return the counts of all parts together."""
    return {field.name: sum(record.counts[field.name] for record in records) for field in fields(Counts)}


def write_part_record(output: Path, record: PartRecord) -> None:
    """Write the record of a part, which marks it as finished; its files must already be in the folder."""
    replace_file(output / VECTORS.work / f"{part_stem(record.number)}.json", json.dumps(asdict(record)).encode())


def read_part_records(output: Path, identity: str) -> dict[int, PartRecord]:
    """Return the records of a job's finished parts whose files exist, by part number."""
    records = read_records((output / VECTORS.work).glob("part-*.json"), PartRecord, identity)
    return {
        number: record
        for number, record in records.items()
        if not find_damage(output, {file["name"]: file for file in record.files})
    }


def list_files(manifest: dict[str, Any]) -> FileRecords:
    """Return the records of every file except the manifest itself, by name."""
    files = [file for part in manifest["parts"] for file in part["files"]]
    return {file["name"]: file for file in (*files, *filter(None, [manifest["rejects"]]))}


VECTORS = FolderKind(
    noun="a folder of vectors",
    format="modern-elmo-vectors",
    work=".job",
    repair="copy it again, or run the command that wrote it again with --force",
    file_names=re.compile(rf"part-\d{{5,}}\..+|{re.escape(REJECTS)}"),
    list_files=list_files,
    derived=frozenset({INDEX}),
)
