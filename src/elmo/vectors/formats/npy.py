"""A part as memory-mapped .npy files: all vectors, where those of each row begin, and the rows beside them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from elmo.files.arrays import growing_npy
from elmo.vectors.formats import (
    ROWS_ENDING,
    Add,
    Array,
    Block,
    Layout,
    PartFormat,
    PartReader,
    RowLines,
    StoredRow,
    file_at,
    write_rows,
)

VECTORS, SCALES, OFFSETS = ".vectors.npy", ".scales.npy", ".offsets.npy"
_KINDS = {"float32": "<f4", "float16": "<f2", "int8": "|i1"}


@contextmanager
def _write(stem: Path, layout: Layout) -> Iterator[Add]:
    with ExitStack() as stack:
        rows = stack.enter_context(file_at(stem, ROWS_ENDING).open("wb"))
        vectors = stack.enter_context(file_at(stem, VECTORS).open("wb"))
        add_vectors = stack.enter_context(growing_npy(vectors, _KINDS[layout.dtype], layout.vector_shape))
        add_scales = None
        if layout.dtype == "int8":
            scales = stack.enter_context(file_at(stem, SCALES).open("wb"))
            add_scales = stack.enter_context(growing_npy(scales, "<f4", layout.vector_shape[:-1]))
        counts = [0]

        def add(block: Block) -> None:
            write_rows(rows, block)
            add_vectors(block.vectors)
            if add_scales is not None and block.scales is not None:
                add_scales(block.scales)
            counts.extend(block.counts)

        yield add
        with file_at(stem, OFFSETS).open("wb") as file:
            np.save(file, np.cumsum(counts, dtype=np.int64))


class _NpyReader(PartReader):
    def __init__(self, stem: Path, layout: Layout) -> None:
        self._rows = RowLines(stem)
        self._offsets = np.load(file_at(stem, OFFSETS))
        # Copy-on-write, so that a view of the file is an array like any other.
        self._vectors = _map(file_at(stem, VECTORS))
        self._scales = _map(file_at(stem, SCALES)) if layout.dtype == "int8" else None

    def read(self, position: int) -> StoredRow:
        start, end = self._offsets[position], self._offsets[position + 1]
        scales = None if self._scales is None else self._scales[start:end]
        return StoredRow(*self._rows.row(position), self._vectors[start:end], scales)

    def read_names(self) -> Iterator[tuple[int, str | None]]:
        return self._rows.names()

    def close(self) -> None:
        """Nothing: the map is closed with the last array that is a view of it."""


def _map(path: Path) -> Array:
    try:
        return np.asarray(np.load(path, mmap_mode="c"))
    except ValueError:  # an empty array cannot be mapped
        return np.asarray(np.load(path))


NPY = PartFormat(_write, _NpyReader)
