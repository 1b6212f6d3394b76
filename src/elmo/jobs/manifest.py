"""manifest.json: what a vector folder holds, how it was made, and the checksums of its files. Written last."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.jobs.formats.part_format import Layout
from elmo.jobs.part_record import WORK, PartRecord, WrittenFile

MANIFEST, REJECTS = "manifest.json", "rejects.jsonl"
FORMAT, VERSION = "modern-elmo-vectors", 1


@dataclass(frozen=True)
class Manifest:
    """The content of the file, with the parts of it that others need by name."""

    values: Mapping[str, Any]

    @property
    def layout(self) -> Layout:
        """The form of all rows."""
        settings = self.values["settings"]
        return Layout(settings["unit"], settings["dtype"], tuple(self.values["vector_shape"]))

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts in order."""
        parts: list[dict[str, Any]] = self.values["parts"]
        return parts

    def files(self) -> Iterator[WrittenFile]:
        """Give every file but the manifest itself."""
        for part in self.parts:
            yield from (WrittenFile(**file) for file in part["files"])
        if self.values["rejects"] is not None:
            yield WrittenFile(**self.values["rejects"])


def describe_part(record: PartRecord) -> dict[str, Any]:
    """Give the JSON object of a part."""
    names = ("number", "first_index", "num_rows", "num_written", "num_words", "num_vectors")
    files = [{"name": file.name, "num_bytes": file.num_bytes, "sha256": file.sha256} for file in record.files]
    return {**{name: getattr(record, name) for name in names}, "files": files}


def is_vector_folder(folder: Path) -> bool:
    """Whether a folder holds vectors, finished or not."""
    return _read(folder / MANIFEST) is not None or (folder / WORK / "plan.json").is_file()


def read_manifest(folder: Path) -> Manifest | None:
    """Give the manifest of a finished folder, None if there is none; InputError if it is damaged."""
    if not (folder / MANIFEST).exists():
        return None
    values = _read(folder / MANIFEST)
    if values is None:
        raise InputError(
            f"{folder / MANIFEST} is damaged or of something else than vectors; choose another folder."
        )
    if values.get("version") != VERSION:
        raise InputError(
            f"{folder} is of version {values.get('version')} of the format, but this program reads {VERSION}; "
            "use another version of modern-elmo."
        )
    return Manifest(values)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) and values.get("format") == FORMAT else None
