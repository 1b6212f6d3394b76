"""Resumable folders, which are written part by part: corpora and folders of vectors.

A description states everything that determines the content: settings, versions, inputs. Until the folder is complete, a
hidden subfolder holds the description (plan.json) and a record of each finished part (part-*). Finished parts are
recognized by the hash of the description, so the same call resumes after a kill. The manifest is written last and
makes the folder complete.
"""

import hashlib
import importlib.metadata
import json
import logging
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from elmo import __version__
from elmo.errors import InputError
from elmo.files.durable import LOCK, holding, is_leftover, remove, replace_file, sha256_of, sync
from elmo.files.sources import STDIN, InputFile, InputFormat, Source, check_outside, find_sources
from elmo.progress import Advance, progress_bar

logger = logging.getLogger(__name__)
MANIFEST = "manifest.json"
_PLAN = "plan.json"
_OTHER_INPUTS = "its input files are not those given now"
_STDIN_COPY = "stdin"  # name of the copy of standard input in the work folder
_HASH = "sha256"  # key of a manifest: the hash of all other keys
Description = Mapping[str, Any]
FileRecords = Mapping[str, Mapping[str, Any]]  # num_bytes and sha256 of each file by its name inside the folder


@dataclass(frozen=True)
class FolderKind:
    """The name, the format and the file names of one kind of folder."""

    noun: str  # for messages, for example "a prepared corpus"
    format: str
    work: str  # the hidden folder of the work in progress; removed at the end
    repair: str  # what to do about a damaged folder
    file_names: re.Pattern[str]  # names of the files that belong to such a folder
    list_files: Callable[[dict[str, Any]], FileRecords]  # returns all files that a manifest lists
    derived: frozenset[str] = frozenset()  # files computed from these files and removed with them
    version: int = 1

    def find_inputs(
        self, files: str | Path | Sequence[str | Path], output: Path, *, format: InputFormat | None = None
    ) -> list[Source]:
        """Return the files for names and patterns, as find_sources does; raise InputError if one is inside `output`."""
        names = [files] if isinstance(files, str | Path) else files
        sources = find_sources([str(name) for name in names], output / self.work / _STDIN_COPY, format=format)
        check_outside((source.path for source in sources if source.name != STDIN), output)
        return sources

    def describe(self, inputs: Iterable[InputFile], libraries: Iterable[str], **facts: Any) -> dict[str, Any]:
        """Return the first part of the manifest: everything that determines the rest."""
        made_with = {name: importlib.metadata.version(name) for name in libraries}
        return {
            "format": self.format,
            "version": self.version,
            "made_with": {"modern-elmo": __version__, **made_with},
            **facts,
            "inputs": [file.to_dict() for file in inputs],
        }

    @contextmanager
    def locked(self, output: Path) -> Iterator[None]:
        """Create and lock the folder; raise InputError if it contains foreign files or another run is writing to it."""
        if output.exists() and not output.is_dir():
            raise InputError(f"{output} is a file; name a folder to write {self.noun} to.")
        if foreign := self._list_foreign(output):
            raise InputError(f"{output} holds other files ({', '.join(foreign[:3])}); choose a new or empty folder.")
        is_new = not output.exists()
        work = output / self.work
        work.mkdir(parents=True, exist_ok=True)
        refusal = f"Another run is writing to {output}; wait for it or choose another folder."
        with holding(work, refusal, output):
            try:
                yield
            finally:
                # Without the work folder, the files of an unfinished run would look foreign.
                has_progress = any(work.glob("part-*")) or any(self._list_entries(output))
                if (output / MANIFEST).exists() or not has_progress:
                    shutil.rmtree(work, ignore_errors=True)
                if is_new and not any(output.iterdir()):
                    output.rmdir()

    def _list_entries(self, output: Path) -> list[Path]:
        entries = sorted(output.iterdir())
        return [entry for entry in entries if entry.name in self.derived or self.file_names.fullmatch(entry.name)]

    def _list_foreign(self, output: Path) -> list[str]:
        """Return the names of files that no run wrote."""
        if not output.is_dir():
            return []
        names = {entry.name for entry in output.iterdir() if not is_leftover(entry.name)} - {self.work}
        if self.is_described(output):
            written = [entry.name for entry in self._list_entries(output)]
            with suppress(InputError):  # the manifest of a finished folder lists its files
                if not self._is_begun(output) and (manifest := self.read_manifest(output)):
                    written = [Path(name).parts[0] for name in self.list_files(manifest)]
            names -= {MANIFEST, *written, *self.derived}
        return sorted(names)

    def _is_begun(self, folder: Path) -> bool:
        return (folder / self.work / _PLAN).is_file()

    def is_described(self, folder: Path) -> bool:
        """Return whether a folder is of this kind, finished or not, damaged or not."""
        return self._is_begun(folder) or (read_json(folder / MANIFEST) or {}).get("format") == self.format

    def read_manifest(self, folder: Path) -> dict[str, Any] | None:
        """Return the manifest of a finished folder, or None; raise InputError if it is damaged or of another kind."""
        path = folder / MANIFEST
        if not path.exists():
            return None
        manifest = read_json(path)
        if manifest is None or manifest.get("format") != self.format:
            raise InputError(f"{folder} is not {self.noun}, or its {MANIFEST} is damaged; choose another folder.")
        if manifest.get("version") != self.version:
            raise InputError(
                f"{path} has version {manifest.get('version')!r} of the format, but this program reads version "
                f"{self.version}; use another version of modern-elmo, or {self.repair}."
            )
        if manifest.pop(_HASH, None) not in (None, _hash(manifest)):  # earlier versions wrote no hash
            raise InputError(f"{path} is damaged or of an earlier version; {self.repair}.")
        return manifest

    def verify(
        self,
        folder: Path,
        files: FileRecords,
        *,
        checksums: bool = True,
        advance: Callable[[int], None] = lambda num_bytes: None,
    ) -> None:
        """Raise InputError if files are damaged; `checksums` and `advance` are as in find_damage."""
        if faults := find_damage(folder, files, checksums=checksums, advance=advance):
            more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
            raise InputError(f"{folder} is damaged: {'; '.join(faults[:3])}{more}; {self.repair}.")

    def begin(self, output: Path, description: Description, *, force: bool) -> bool:
        """Return whether there is work to do; if so, write the plan and remove files that are no longer needed.

        Raises InputError if the folder has another description, unless `force` is true or only the inputs of
        unfinished work changed. A finished folder is written again if a file is missing or has the wrong size.
        """
        work, manifest = output / self.work, None
        if not force:
            manifest = None if self._is_begun(output) else self.read_manifest(output)
            earlier = manifest or read_json(work / _PLAN)
            differences = [] if earlier is None else _find_differences(earlier, description)
            if differences and (manifest is not None or differences != [_OTHER_INPUTS]):
                raise InputError(
                    f"{output} holds {self.noun} with other settings or inputs ({'; '.join(differences)}); choose "
                    "another folder, or use --force to replace it."
                )
        if manifest is not None:
            faults = find_damage(output, self.list_files(manifest))
            if not faults:
                return False
            logger.warning("%s is damaged (%s), so it is written again.", output, "; ".join(faults[:3]))
        replace_file(work / _PLAN, f"{json.dumps(description, indent=1)}\n".encode())
        (output / MANIFEST).unlink(missing_ok=True)  # first: no manifest without its files
        sync(output)
        is_fresh = force or manifest is not None
        if is_fresh:
            self.clear(output)
        for entry in work.iterdir():
            is_record = entry.name.startswith("part-") and not is_fresh
            if entry.name not in (_PLAN, LOCK, _STDIN_COPY) and not is_record:
                remove(entry)
        return True

    def clear(self, output: Path, keep: Iterable[str] = ()) -> None:
        """Remove the files of the folder, except those named `keep`."""
        for entry in self._list_entries(output):
            if entry.name not in keep:
                remove(entry)
        sync(output)

    def finish(self, output: Path, manifest: dict[str, Any]) -> None:
        """Write the manifest, which makes a folder complete."""
        self.clear(output, {Path(name).parts[0] for name in self.list_files(manifest)})
        replace_file(output / MANIFEST, f"{json.dumps({**manifest, _HASH: _hash(manifest)}, indent=1)}\n".encode())


