"""Where the files of a model are: a folder on disk or the inside of a zip archive, read alike.

What cannot be read is told in one sentence here, so that no format has to.
"""

import errno
import json
import lzma
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, TypeAlias

from elmo.errors import CheckpointError

Location: TypeAlias = Path | zipfile.Path
LONGEST_JSON_BYTES = 16 << 20
LONGEST_LIST_BYTES = 256 << 20  # of words or characters, one a line
# A file may always be unpacked to so many bytes, a larger one to so many times its size.
ALWAYS_UNPACKED_BYTES, LARGEST_EXPANSION = 64 << 20, 20
# What zipfile raises for damaged, encrypted or unknown members, besides OSError.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    KeyError,
    ValueError,
    RuntimeError,  # NotImplementedError too
)


def as_path(given: object, what: str) -> Path:
    """Give the path that the argument `what` names, with `~` spelled out."""
    if not isinstance(given, str | Path):
        raise CheckpointError(f"{what} is {given!r:.80}; a path was expected, as a string or a Path.")
    if given == "" or "\0" in str(given):
        raise CheckpointError(f"{what} is {given!r:.80}, which names no file or folder; give its path.")
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise CheckpointError(
            f"{what} is {str(given)!r}, but that user's home is not known; give the whole path."
        ) from error


def parent_of(path: Location) -> Location:
    """Give the folder a file is in."""
    parent = path.parent
    assert isinstance(parent, Path | zipfile.Path)
    return parent


def check_file(path: Location) -> None:
    """Raise CheckpointError unless a file is there and may be read; what is in it is not looked at."""
    try:
        if path.is_dir():
            raise CheckpointError(f"{path} is a folder; a file was expected.")
        if isinstance(path, Path) and path.exists() and not path.is_file():  # opening it would wait for ever
            raise CheckpointError(f"{path} is a pipe or a device; a file was expected.")
        with path.open("rb"):
            return
    except OSError as error:
        raise unreadable(path, error) from error
    except _ZIP_ERRORS as error:
        raise _damaged_member(path, error) from error


def read_file(path: Location, *, max_bytes: int | None = None) -> bytes:
    """Return what a file holds; CheckpointError if it is longer, or was packed far smaller than any model is."""
    check_file(path)
    try:
        num_bytes = _check_size(path)
        if max_bytes is not None and num_bytes > max_bytes:
            raise too_long(path, max_bytes)
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    except _ZIP_ERRORS as error:
        raise _damaged_member(path, error) from error


def _check_size(path: Location) -> int:
    """Return the size of a file as it is when unpacked, if that is believable."""
    if isinstance(path, Path):
        return path.stat().st_size
    member = path.root.getinfo(path.at)
    check_expansion(member.file_size, member.compress_size, str(path))
    return member.file_size


def check_expansion(num_bytes: int, num_packed_bytes: int, what: str) -> None:
    """Raise CheckpointError for a file that is many times larger when it is unpacked: weights hardly shrink."""
    if num_bytes > max(ALWAYS_UNPACKED_BYTES, LARGEST_EXPANSION * num_packed_bytes):
        raise CheckpointError(
            f"{what} holds {num_packed_bytes:,} bytes that would become {num_bytes:,}; no model is packed like "
            "that, so it was not opened."
        )


def too_long(path: Location, max_bytes: int) -> CheckpointError:
    """Return the error for a file that no model has in this size."""
    return CheckpointError(f"{path} is longer than {max_bytes >> 20} MiB, which no model's is; it was not opened.")


def read_json(path: Location) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(read_file(path, max_bytes=LONGEST_JSON_BYTES))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON ({error}); it may be cut off or another file.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a JSON {type(value).__name__}; an object was expected.")
    return value


def list_folder(folder: Location) -> list[Location]:
    """Give the entries of a folder, by name."""
    try:
        return sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        raise unreadable(folder, error) from error


def unreadable(path: Location, error: OSError) -> CheckpointError:
    """Give the error for what the system does not let us read."""
    # Inside an archive there is no system that would word it.
    reason = error.strerror or (os.strerror(errno.ENOENT) if isinstance(error, FileNotFoundError) else error)
    return CheckpointError(f"{path} could not be read: {reason}.")


def _damaged_member(path: Location, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path} is damaged: {error}; get the archive again.")
