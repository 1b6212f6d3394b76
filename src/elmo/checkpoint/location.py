"""The files of a model on disk or inside a zip archive, read alike; CheckpointError for what cannot be read."""

import errno
import json
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from elmo.errors import CheckpointError
from elmo.text.vocabulary import parse_lines

Location: TypeAlias = Path | zipfile.Path
HDF5_SUFFIXES = (".hdf5", ".h5")
MAX_JSON_BYTES = 16 << 20
MAX_LIST_BYTES = 256 << 20  # of words or characters, one per line
# A compressed file may always expand to this size, or to this multiple of its own.
_ALWAYS_ALLOWED_BYTES, _MAX_EXPANSION = 64 << 20, 20
# What zipfile raises for damaged, encrypted or unknown members, apart from OSError.
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, KeyError, ValueError, RuntimeError)


def as_path(given: object, what: str) -> Path:
    """Return the path that the argument `what` names, with `~` expanded."""
    if not isinstance(given, str | Path):
        raise CheckpointError(f"{what} is {given!r:.80}; a path was expected, as a string or a Path.")
    if given == "" or "\0" in str(given):
        raise CheckpointError(f"{what} is {given!r:.80}, which names no file or folder; give its path.")
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise CheckpointError(
            f"{what} is {str(given)!r}, but the home folder of that user is unknown; give the whole path."
        ) from error


def parent_of(path: Location) -> Location:
    """Return the folder a file is in."""
    parent = path.parent
    assert isinstance(parent, Path | zipfile.Path)
    return parent


def list_folder(folder: Location) -> list[Location]:
    """Return the entries of a folder, sorted by name."""
    with _reading(folder):
        return sorted(folder.iterdir(), key=lambda entry: entry.name)


def check_file(path: Location) -> None:
    """Raise CheckpointError unless this is a file that may be read; its content is not examined."""
    with _reading(path):
        if path.is_dir():
            raise CheckpointError(f"{path} is a folder; a file was expected.")
        if isinstance(path, Path) and path.exists() and not path.is_file():  # opening it would block
            raise CheckpointError(f"{path} is a pipe or a device; a file was expected.")
        with path.open("rb"):
            return


def read_file(path: Location, *, max_bytes: int | None = None) -> bytes:
    """Return the content of a file; CheckpointError if it is too long or expands out of proportion."""
    check_file(path)
    with _reading(path):
        if isinstance(path, Path):
            num_bytes = path.stat().st_size
        else:
            member = path.root.getinfo(path.at)
            check_expansion(member.file_size, member.compress_size, str(path))
            num_bytes = member.file_size
        if max_bytes is not None:
            check_length(num_bytes, max_bytes, path)
        return path.read_bytes()


def check_length(num_bytes: int, max_bytes: int, path: Location) -> None:
    """Raise CheckpointError for a file that is longer than that of any model."""
    if num_bytes > max_bytes:
        raise CheckpointError(
            f"{path} is longer than {max_bytes >> 20} MiB, more than any model needs; it was not opened."
        )


def check_expansion(num_bytes: int, num_packed_bytes: int, what: str) -> None:
    """Raise CheckpointError for a file that expands to many times its size: weights hardly compress."""
    if num_bytes > max(_ALWAYS_ALLOWED_BYTES, _MAX_EXPANSION * num_packed_bytes):
        raise CheckpointError(
            f"{what} holds {num_packed_bytes:,} bytes that would expand to {num_bytes:,}; no model compresses "
            "like that, so it was not opened."
        )


def read_json(path: Location) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(read_file(path, max_bytes=MAX_JSON_BYTES))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is not valid JSON ({error}); it may be truncated or another file."
        ) from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a JSON {type(value).__name__}; an object was expected.")
    return value


def read_lines(path: Location) -> list[str]:
    """Read a UTF-8 list of words or characters, one per line."""
    try:
        return parse_lines(read_file(path, max_bytes=MAX_LIST_BYTES))
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 text: {error}.") from error


def unreadable(path: Location, error: OSError) -> CheckpointError:
    """Return the error for a file that the system does not let us read."""
    # Inside an archive there is no system to describe it.
    reason = error.strerror or (os.strerror(errno.ENOENT) if isinstance(error, FileNotFoundError) else error)
    return CheckpointError(f"{path} could not be read: {reason}.")


@contextmanager
def _reading(path: Location) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from error
    except _ZIP_ERRORS as error:
        raise CheckpointError(f"{path} is damaged: {error}; get the archive again.") from error
