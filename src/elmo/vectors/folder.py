"""The manifest of a folder of vectors and the records of its parts; see files/work_folder.py."""

import json
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

from elmo.files.durable import replace_file
from elmo.files.work_folder import (
    FILE_RECORD,
    FileRecords,
    FolderKind,
    find_damage,
    is_count,
    is_file_name,
    optional,
    read_records,
)
from elmo.vectors.formats import part_stem
from elmo.vectors.settings import DType, FileFormat, Unit

REJECTS = "rejects.jsonl"
INDEX = "index"  # the subfolder that analysis/index.py writes
_PART_COUNTS = ("number", "first_index", "num_rows", "num_written", "num_words", "num_vectors")
Reject = dict[str, Any]  # of a broken row: its index in the input, its line or row number in the file, and the reason


@dataclass(frozen=True)
class PartRecord:
    """The record of a finished part; `identity` is the hash of the job."""

    identity: str
    number: int
    first_index: int
    num_rows: int
    num_written: int
    num_without_span: int
    num_words: int
    num_vectors: int
    input_bytes: int
    rejects: list[Reject]
    files: list[dict[str, Any]]  # name, num_bytes and sha256 of each

    @property
    def num_rejected(self) -> int:
        """The number of broken rows."""
        return len(self.rejects)

    def describe(self) -> dict[str, Any]:
        """Return the part's entry in a manifest."""
        return {name: getattr(self, name) for name in (*_PART_COUNTS, "files")}


@dataclass(frozen=True)
class Counts:
    """The numbers of rows, words and vectors in a folder."""

    num_rows: int  # in the input
    num_written: int
    num_without_span: int  # rows that were not written because no span was chosen
    num_words: int
    num_vectors: int
    num_rejected: int


COUNTS = [field.name for field in fields(Counts)]


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


_FILE = {"name": is_file_name, **FILE_RECORD}
VECTORS = FolderKind(
    noun="a folder of vectors",
    format="modern-elmo-vectors",
    version=1,
    work=".job",
    repair="copy it again, or run the command that wrote it again with --force",
    file_names=re.compile(rf"part-\d{{5,}}\..+|{re.escape(REJECTS)}"),
    shape={
        "made_with": dict,
        "model": {"content_hash": str, "precision": str, "device": str},
        "settings": {
            "unit": get_args(Unit).__contains__,
            "dtype": get_args(DType).__contains__,
            "file_format": get_args(FileFormat).__contains__,
            "layers": object,
        },
        "vector_shape": [is_count],
        "inputs": [{"name": str, "format": str, "num_rows": is_count}],
        "counts": dict.fromkeys(COUNTS, is_count),
        "rejects": optional(_FILE),
        "parts": [{**dict.fromkeys(_PART_COUNTS, is_count), "files": [_FILE]}],
    },
    list_files=list_files,
    derived=frozenset({INDEX}),
)
