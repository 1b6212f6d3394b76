"""manifest.json: what a vector folder holds, how it was made, and the checksums of its files. Written last."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from elmo.errors import InputError
from elmo.vectors.formats.part_format import Layout
from elmo.vectors.part_record import WORK, PartRecord, WrittenFile
from elmo.vectors.settings import DType, FileFormat, Unit

MANIFEST, REJECTS = "manifest.json", "rejects.jsonl"
FORMAT, VERSION = "modern-elmo-vectors", 1
_COUNTS = ("num_rows", "num_written", "num_without_span", "num_words", "num_vectors", "num_rejected")


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
    if not _is_whole(values):
        raise InputError(
            f"{folder / MANIFEST} is damaged: something that every manifest states is missing or of another kind; "
            "copy the folder again, or write the vectors to another one."
        )
    return Manifest(values)


def _is_whole(values: Mapping[str, Any]) -> bool:
    """Return whether all that is read of a manifest is there, and no file lies outside its folder."""
    numbers = ("number", "first_index", "num_rows", "num_written", "num_words", "num_vectors")
    try:
        layout = Manifest(values).layout
        settings, counts = values["settings"], values["counts"]
        kinds = {"unit": Unit, "dtype": DType, "file_format": FileFormat}
        return (
            all(settings[name] in get_args(kind) for name, kind in kinds.items())
            and all(type(size) is int and size > 0 for size in layout.vector_shape)
            and all(type(counts[name]) is int for name in _COUNTS)
            and all(type(part[name]) is int and part[name] >= 0 for part in values["parts"] for name in numbers)
            and all(_is_file(file) for file in Manifest(values).files())
            and all(isinstance(values[name], dict) for name in ("made_with", "model", "settings"))
            and {"content_hash", "precision", "device"} <= values["model"].keys()
            and "layers" in settings
            and all({"name", "format", "sha256_of_ends"} <= file.keys() for file in values["inputs"])
            and all(type(file["num_rows"]) is int for file in values["inputs"])
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def _is_file(file: WrittenFile) -> bool:
    is_name = isinstance(file.name, str) and Path(file.name).name == file.name
    return is_name and type(file.num_bytes) is int and isinstance(file.sha256, str)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) and values.get("format") == FORMAT else None
