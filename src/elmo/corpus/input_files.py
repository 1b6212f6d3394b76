"""Names and patterns, as a person gives them -> the files they mean, each with its format, size and sha256.

No text is read here; see reading.py.
"""

import glob
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

from elmo.errors import InputError
from elmo.text.file_kinds import refuse_binary

Kind = Literal["txt", "jsonl", "parquet", "csv", "tsv", "conllu"]
TEXT_KINDS: tuple[Kind, ...] = ("txt", "jsonl", "parquet")  # what running text comes in
Compression = Literal["gz", "xz", "zst"]
STDIN = "-"
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Source:
    """A file to read: what it was called, where it is and what its ending says of it."""

    name: str
    path: Path
    kind: Kind
    compression: Compression | None = None


@dataclass(frozen=True)
class InputFile:
    """A source and what it held when the work began."""

    source: Source
    num_bytes: int
    sha256: str
    modified_nanoseconds: int

    @classmethod
    def of(cls, source: Source, advance: Callable[[int], None]) -> "InputFile":
        """Read the file once; `advance` is told how many bytes were read."""
        digest = hashlib.sha256()
        with source.path.open("rb") as file:
            stat = os.fstat(file.fileno())
            while block := file.read(_READ_BYTES):
                digest.update(block)
                advance(len(block))
        return cls(source, stat.st_size, digest.hexdigest(), stat.st_mtime_ns)

    def check_unchanged(self) -> None:
        """Raise InputError if somebody wrote to the file since."""
        stat = self.source.path.stat()
        if (stat.st_size, stat.st_mtime_ns) != (self.num_bytes, self.modified_nanoseconds):
            raise InputError(f"{self.source.name} was changed while it was read; run the same command again.")

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object of a manifest."""
        kind = ".".join(filter(None, (self.source.kind, self.source.compression)))
        return {"name": self.source.name, "format": kind, "num_bytes": self.num_bytes, "sha256": self.sha256}


def open_stdin() -> BinaryIO:
    """Return standard input; InputError if it is closed."""
    if sys.stdin is None:
        raise InputError("Standard input is closed; name a file, or leave it open.")
    return sys.stdin.buffer


def find_sources(
    names: Sequence[str],
    stdin_copy: Path,
    *,
    kinds: Sequence[Kind] = TEXT_KINDS,
    other_kind: Kind | None = None,
    stdin_kind: Kind = "txt",
) -> list[Source]:
    """Give the files in the order of their names, those of a pattern sorted.

    Standard input (-) is to be found in `stdin_copy`. A file whose ending says none of `kinds` is of
    `other_kind`. Raises InputError if there is no file, or one of an unknown format, or the same one twice.
    """
    if not names:
        raise InputError("There is nothing to read; name text files, or - for standard input.")
    sources = [
        Source(STDIN, stdin_copy, stdin_kind) if name == STDIN else describe_file(path, kinds, other_kind)
        for name in names
        for path in ([name] if name == STDIN else expand_pattern(name))
    ]
    seen: dict[Path, str] = {}
    for source in sources:
        path = source.path.resolve()
        if path in seen:
            raise InputError(f"{source.name} is named twice ({seen[path]} is the same file); name it once.")
        seen[path] = source.name
    return sources


def check_outside(paths: Iterable[Path], output: Path) -> None:
    """Raise InputError if a file to read lies in the folder to write, where it could be replaced or removed."""
    folder = output.resolve()
    for path in paths:
        if folder in path.resolve().parents:
            raise InputError(
                f"{path} lies in the output folder {output}; give another folder, so that no input is overwritten."
            )


def expand_pattern(name: str) -> Iterable[str]:
    """Give the files a name or pattern means, sorted."""
    if Path(name).exists() or not glob.has_magic(name):
        return [name]
    # Path.glob would change how a name is spelled, and knows no pattern that begins at the root.
    found = sorted(path for path in glob.glob(name, recursive=True) if Path(path).is_file())  # noqa: PTH207
    if not found:
        raise InputError(f"No file matches {name!r}.")
    return found


def describe_file(name: str, kinds: Sequence[Kind], other_kind: Kind | None) -> Source:
    """Give a file with what its ending says of it."""
    path = Path(name)
    if path.is_dir():
        raise InputError(f"{name} is a folder; name the files in it, for example '{path / '*.txt'}'.")
    if not path.exists():
        raise InputError(f"There is no file {name!r}.")
    if not os.access(path, os.R_OK):
        raise InputError(f"{name} may not be read; change its permissions or read a copy.")
    refuse_binary(path, name)
    kind, compression = path.suffix.lower()[1:], None
    if kind in get_args(Compression):
        kind, compression = Path(path.stem).suffix.lower()[1:], cast(Compression, kind)
    if kind not in kinds and other_kind is not None:
        kind = other_kind
    if kind not in kinds:
        known = ", ".join(f".{each}" for each in kinds)
        packed = ", ".join(f".{each}" for each in get_args(Compression))
        raise InputError(
            f"{name} has no ending that says its format; it must be one of {known}, after which one of {packed} "
            "may stand."
        )
    return Source(name, path, cast(Kind, kind), compression)