def identify(description: Description) -> str:
    """Return the hash of a description; inputs are identified by their checksums, not by their names."""
    return _hash(_normalize(description))


def _hash(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _normalize(description: Description) -> dict[str, Any]:
    """Return everything that determines the content: inputs by checksum, and not the version of this package."""
    made_with = dict(description.get("made_with", {}))
    made_with.pop("modern-elmo", None)
    inputs = [(file["format"], file.get("sha256")) for file in description.get("inputs", ())]
    return {**description, "made_with": made_with, "inputs": inputs}


def _find_differences(old: Description, new: Description) -> list[str]:
    old, new, differences = _normalize(old), _normalize(new), []
    for group, prefix in (("settings", ""), ("made_with", ""), ("model", "the model's ")):
        before, after = old.get(group, {}), new.get(group, {})
        for name in sorted(before.keys() | after.keys()):
            was, now = json.dumps(before.get(name)), json.dumps(after.get(name))
            if was != now:
                differences.append(f"{prefix}{name} was {was} and is now {now}")
    return differences if old["inputs"] == new["inputs"] else [*differences, _OTHER_INPUTS]


_Part = TypeVar("_Part", bound=Any)  # has a `number`
_Record = TypeVar("_Record", bound=Any)  # a dataclass with identity, number (among the parts) and input_bytes


def read_records(paths: Iterable[Path], record_type: type[_Record], identity: str) -> dict[int, _Record]:
    """Return the records of the finished parts of a job, by the numbers of the parts."""
    records = {}
    for path in paths:
        with suppress(TypeError):  # of another version, or damaged
            record = record_type(**(read_json(path) or {}))
            if record.identity == identity:
                records[record.number] = record
    return records


def run_parts(
    parts: Iterable[_Part],
    finished: Mapping[int, _Record],
    compute: Callable[[Iterator[_Part], Advance], Iterable[_Record]],
    inputs: Sequence[InputFile],
    work: Path,
    *,
    show_progress_bar: bool,
) -> list[_Record]:
    """Compute the parts that are not finished, and return the records of all parts in order.

    `compute` returns records in any order. If an input has changed in the meantime, the finished parts are removed
    from the folder `work`, and InputError is raised.
    """
    missing = (part for part in parts if part.number not in finished)
    finished_bytes = sum(record.input_bytes for record in finished.values())
    num_bytes = sum(file.num_bytes for file in inputs) - finished_bytes
    with progress_bar(unit="words", num_bytes=num_bytes, shown=show_progress_bar) as advance:
        records = {**finished, **{record.number: record for record in compute(missing, advance)}}
    for file in inputs:
        if file.is_changed():
            for entry in work.glob("part-*"):
                remove(entry)
            raise InputError(f"{file.source.name} was changed while it was read; run the same command again.")
    return [records[number] for number in range(len(records))]


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or None if it does not contain one."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def record_file(path: Path) -> dict[str, Any]:
    """Wait until a file is on disk, and return its record for the manifest."""
    sync(path)
    return {"num_bytes": path.stat().st_size, "sha256": sha256_of(path)}


def find_damage(
    folder: Path,
    files: FileRecords,
    *,
    checksums: bool = False,
    advance: Callable[[int], None] = lambda num_bytes: None,
) -> list[str]:
    """Return the faults of the files of a manifest: missing, of the wrong size, or with the wrong checksum.

    With `checksums`, every file is read; `advance` is called with the number of bytes read.
    """
    faults = []
    for name, record in files.items():
        try:
            num_bytes = (folder / name).stat().st_size
        except OSError as error:
            faults.append(f"{name} cannot be read ({error.strerror})")
            continue
        if num_bytes != record["num_bytes"]:
            faults.append(f"{name} has {num_bytes:,} bytes, not {record['num_bytes']:,}")
        elif checksums and sha256_of(folder / name, advance) != record["sha256"]:
            faults.append(f"{name} has a checksum mismatch")
    return faults
