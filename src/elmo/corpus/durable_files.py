"""Bytes -> files that are on the disk when the call returns, with their size and sha256.

Writing through the file object, not numpy's `tofile`, lets a full disk be told from other faults.
"""

import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from elmo.errors import first_line

Chunk: TypeAlias = "bytes | memoryview"


@dataclass(frozen=True)
class FileRecord:
    """What is known of a written file."""

    num_bytes: int
    sha256: str


def write_file(path: Path, chunks: Iterable[Chunk]) -> FileRecord:
    """Write the chunks one after another and wait until the disk has them."""
    digest = hashlib.sha256()
    num_bytes = 0
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
            num_bytes += len(chunk)
        file.flush()
        os.fsync(file.fileno())
    return FileRecord(num_bytes, digest.hexdigest())


def write_npy(path: Path, dtype: str, length: int, arrays: Iterable[npt.NDArray[Any]]) -> FileRecord:
    """Write a one-dimensional .npy file of `length` numbers that come array by array."""
    return write_file(path, _npy_chunks(dtype, length, arrays))


def _npy_chunks(dtype: str, length: int, arrays: Iterable[npt.NDArray[Any]]) -> Iterator[Chunk]:
    header = io.BytesIO()
    shape = {"descr": dtype, "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(header, shape)
    yield header.getvalue()
    num_written = 0
    for array in arrays:
        yield to_bytes(array, dtype)
        num_written += len(array)
    assert num_written == length, (num_written, length)


def read_npy(path: Path) -> npt.NDArray[Any]:
    """Map an .npy file; ValueError whatever is wrong with it, since numpy raises anything for a damaged header."""
    try:
        return cast(npt.NDArray[Any], np.load(path, mmap_mode="r"))
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path.name} is no whole array ({first_line(error):.80})") from error


def to_bytes(array: npt.NDArray[Any], dtype: str) -> Chunk:
    """Give the bytes of an array as `dtype`."""
    return np.ascontiguousarray(array, dtype).tobytes()
