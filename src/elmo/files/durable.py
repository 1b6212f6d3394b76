"""Durable writes, checksums and locks: an output is complete or absent, whatever happens to the process.

Everything is written aside (under a hidden name in the same folder), synced, then renamed. What a file holds and
what a failure means to the user is the caller's business: OSErrors pass through.
"""

import errno
import os
import re
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.errors import InputError

if TYPE_CHECKING:
    import hashlib

    from filelock import BaseFileLock

LOCK = ".lock"  # of a folder that only one process may write to at a time
_LEFTOVER = re.compile(r"\.(.+\.)?saving-\d+(-[0-9a-f]{8})?")
_READ_BYTES, _END_BYTES = 1 << 20, 1 << 16
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class FileRecord:
    """The size and checksum of a written file."""

    num_bytes: int
    sha256: str


def _new_sha256(content: bytes = b"") -> "hashlib._Hash":
    import hashlib  # here, because OpenSSL loads slowly and help pages need none of it

    return hashlib.sha256(content)


def sha256_of(path: Path, advance: Callable[[int], None] = lambda num_bytes: None) -> str:
    """Return the sha256 of a file; `advance` is called with the number of bytes read."""
    digest = _new_sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def sha256_of_ends(path: Path) -> str:
    """Return the sha256 of a file's size, first and last 64 KiB: notices another file without reading it all."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = _new_sha256(f"{size} ".encode())
        digest.update(file.read(_END_BYTES))
        file.seek(max(0, size - _END_BYTES))
        digest.update(file.read(_END_BYTES))
    return digest.hexdigest()


def write_file(path: Path, chunks: Iterable[bytes | memoryview]) -> FileRecord:
    """Write the chunks in order, wait until they are on the disk, and return their size and sha256."""
    digest = _new_sha256()
    num_bytes = 0
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
            num_bytes += len(chunk)
        file.flush()
        os.fsync(file.fileno())
    return FileRecord(num_bytes, digest.hexdigest())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file, or replace an existing one."""
    with writing_aside(path) as aside:
        aside.write_bytes(content)


@contextmanager
def writing_aside(path: Path) -> Iterator[Path]:
    """Yield the name to write a file or a new folder under; it is renamed to `path` at the end.

    After a failure nothing of it remains, and an earlier file at `path` is unchanged.
    """
    aside = name_aside(path)
    remove(aside)  # left by a killed process that had the same number
    try:
        yield aside
        _sync_all(aside)
        aside.replace(path)
        sync(path.parent)
    finally:
        remove(aside)


@contextmanager
def writing_files(folder: Path, names: Collection[str]) -> Iterator[Path]:
    """Yield a folder to write some or all of the files `names` to; at the end it becomes `folder`.

    In an existing folder the files `names` are replaced one by one, or removed if they were not written; its
    other files are kept.
    """
    folder = folder.resolve()
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with writing_aside(folder) as aside:
            aside.mkdir()
            yield aside
        return
    aside = folder / _aside_suffix("saving")
    remove(aside)
    try:
        aside.mkdir()
        yield aside
        _sync_all(aside)
        for name in names:
            if (aside / name).exists():
                (aside / name).replace(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        sync(folder)
    finally:
        remove(aside)


@contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """Yield the name to write a command's output file under; it is renamed to `path` at the end.

    Removes what killed runs left beside `path`. Raises InputError if no file can be written there.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file; give the name of a file to write.")
    target = path.resolve()  # of a link, the file it points to is replaced
    _check_parent(target)
    _remove_dead(target)
    with writing_aside(target) as aside:
        yield aside


@contextmanager
def output_folder(path: Path) -> Iterator[Path]:
    """Yield the name to write a command's output folder under; at the end it replaces `path` and all it holds."""
    target = path.resolve()
    _check_parent(target)
    _remove_dead(target)
    aside, old = name_aside(target), name_aside(target, "old")
    try:
        yield aside
        try:
            if target.exists():
                target.rename(old)
            aside.rename(target)
        except BaseException:
            if old.exists() and not target.exists():
                old.rename(target)
            raise
    finally:
        remove(aside)
        remove(old)


def _check_parent(target: Path) -> None:
    if not target.parent.is_dir():
        raise InputError(f"There is no folder {target.parent} to write {target.name} to; create it first.")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"The folder {target.parent} is not writable; choose another one.")


def _remove_dead(target: Path) -> None:
    """Remove what killed processes of this machine left beside `target`; restore a folder that one had moved."""
    name = re.escape(target.name)
    pattern = re.compile(rf"\.{name}\.(saving|old)-(\d+)-{_host()}")
    for entry in target.parent.iterdir():
        match = pattern.fullmatch(entry.name)
        if match is None or _is_running(int(match[2])):
            continue
        if match[1] == "old" and not target.exists():
            entry.rename(target)
        else:
            remove(entry)


def _is_running(process: int) -> bool:
    if os.name == "nt":
        return True  # Windows offers no harmless way to ask
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def name_aside(path: Path, purpose: str = "saving") -> Path:
    """Return the hidden name beside `path` that this process writes under."""
    return path.with_name(f".{path.name}{_aside_suffix(purpose)}")


def _aside_suffix(purpose: str) -> str:
    return f".{purpose}-{os.getpid()}-{_host()}"


def _host() -> str:
    """Return what distinguishes this machine from others that share a disk with it."""
    import socket

    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def is_leftover(name: str) -> bool:
    """Return whether a file or folder of this name is unfinished work that nobody needs after a kill."""
    return bool(_LEFTOVER.fullmatch(name))


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left in a folder; the caller holds its lock, so nobody else writes there."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if is_leftover(entry.name):
            remove(entry)


def is_vacant(folder: Path, *own: str) -> bool:
    """Return whether a folder is missing or holds nothing of value: leftovers, a lock, vacant folders `own`.

    A process that is killed before it wrote its first record leaves such a folder; a new one may start there.
    """
    if not folder.exists():
        return True
    return folder.is_dir() and all(
        is_leftover(entry.name) or entry.name == LOCK or (entry.name in own and is_vacant(entry))
        for entry in folder.iterdir()
    )


def remove(path: Path) -> None:
    """Remove a file, or a folder with its content, if it exists and can be removed."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync_all(path: Path) -> None:
    for entry in [*path.rglob("*"), path]:
        sync(entry)


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":
        return  # Windows cannot sync a folder, and does not need it for a rename
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def take_lock(path: Path, refusal: str) -> "BaseFileLock":
    """Take a lock, which the caller releases; InputError with the message `refusal` if another process has it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(refusal) from error
    return lock


@contextmanager
def holding(folder: Path, refusal: str, *written: Path) -> Iterator[None]:
    """Lock a folder; remove what killed processes left there and in the folders `written`."""
    lock = take_lock(folder / LOCK, refusal)
    try:
        for each in (folder, *written):
            remove_leftovers(each)
        yield
    finally:
        lock.release()


@contextmanager
def disk_full_reported(output: Path) -> Iterator[None]:
    """Raise InputError for a full disk while a resumable output is written."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        raise InputError(
            f"There is no space left for {output} ({error.strerror}); free some space and run the same command "
            "again: it resumes where it stopped."
        ) from error
