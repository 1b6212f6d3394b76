"""A resumable folder: whose it is, its lock, the parts finished so far, its manifest, and whether it is complete.

A sink (a corpus, a folder of vectors) describes everything that decides its content: settings, versions, inputs.
Work in progress is kept in a hidden folder inside the output; the manifest is written last and makes the output
complete. The same call resumes after a kill, because finished parts are recognized by the description's hash.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from elmo.errors import InputError
from elmo.files.durable import is_leftover, remove_leftovers, replace_file, sha256_of, take_lock
from elmo.files.sources import InputFile

MANIFEST = "manifest.json"
_WORK_LOCK = "lock"
Description = Mapping[str, Any]


@dataclass(frozen=True)
class FolderKind:
    """What one kind of folder is called, and how its own files are recognized."""

    noun: str  # for messages, for example "a prepared corpus"
    format: str
    version: int
    work: str  # the hidden folder of the work in progress; removed at the end
    repair: str  # what to do about a damaged folder
    is_valid: Callable[[dict[str, Any]], bool]  # whether a manifest states everything that is read of it
    list_own: Callable[[Path], Iterable[str]]  # names of the sink's own files in a folder, apart from the manifest
    has_progress: Callable[[Path], bool]  # whether the work folder holds anything worth keeping

    @contextmanager
    def locked(self, output: Path) -> Iterator[None]:
        """Create the folder, refuse one with foreign files, and keep other runs out of it."""
        if output.exists() and not output.is_dir():
            raise InputError(f"{output} is a file; name a folder to write {self.noun} to.")
        if foreign := self._list_foreign(output):
            listed = ", ".join(foreign[:3])
            raise InputError(f"{output} holds other files ({listed}); choose a new or empty folder.")
        is_new = not output.exists()
        work = output / self.work
        work.mkdir(parents=True, exist_ok=True)
        lock = take_lock(
            work / _WORK_LOCK, f"Another run is writing to {output}; wait for it or choose another folder."
        )
        try:
            remove_leftovers(output)
            yield
        finally:
            lock.release()
            if (output / MANIFEST).exists() or not self.has_progress(output):
                shutil.rmtree(work, ignore_errors=True)
            if is_new and not any(output.iterdir()):
                output.rmdir()

    def _list_foreign(self, output: Path) -> list[str]:
        if not output.is_dir():
            return []
        own = {self.work, *self.list_own(output)}
        if self.is_described(output):
            own.add(MANIFEST)
        return sorted(
            entry.name for entry in output.iterdir() if entry.name not in own and not is_leftover(entry.name)
        )

    def is_described(self, folder: Path) -> bool:
        """Return whether a folder has a manifest of this kind, damaged or not."""
        values = read_json(folder / MANIFEST)
        return values is not None and values.get("format") == self.format

    def read_manifest(self, folder: Path) -> dict[str, Any] | None:
        """Return the manifest of a finished folder, or None; InputError if it is damaged or of another kind."""
        path = folder / MANIFEST
        if not path.exists():
            return None
        manifest = read_json(path)
        if manifest is None or manifest.get("format") != self.format:
            raise InputError(f"{path} is damaged, or does not describe {self.noun}; choose another folder.")
        if manifest.get("version") != self.version:
            raise InputError(
                f"{path} has version {manifest.get('version')!r} of the format, but this program reads version "
                f"{self.version}; use another version of modern-elmo, or {self.repair}."
            )
        if not _checks(self.is_valid, manifest):
            raise InputError(
                f"{path} is damaged: something that every manifest states is missing or has another type; "
                f"{self.repair}."
            )
        return manifest

    def check_same(self, output: Path, found: Description, wanted: Description) -> None:
        """Raise InputError if a folder was begun with other settings, versions or inputs, naming what differs."""
        if differences := list(self._find_differences(found, wanted)):
            raise InputError(
                f"{output} holds {self.noun} made differently ({'; '.join(differences)}); choose another folder, "
                "or use --force to replace it."
            )

    def _find_differences(self, found: Description, wanted: Description) -> Iterator[str]:
        found, wanted = self._normalize(found), self._normalize(wanted)
        for group, prefix in (("settings", ""), ("made_with", ""), ("model", "the model's ")):
            old, new = found.get(group, {}), wanted.get(group, {})
            for name in sorted(old.keys() | new.keys()):
                if old.get(name) != new.get(name):
                    was, now = json.dumps(old.get(name)), json.dumps(new.get(name))
                    yield f"{prefix}{name} was {was} and is now {now}"
        files, new_files = found["inputs"], wanted["inputs"]
        if files != new_files:
            yield f"its {len(files)} input files are not the {len(new_files)} given now"

    def identify(self, description: Description) -> str:
        """Return the hash of what decides the content, the inputs by what they hold, not by their names."""
        content = json.dumps(self._normalize(description), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def _normalize(self, description: Description) -> dict[str, Any]:
        """Return what decides the content: inputs by checksum; of our own versions, only that of the format."""
        made_with = dict(description.get("made_with", {}))
        made_with.pop("modern-elmo", None)
        inputs = [(file["format"], file.get("sha256")) for file in description["inputs"]]
        return {**description, "made_with": made_with, "inputs": inputs}


class PartRecord(Protocol):
    """What is known of a finished part; every sink adds its own counts."""

    @property
    def number(self) -> int:
        """Position among the parts, from 0."""
        ...


_Part = TypeVar("_Part")
_Record = TypeVar("_Record", bound=PartRecord)


def run_parts(
    parts: Iterable[_Part],
    find_record: Callable[[_Part], _Record | None],
    compute: Callable[[Iterator[_Part]], Iterable[_Record]],
    inputs: Sequence[InputFile],
) -> list[_Record]:
    """Compute the parts that no earlier run finished, and return the records of all in order.

    `compute` returns records in any order. Raises InputError if an input changed in the meantime.
    """
    records: dict[int, _Record] = {}

    def list_missing() -> Iterator[_Part]:
        for part in parts:
            if (record := find_record(part)) is None:
                yield part
            else:
                records[record.number] = record

    for record in compute(list_missing()):
        records[record.number] = record
    for file in inputs:
        file.check_unchanged()
    return [records[number] for number in range(len(records))]


def write_manifest(folder: Path, manifest: Description) -> None:
    """Write the manifest, which makes a folder complete."""
    replace_file(folder / MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or None if there is none."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _checks(is_valid: Callable[[dict[str, Any]], bool], manifest: dict[str, Any]) -> bool:
    try:
        return is_valid(manifest)
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def is_file_record(record: Mapping[str, Any]) -> bool:
    """Return whether an entry of a manifest has the size and the checksum of a file."""
    return type(record["num_bytes"]) is int and isinstance(record["sha256"], str)


def find_damage(
    folder: Path,
    files: Mapping[str, Mapping[str, Any]],
    *,
    checksums: bool | Callable[[str], bool],
    advance: Callable[[int], None] = lambda num_bytes: None,
) -> list[str]:
    """Return what is wrong with the files of a manifest: missing, of another size, or with another checksum.

    `checksums` says whether to read the files, or which; `advance` is called with the number of bytes read.
    """
    faults = []
    for name, record in files.items():
        try:
            num_bytes = (folder / name).stat().st_size
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError)
            faults.append(f"{name} {'is missing' if is_missing else f'cannot be read ({error.strerror})'}")
            continue
        if num_bytes != record["num_bytes"]:
            faults.append(f"{name} has {num_bytes:,} bytes, not {record['num_bytes']:,}")
        elif (checksums if isinstance(checksums, bool) else checksums(name)) and (
            sha256_of(folder / name, advance) != record["sha256"]
        ):
            faults.append(f"{name} has a checksum mismatch")
    return faults


def damaged(folder: Path, faults: Sequence[str], repair: str) -> InputError:
    """Return the error about a damaged folder."""
    more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
    return InputError(f"{folder} is damaged: {'; '.join(faults[:3])}{more}; {repair}.")
