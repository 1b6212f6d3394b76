"""A vector folder as a resumable folder: its own files, its plan, records and manifest, whether it is complete.

While a job runs, `plan.json` in the work folder says which job it is, and there is a record of each finished part.
An earlier job that is being replaced is listed in `replaced.json` until its files are gone, so that a killed run
still knows them as its own.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from elmo.files.durable import remove, replace_file, sha256_of, sync
from elmo.files.sources import BrokenRow
from elmo.files.work_folder import MANIFEST, FolderKind, damaged, find_damage, is_file_record, read_json
from elmo.vectors.formats import Layout, part_stem
from elmo.vectors.rows import Entry, Part
from elmo.vectors.settings import DType, FileFormat, Unit

WORK = ".job"  # the work folder
PLAN, REPLACED, REJECTS = "plan.json", "replaced.json", "rejects.jsonl"
_KEPT_IN_WORK = (PLAN, "lock", REPLACED)
_PART_FIELDS = ("number", "first_index", "num_rows", "num_written", "num_words", "num_vectors")


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

    @classmethod
    def of(cls, path: Path) -> "WrittenFile":
        """Read a file."""
        return cls(path.name, path.stat().st_size, sha256_of(path))


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

    def files(self) -> Iterator[WrittenFile]:
        """Yield every file except the manifest itself."""
        for part in self.parts:
            yield from (WrittenFile(**file) for file in part["files"])
        if self.values["rejects"] is not None:
            yield WrittenFile(**self.values["rejects"])


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
    record = _parse(_record_path(output, part.number))
    if record is None or (record.identity, record.input_sha256) != (identity, part.sha256):
        return None
    files = {file.name: vars(file) for file in record.files}
    return None if find_damage(output, files, checksums=False) else record


def read_part_records(output: Path) -> Iterator[PartRecord]:
    """Yield all records of an unfinished job, whatever job it is."""
    for path in (output / WORK).glob("part-*.json"):
        if record := _parse(path):
            yield record


def _record_path(output: Path, number: int) -> Path:
    return output / WORK / f"{part_stem(number)}.json"


def _parse(path: Path) -> PartRecord | None:
    try:
        values = read_json(path) or {}
        files = tuple(WrittenFile(**file) for file in values.pop("files"))
        rejects = tuple(Reject(**reject) for reject in values.pop("rejects"))
        return PartRecord(**values, files=files, rejects=rejects)
    except (TypeError, KeyError):
        return None


def describe_part(record: PartRecord) -> dict[str, Any]:
    """Return the JSON object of a part."""
    values = asdict(record)
    return {name: values[name] for name in (*_PART_FIELDS, "files")}


def _is_valid(values: dict[str, Any]) -> bool:
    """Return whether a manifest states all that is read of it, and no file is outside its folder."""
    manifest, settings = Manifest(values), values["settings"]
    kinds = {"unit": Unit, "dtype": DType, "file_format": FileFormat}
    return (
        all(settings[name] in get_args(kind) for name, kind in kinds.items())
        and all(type(size) is int and size > 0 for size in manifest.layout.vector_shape)
        and all(type(count) is int for count in vars(manifest.counts).values())
        and all(type(part[name]) is int and part[name] >= 0 for part in manifest.parts for name in _PART_FIELDS)
        and all(Path(file.name).name == file.name and is_file_record(vars(file)) for file in manifest.files())
        and all(isinstance(values[name], dict) for name in ("made_with", "model", "settings"))
        and {"content_hash", "precision", "device"} <= values["model"].keys()
        and "layers" in settings
        and all({"name", "format"} <= file.keys() for file in values["inputs"])
        and all(type(file["num_rows"]) is int for file in values["inputs"])
    )


def _list_own(output: Path) -> set[str]:
    """Return the names of the files that a job wrote, according to its records and its manifest."""
    own = {file.name for record in read_part_records(output) for file in record.files}
    manifest = read_manifest(output)
    if manifest is not None:
        own |= {MANIFEST, *(file.name for file in manifest.files())}
    elif (output / WORK / PLAN).is_file():
        own.add(REJECTS)  # written just before the manifest
    with suppress(OSError, ValueError, TypeError):
        own |= set(json.loads((output / WORK / REPLACED).read_bytes()))
    return {name for name in own if Path(name).name == name}


VECTORS = FolderKind(
    noun="a folder of vectors",
    format="modern-elmo-vectors",
    version=1,
    work=WORK,
    repair="copy it again, or run the command that wrote it again with --force",
    is_valid=_is_valid,
    list_own=_list_own,
    has_progress=lambda output: (output / WORK / PLAN).exists() or (output / WORK / REPLACED).exists(),
)


def is_vector_folder(folder: Path) -> bool:
    """Return whether a folder holds vectors, finished or not."""
    return VECTORS.is_described(folder) or (folder / WORK / PLAN).is_file()


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a finished folder, None if there is none; InputError if it is damaged."""
    values = VECTORS.read_manifest(folder)
    return None if values is None else Manifest(values)


def check_same_job(output: Path, description: Mapping[str, Any]) -> None:
    """Raise InputError if the folder was begun for another job, saying what differs."""
    manifest = read_manifest(output)
    plan = read_json(output / WORK / PLAN) if manifest is None else manifest.values
    if plan is not None:
        VECTORS.check_same(output, plan, description)


def begin(output: Path, description: Mapping[str, Any], *, replace: bool) -> None:
    """Write the plan, and remove what nobody needs: everything, or what killed runs left behind."""
    replaced = output / WORK / REPLACED
    if replace:
        replace_file(replaced, json.dumps(sorted(_list_own(output))).encode())
        (output / MANIFEST).unlink(missing_ok=True)  # first: no manifest without its files
        sync(output)
    if replaced.exists():
        for name in _list_own(output):
            (output / name).unlink(missing_ok=True)
        sync(output)
    for path in (output / WORK).iterdir():
        is_record = path.suffix == ".json" and path.name.startswith("part-")
        if path.name in _KEPT_IN_WORK or path.name.startswith("stdin") or (is_record and not replaced.exists()):
            continue
        remove(path)
    replace_file(output / WORK / PLAN, f"{json.dumps(description, indent=1)}\n".encode())
    replaced.unlink(missing_ok=True)


def find_faults(
    folder: Path,
    manifest: Manifest,
    *,
    checksums: bool,
    advance: Callable[[int], None] = lambda num_bytes: None,
) -> list[str]:
    """Return which files are missing, have another size or checksum, or do not belong to the folder."""
    files = {file.name: vars(file) for file in manifest.files()}
    foreign = sorted(path.name for path in folder.glob("part-*") if path.name not in files)
    faults = [*find_damage(folder, files, checksums=False), *(f"{name} does not belong to it" for name in foreign)]
    return faults or (find_damage(folder, files, checksums=True, advance=advance) if checksums else [])


def verify(
    folder: Path,
    manifest: Manifest,
    advance: Callable[[int], None] = lambda num_bytes: None,
    *,
    checksums: bool = True,
) -> None:
    """Compare the size of every file and its checksum, which reads all files; InputError with what is wrong."""
    if faults := find_faults(folder, manifest, checksums=checksums, advance=advance):
        raise damaged(folder, faults, VECTORS.repair)
