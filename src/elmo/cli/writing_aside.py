"""Files and folders that are whole or not there: written under another name beside the target, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo.durable import name_aside, remove, writing_aside
from elmo.errors import InputError


@contextmanager
def file_written_aside(path: Path) -> Iterator[Path]:
    """Give the path to write to; it becomes `path` at the end, or is removed if anything went wrong."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a plain file; give the name of a file to write.")
    target = path.resolve()  # behind a link, the file itself is replaced
    _check_parent(target)
    with writing_aside(target) as aside:
        yield aside


@contextmanager
def folder_written_aside(path: Path) -> Iterator[Path]:
    """Give a folder name to write to; it takes the place of `path` at the end, with all that was in it."""
    target = path.resolve()
    _check_parent(target)
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
        raise InputError(f"There is no folder {target.parent} to write {target.name} to; make it first.")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"The folder {target.parent} may not be written to; choose another one.")
