"""How the rows and vectors of a part are stored on the disk: blocks of rows are added, any row can be read back.

One module per format, writing and reading side by side; each is imported when it is used.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy.typing as npt

from elmo.files.rows import to_json
from elmo.vectors.settings import DType, FileFormat, Unit

Array = npt.NDArray[Any]
Span = tuple[int, int]
ROWS_ENDING = ".rows.jsonl"


@dataclass(frozen=True)
class Layout:
    """The form of all rows of a folder."""

    unit: Unit
    dtype: DType
    vector_shape: tuple[int, ...]  # (2D,) or, for all layers, (L+1, 2D)


@dataclass(frozen=True)
class Block:
    """Some rows of a part with their vectors in one array."""

    indexes: Sequence[int]
    ids: Sequence[str | None]
    words: Sequence[list[str]]
    spans: Sequence[list[Span]] | None
    counts: Sequence[int]  # the number of vectors of each row
    vectors: Array  # (sum of counts, *vector_shape), as they are stored
    scales: Array | None  # (sum of counts, *vector_shape[:-1]) for int8


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One row as it is stored."""

    index: int
    id: str | None
    words: list[str]
    spans: list[Span] | None
    vectors: Array  # (count, *vector_shape)
    scales: Array | None


class PartReader(ABC):
    """The rows of one part, read on demand."""

    @abstractmethod
    def read(self, position: int) -> StoredRow:
        """Return the row at a position in the part, from 0."""

    @abstractmethod
    def read_names(self) -> Iterator[tuple[int, str | None]]:
        """Yield the index and the id of each row, without its vectors."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""


Add = Callable[[Block], None]


@dataclass(frozen=True)
class PartFormat:
    """One way to store a part; `stem` is the path of its files without their endings."""

    write: Callable[[Path, Layout], AbstractContextManager[Add]]
    read: Callable[[Path, Layout], PartReader]


def part_stem(number: int) -> str:
    """Return the common beginning of the names of a part's files."""
    return f"part-{number:05d}"


def file_at(stem: Path, ending: str) -> Path:
    """Return the path of one of a part's files."""
    return stem.with_name(f"{stem.name}{ending}")


def write_rows(file: IO[bytes], block: Block) -> None:
    """Write the rows of a block without their vectors, one line of JSON each."""
    for position, index in enumerate(block.indexes):
        row: dict[str, Any] = {"index": index, "id": block.ids[position], "words": block.words[position]}
        if block.spans is not None:
            row["spans"] = block.spans[position]
        file.write(f"{to_json(row)}\n".encode())


class RowLines:
    """The rows of a part as write_rows wrote them, read when the first one is needed."""

    def __init__(self, stem: Path) -> None:
        self._path = file_at(stem, ROWS_ENDING)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        with self._path.open("rb") as file:
            return [json.loads(line) for line in file]

    def row(self, position: int) -> tuple[int, str | None, list[str], list[Span] | None]:
        """Return index, id, words and spans of a row."""
        row = self._rows[position]
        spans = [(start, end) for start, end in row["spans"]] if "spans" in row else None
        return row["index"], row["id"], row["words"], spans

    def names(self) -> Iterator[tuple[int, str | None]]:
        """Yield the index and the id of each row."""
        return ((row["index"], row["id"]) for row in self._rows)


def open_format(name: FileFormat) -> PartFormat:
    """Return the format of that name."""
    if name == "parquet":
        from elmo.vectors.formats.parquet import PARQUET

        return PARQUET
    if name == "npy":
        from elmo.vectors.formats.npy import NPY

        return NPY
    from elmo.vectors.formats.hdf5 import HDF5

    return HDF5
