"""Files and folders that are whole or not there: written aside, synced, then renamed into place.

What they hold and what a failure means to the user is known by the caller: OSErrors pass through.
"""

import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".lock"  # of a folder that only one process at a time may write to
_LEFTOVER = re.compile(r"\.(.+\.)?saving-\d+")


@contextmanager
def writing_aside(path: Path) -> Iterator[Path]:
    """Give the name to write a file, or a new folder, under; it becomes `path` at the end.

    If anything goes wrong nothing of it stays, and an earlier file at `path` is as it was.
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
    """Give a folder to write some or all of the files `names` to; at the end it becomes `folder`.

    If there is such a folder its files `names` are replaced, one by one, or removed if they were not written,
    and its other files stay.
    """
    folder = folder.resolve()
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with writing_aside(folder) as aside:
            aside.mkdir()
            yield aside
        return
    aside = folder / f".saving-{os.getpid()}"
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


def replace_file(path: Path, content: bytes) -> None:
    """Write a file, or replace one."""
    with writing_aside(path) as aside:
        aside.write_bytes(content)


def _sync_all(path: Path) -> None:
    for entry in [*path.rglob("*"), path]:
        sync(entry)


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":
        return  # Windows has no way to sync a folder, and needs none for a rename
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def name_aside(path: Path, purpose: str = "saving") -> Path:
    """Give the hidden name beside `path` that this process writes under."""
    return path.with_name(f".{path.name}.{purpose}-{os.getpid()}")


def is_leftover(name: str) -> bool:
    """Return whether a file or folder of this name was being written aside, and nobody needs it after a kill."""
    return bool(_LEFTOVER.fullmatch(name))


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left in a folder; the caller holds its lock, so that nobody writes there."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if is_leftover(entry.name):
            remove(entry)


def is_vacant(folder: Path, *own: str) -> bool:
    """Return whether a folder is missing or has nothing of value: leftovers, a lock, and vacant folders `own`.

    A process that is killed before it wrote its first record leaves such a folder; a new one may start there.
    """
    if not folder.exists():
        return True
    return folder.is_dir() and all(
        is_leftover(entry.name) or entry.name == LOCK or (entry.name in own and is_vacant(entry))
        for entry in folder.iterdir()
    )


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it, if it is there and can be removed."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
