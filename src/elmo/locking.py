"""One process at a time in a folder: a lock that is taken at once or not at all, and ends with its process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from elmo.durable import LOCK, remove_leftovers
from elmo.errors import InputError


def take_lock(path: Path, refusal: str) -> FileLock:
    """Take the lock, which the caller releases; InputError, saying `refusal`, if another process has it."""
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(refusal) from error
    return lock


@contextmanager
def holding(folder: Path, refusal: str, *written: Path) -> Iterator[None]:
    """Keep other processes out of a folder; remove what killed ones left there and in the folders `written`."""
    lock = take_lock(folder / LOCK, refusal)
    try:
        for each in (folder, *written):
            remove_leftovers(each)
        yield
    finally:
        lock.release()
