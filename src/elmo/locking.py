"""One process at a time in a folder: a lock that is taken at once or not at all, and ends with its process."""

from pathlib import Path

from filelock import FileLock, Timeout

from elmo.errors import InputError


def take_lock(path: Path, refusal: str) -> FileLock:
    """Take the lock, which the caller releases; InputError, saying `refusal`, if another process has it."""
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(refusal) from error
    return lock
