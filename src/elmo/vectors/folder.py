"""A vector folder as a folder of parts that grows: its names, records and manifest."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from elmo.corpus.rows import Entry
from elmo.files.durable import replace_file
from elmo.files.sources import BrokenRow
from elmo.files.work_folder import FileRecords, FolderKind, find_damage, is_file_record, read_json
from elmo.vectors.formats import Layout, part_stem
from elmo.vectors.settings import DType, FileFormat, Unit

WORK, REJECTS = ".job", "rejects.jsonl"
INDEX = "index"  # the subfolder that analysis/index.py writes
_PART_FIELDS = ("number", "first_index", "num_rows", "num_written", "num_words", "num_vectors")
Reject = dict[str, Any]  # index in the input, number of its file (source), number of its line or row there, reason


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
    rejects: list[Reject]
    files: list[dict[str, Any]]  # name, num_bytes and sha256 of each

    def describe(self) -> dict[str, Any]:
        """Return the JSON object of a manifest."""
        return {name: getattr(self, name) for name in (*_PART_FIELDS, "files")}


@dataclass(frozen=True)
class Counts:
    """How much a vector folder holds."""

    num_rows: int  # of the input
    num_written: int
    num_without_span: int  # rows that were not written because no span was chosen
    num_words: int
    num_vectors: int
    num_rejected: int


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json, which is written last."""

    values: Mapping[str, Any]

    @property
    def layout(self) -> Layout:
        """The form of all rows."""
        settings = self.values["settings"]
        return Layout(settings["unit"], settings["dtype"], tuple(self.values["vector_shape"]))

    @property
    def counts(self) -> Counts:
        """How much the folder holds."""
        return Counts(**{name: self.values["counts"][name] for name in Counts.__dataclass_fields__})

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts in order."""
        parts: list[dict[str, Any]] = self.values["parts"]
        return parts

    @property
    def files(self) -> FileRecords:
        """The records of every file except the manifest itself, by name."""
        rejects = self.values["rejects"]
        files = [file for part in self.parts for file in part["files"]]
        return {file["name"]: file for file in (files if rejects is None else [*files, rejects])}


def list_rejects(entries: Iterable[Entry]) -> list[Reject]:
    """Return the broken rows among some."""
    return [
        {"index": entry.index, "source": entry.source, "number": entry.row.number, "reason": entry.row.reason}
        for entry in entries
        if isinstance(entry.row, BrokenRow)
    ]


def write_part_record(output: Path, record: PartRecord) -> None:
    """Keep the record of a part, which is finished when its files are in the folder too."""
    replace_file(output / WORK / f"{part_stem(record.number)}.json", json.dumps(asdict(record)).encode())


def read_part_records(output: Path, identity: str) -> dict[int, PartRecord]:
    """Return the records of the finished parts of a job whose files are there, by their number."""
    records = {}
    for path in (output / WORK).glob("part-*.json"):
        try:
            record = PartRecord(**(read_json(path) or {}))
        except TypeError:  # of another version, or damaged
            continue
        if record.identity == identity and not find_damage(output, {file["name"]: file for file in record.files}):
            records[record.number] = record
    return records


def _is_valid(values: dict[str, Any]) -> bool:
    """Return whether a manifest states all that is read of it, and no file is outside its folder."""
    manifest, settings = Manifest(values), values["settings"]
    choices = {"unit": Unit, "dtype": DType, "file_format": FileFormat}
    counts = [
        *manifest.layout.vector_shape,
        *vars(manifest.counts).values(),
        *(part[name] for part in manifest.parts for name in _PART_FIELDS),
        *(file["num_rows"] for file in values["inputs"]),
    ]
    return (
        all(type(count) is int and count >= 0 for count in counts)
        and all(settings[name] in get_args(choice) for name, choice in choices.items())
        and all(Path(name).name == name and is_file_record(file) for name, file in manifest.files.items())
        and isinstance(values["made_with"], dict)
        and {"content_hash", "precision", "device"} <= values["model"].keys()
        and "layers" in settings
        and all({"name", "format"} <= file.keys() for file in values["inputs"])
    )


VECTORS = FolderKind(
    noun="a folder of vectors",
    format="modern-elmo-vectors",
    version=1,
    work=WORK,
    repair="copy it again, or run the command that wrote it again with --force",
    own=re.compile(rf"part-\d{{5,}}\..+|{re.escape(REJECTS)}"),
    is_valid=_is_valid,
    list_files=lambda values: Manifest(values).files,
    derived=frozenset({INDEX}),
)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a finished folder, None if there is none; InputError if it is damaged."""
    values = VECTORS.read_manifest(folder)
    return None if values is None else Manifest(values)
