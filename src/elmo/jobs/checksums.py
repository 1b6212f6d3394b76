"""Bytes of a file -> what tells it from another: all of them, or its size with both ends."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

_READ_BYTES, _END_BYTES = 1 << 20, 1 << 16


def hash_file(path: Path, advance: Callable[[int], None] = lambda size: None) -> str:
    """Give the sha256 of a file; `advance` is told how many bytes were read."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def hash_ends(path: Path) -> str:
    """Give the sha256 of a file's size, first and last 64 KiB: enough to notice another file, at no cost."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(f"{size} ".encode())
        digest.update(file.read(_END_BYTES))
        file.seek(max(0, size - _END_BYTES))
        digest.update(file.read(_END_BYTES))
    return digest.hexdigest()
