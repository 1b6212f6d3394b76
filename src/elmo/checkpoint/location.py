"""Paths given by users, and the small files of a model; CheckpointError for a file that cannot be read."""

import gzip
import io
import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from elmo.errors import CheckpointError
from elmo.text.vocabulary import parse_lines

HDF5_SUFFIXES = (".hdf5", ".h5")
# Compressed content may expand to this size, or to this multiple of the compressed size: weights hardly compress.
_ALWAYS_ALLOWED_BYTES, _MAX_EXPANSION = 64 << 20, 20


def cache_folder() -> Path:
    """Return the root of the cache: `$ELMO_CACHE`, or `modern-elmo` in `$XDG_CACHE_HOME` or `~/.cache`."""
    if chosen := os.environ.get("ELMO_CACHE"):
        return Path(chosen).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "modern-elmo"


def as_path(value: object, subject: str) -> Path:
    """Return a path with `~` expanded; CheckpointError, whose message begins with `subject`, if it is not a path."""
    if isinstance(value, str | Path) and value != "" and "\0" not in str(value):
        with suppress(RuntimeError):  # "~name/x" without such a user
            return Path(value).expanduser()
    raise CheckpointError(f"{subject} is {value!r:.80}; give the path of a file or folder, as a string or a Path.")


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading; CheckpointError for a pipe or a device, which could block forever or never end."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise CheckpointError(f"{path} is a pipe or a device; a file was expected.")
        return path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from error


def read_file(path: Path) -> bytes:
    """Return the content of a file."""
    with open_file(path) as file:
        return file.read()


def check_expansion(num_bytes: int, num_compressed_bytes: int, subject: object) -> None:
    """Raise CheckpointError for content that expands to many times its compressed size."""
    if num_bytes > max(_ALWAYS_ALLOWED_BYTES, _MAX_EXPANSION * num_compressed_bytes):
        raise CheckpointError(f"{subject} would expand to {num_bytes:,} or more bytes; no model compresses like that.")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON ({error}); it may be truncated or another file.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a JSON {type(value).__name__}; an object was expected.")
    return value


def read_lines(path: Path) -> list[str]:
    """Read a UTF-8 list of words or characters, one per line, plain or gzipped."""
    content = read_file(path)
    try:
        if path.name.endswith(".gz"):
            num_bytes = len(content)
            max_bytes = max(_ALWAYS_ALLOWED_BYTES, _MAX_EXPANSION * num_bytes)
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(max_bytes + 1)
            check_expansion(len(content), num_bytes, path)
        return parse_lines(content)
    except (OSError, EOFError, zlib.error) as error:
        raise CheckpointError(f"{path} is damaged: {error}; download it again.") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 text: {error}.") from error


def unreadable(path: str | Path, error: OSError) -> CheckpointError:
    """Return the error for a file that the operating system fails to read."""
    return CheckpointError(f"{path} could not be read: {error.strerror or error}.")
