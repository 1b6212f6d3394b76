"""The files of a model on disk or inside a zip archive, read alike; CheckpointError for what cannot be read."""

import errno
import gzip
import hashlib
import io
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
MAX_JSON_BYTES = 4 << 20
# Of a list of words or characters whose length no configuration implies.
MAX_LIST_ENTRIES, MAX_ENTRY_BYTES = 1 << 22, 1024
MAX_LIST_BYTES = 64 << 20  # of any list
# A compressed file may always expand to this size, or to this multiple of its own.
_ALWAYS_ALLOWED_BYTES, _MAX_EXPANSION = 64 << 20, 20
# What zipfile and gzip raise for damaged, encrypted or unknown content, apart from OSError.
_ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, KeyError, ValueError, RuntimeError)


def cache_folder() -> Path:
    """Return the one cache root: `$ELMO_CACHE`, or `modern-elmo` in `$XDG_CACHE_HOME` or `~/.cache`."""
    if chosen := os.environ.get("ELMO_CACHE"):
        return Path(chosen).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "modern-elmo"


def as_path(value: object, what: str) -> Path:
    """Return the path that the argument `what` names, with `~` expanded."""
    try:
        if isinstance(value, str | Path) and value != "" and "\0" not in str(value):
            return Path(value).expanduser()
    except RuntimeError as error:
        raise CheckpointError(f"{what} is {str(value)!r}, but {error}; give the whole path.") from error
    raise CheckpointError(f"{what} is {value!r:.80}; give the path of a file or folder, as a string or a Path.")


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
            _check_length(path.stat().st_size, max_bytes, path)
        else:
            member = path.root.getinfo(path.at)
            _check_length(member.file_size, max_bytes, path)
            check_expansion(member.file_size, member.compress_size, str(path))
        return path.read_bytes()


def _check_length(num_bytes: int, max_bytes: int | None, path: Location) -> None:
    if max_bytes is not None and num_bytes > max_bytes:
        raise CheckpointError(
            f"{path} has {num_bytes:,} bytes, but this model needs at most {max_bytes:,}; it was not opened."
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
        raise CheckpointError(f"{path} is not valid JSON ({error}); it may be truncated or another file.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a JSON {type(value).__name__}; an object was expected.")
    return value


def read_lines(
    path: Location, *, max_entries: int = MAX_LIST_ENTRIES, max_entry_bytes: int = MAX_ENTRY_BYTES
) -> tuple[list[str], str]:
    """Read a UTF-8 list of words or characters, one per line, plain or gzipped; return it with the file's SHA-256.

    Raises CheckpointError for more than `max_entries`, before memory is spent on them.
    """
    max_bytes = min(max_entries * max_entry_bytes, MAX_LIST_BYTES)
    packed = content = read_file(path, max_bytes=max_bytes)
    if path.name.endswith(".gz"):
        with _reading(path), gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(max_bytes + 1)
        _check_length(len(content), max_bytes, path)
    num_entries = content.count(b"\n") + (not content.endswith(b"\n") if content else 0)
    if num_entries > max_entries:
        raise CheckpointError(
            f"{path} has {num_entries:,} lines, but this model needs at most {max_entries:,}; put the file that "
            "it was saved with there."
        )
    try:
        return parse_lines(content), hashlib.sha256(packed).hexdigest()
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
    except _ARCHIVE_ERRORS as error:
        raise CheckpointError(f"{path} is damaged: {error}; get the archive again.") from error
