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
        with path.open("rb"):
            return
    except OSError as error:
        raise unreadable(path, error) from error
    except _ZIP_ERRORS as error:
        raise _damaged_member(path, error) from error


def read_file(path: Location) -> bytes:
    """Give what a file holds."""
    check_file(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    except _ZIP_ERRORS as error:
        raise _damaged_member(path, error) from error


def read_json(path: Location) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(read_file(path))
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
