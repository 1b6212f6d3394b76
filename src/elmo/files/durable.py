"""Durable writes, checksums and locks: an output is complete or absent, even if the process is killed.

Everything is written under a temporary name in the same folder, synced, then renamed. There are two kinds of
stores: folders that are replaced as a whole (`replacing_folder`: models, tasks), and folders that grow part by part
(work_folder.py: corpora, vectors). OSErrors are not caught here.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo.errors import InputError

LOCK = ".lock"  # lock file name for folders with a single writer
REPLACEMENT = ".replacement"  # the new files of a folder that is being replaced
_REMOVED = ".removed"  # file inside REPLACEMENT that lists the files to delete from the target folder
_TEMPORARY = re.compile(r"\.(?:(.+)\.)?saving-[0-9a-f-]+")  # the group is the name of the file being written
_READ_BYTES = 1 << 20


def sha256_of(path: Path, advance: Callable[[int], None] = lambda num_bytes: None) -> str:
    """Return the sha256 of a file; `advance` is called with the number of bytes read."""
    import hashlib  # imported here, because OpenSSL loads slowly and help pages do not need it

    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def replace_file(path: Path, content: bytes) -> None:
    """Atomically write a file, or replace an existing one."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def atomic_write(path: Path, *, replaces_folder: bool = False) -> Iterator[Path]:
    """Yield a temporary path for a file or a new folder, which is renamed to `path` at the end.

    After a failure, the temporary file is removed and an earlier file at `path` is unchanged. With `replaces_folder`,
    an earlier folder is moved away, and then deleted, once the new one is on the disk.
    """
    with _temporary_folder(path.parent, path.name) as folder:
        temporary = folder / path.name
        yield temporary
        _sync_all(temporary)
        if replaces_folder and path.exists():
            path.rename(folder / REPLACEMENT)
        temporary.replace(path)
        sync(path.parent)


@contextmanager
def replacing_folder(folder: Path, names: Collection[str]) -> Iterator[Path]:
    """Atomically replace the files `names` in `folder`. Yields a temporary folder to write them to.

    In an existing folder, the files `names` are replaced together (atomically), or removed if they were not
    written; all other files are kept. A single rename first makes the new files the subfolder REPLACEMENT, which
    readers prefer (see `current_folder`). Then they are copied into the folder, and the subfolder is removed. If the
    process is killed in between, the next process that writes to the folder finishes the replacement.
    """
    folder = folder.resolve()
    remove_stale(folder.parent, folder.name)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder) as temporary:
            temporary.mkdir()
            yield temporary
        return
    remove_stale(folder)
    with _temporary_folder(folder, "files") as temporary:
        yield temporary
        removed = [name for name in names if not (temporary / name).exists()]
        (temporary / _REMOVED).write_text(json.dumps(removed), encoding="utf-8")
        _sync_all(temporary)
        with _locked(folder):
            _finish_replacement(folder)  # left by a process that was killed
            temporary.rename(folder / REPLACEMENT)
            sync(folder)
            _finish_replacement(folder)


def current_folder(folder: Path) -> Path:
    """Return the folder with the current files: `folder` itself, or a replacement that is not finished yet."""
    replacement = folder / REPLACEMENT
    return replacement if replacement.is_dir() else folder


def _finish_replacement(folder: Path) -> None:
    """Copy the files of a replacement into its folder. The replacement stays intact until all files are copied."""
    replacement = folder / REPLACEMENT
    if not replacement.is_dir():
        return
    for entry in replacement.iterdir():
        if entry.name == _REMOVED:
            for name in json.loads(entry.read_text(encoding="utf-8")):
                (folder / Path(name).name).unlink(missing_ok=True)
        else:
            with atomic_write(folder / entry.name) as temporary:
                link_or_copy(entry, temporary)
    sync(folder)
    leftover = folder / _temporary_name("files")
    replacement.rename(leftover)
    remove(leftover)
    sync(folder)


def link_or_copy(source: Path, target: Path) -> None:
    """Hard-link `source` to `target`, or copy it if links are unsupported."""
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy(source, target)


@contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a command's output file, which is renamed to `path` at the end.

    Removes stale temporary files. Raises InputError if no file can be written at `path`.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file; give the name of a file to write.")
    target = path.resolve()  # replace the target of a symbolic link, not the link
    check_parent(target)
    remove_stale(target.parent, target.name)
    with atomic_write(target) as temporary:
        yield temporary


def check_parent(path: Path) -> None:
    """Raise InputError unless the parent folder of an output exists."""
    parent = path.resolve().parent
    if not parent.is_dir():
        raise InputError(f"The folder {parent} does not exist; create it first to write {path.name} there.")


@contextmanager
def _temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """Yield a new folder in `parent` and remove it at the end; its lock shows that its process is alive."""
    while True:
        folder = parent / _temporary_name(name)
        try:
            folder.mkdir()
            with _locked(folder):
                if folder.exists():  # otherwise another process removed it as stale before we locked it
                    yield folder
                    return
        finally:
            remove(folder)


def _temporary_name(name: str) -> str:
    return f".{name}.saving-{os.urandom(6).hex()}"


def remove_stale(folder: Path, name: str | None = None) -> None:
    """Remove the temporary files of killed processes from a folder: all of them, or only those for `name`."""
    for entry in list(folder.iterdir()) if folder.is_dir() else ():
        match = _TEMPORARY.fullmatch(entry.name)
        if match is not None and name in (None, match[1]):
            with _locked(entry, wait=False) as is_locked:
                if is_locked:
                    remove(entry)


@contextmanager
def _locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a folder or a file. The OS releases the lock if the process dies. Yields True if the lock was acquired.

    PIDs are not used: they are not unique across containers. If locking is unsupported, no folder is treated as
    stale.
    """
    descriptor = None
    try:
        import fcntl

        descriptor = os.open(path, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        is_locked = True
    except (ImportError, OSError):
        is_locked = False
    try:
        yield is_locked
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_leftover(name: str) -> bool:
    """Return whether a name belongs to a temporary file or folder, which is stale if its process was killed."""
    return bool(_TEMPORARY.fullmatch(name))


def is_vacant(folder: Path, *subfolders: str) -> bool:
    """Return whether a folder is missing, or contains only temporary files, a lock file, or vacant subfolders
    listed in `subfolders`.

    A process that is killed before its first record leaves such a folder; a new process may start there.
    """
    if not folder.exists():
        return True
    return folder.is_dir() and all(
        is_leftover(entry.name) or entry.name == LOCK or (entry.name in subfolders and is_vacant(entry))
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
    """Wait until a file, or the list of a folder's entries, is on disk."""
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":
        return  # Windows cannot sync a folder, and does not need it for a rename
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def holding(folder: Path, refusal: str, *written: Path) -> Iterator[None]:
    """Lock a folder, and remove stale files there and in the folders `written`.

    Raises InputError with the message `refusal` if another process has the lock.
    """
    from filelock import FileLock, Timeout

    try:
        acquired = FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout as error:
        raise InputError(refusal) from error
    with acquired:
        for written_folder in (folder, *written):
            remove_stale(written_folder)
        yield
