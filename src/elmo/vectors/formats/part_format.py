"""What a format is to the rest: blocks of rows are added to a part's files; any row of them can be read again."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from elmo.vectors.settings import DType, Unit

Array = npt.NDArray[Any]
Span = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """The form that all rows of a folder have in common."""

    unit: Unit
    dtype: DType
    vector_shape: tuple[int, ...]  # (2D,) or, for all layers, (L+1, 2D)


@dataclass(frozen=True)
class Block:
    """Some rows of a part with their vectors, one array after another."""

    indexes: Sequence[int]
    ids: Sequence[str | None]
    words: Sequence[list[str]]
    spans: Sequence[list[Span]] | None
    counts: Sequence[int]  # how many vectors each row has
    vectors: Array  # (sum of counts, *vector_shape), of the numbers to keep
    scales: Array | None  # (sum of counts, *vector_shape[:-1]) for int8


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One row as it was kept."""

    index: int
    id: str | None
    words: list[str]
    spans: list[Span] | None
    vectors: Array  # (count, *vector_shape)
    scales: Array | None


class PartReader(ABC):
    """The rows of one part, read when they are asked for."""

    @abstractmethod
    def read(self, position: int) -> StoredRow:
        """Give the row at a position in the part, from 0."""

    @abstractmethod
    def read_names(self) -> Iterator[tuple[int, str | None]]:
        """Give the index and the id of each row, without its vectors."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the files."""


Add = Callable[[Block], None]


@dataclass(frozen=True)
class PartFormat:
    """One way to keep a part: `stem` is the path of its files without what tells them apart."""

    write: Callable[[Path, Layout], AbstractContextManager[Add]]
    read: Callable[[Path, Layout], PartReader]


def part_stem(number: int) -> str:
    """Give the name that the files of a part begin with."""
    return f"part-{number:05d}"


def file_at(stem: Path, ending: str) -> Path:
    """Give the path of one of a part's files."""
    return stem.with_name(f"{stem.name}{ending}")
