"""Vectors of length 1 -> a file in which the nearest ones are found quickly: faiss, 8 bits a value, in cells.

A query looks into the cells nearest to it. The file is mapped into memory, not read.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.analysis.layer_choice import Array
from elmo.errors import CheckpointError, ConfigError, first_line

Mask: TypeAlias = npt.NDArray[np.bool_]
CELLS_LOOKED_INTO = 32
_POINTS_PER_CELL = 64  # from which its centre is learned
_ROUNDS = 8
_ROWS_AT_ONCE = 16_384
# Below this share of all vectors, every cell is looked into: only what the filter lets through is compared.
_SMALL_SHARE = 0.1


def require_faiss() -> Any:
    """Import the library, or say how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise ConfigError("An index of occurrences needs faiss: pip install 'modern-elmo[analysis]'.") from error
    return faiss


def write_cells(path: Path, read: Callable[[int, int], Array], num_vectors: int, dim: int) -> None:
    """Write the file of vectors that `read` gives by their half-open range, each of length 1."""
    faiss = require_faiss()
    num_cells = max(1, min(round(num_vectors**0.5), num_vectors // _POINTS_PER_CELL))
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(dim), dim, num_cells, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT, False
    )
    index.cp.niter, index.cp.max_points_per_centroid = _ROUNDS, _POINTS_PER_CELL
    index.cp.min_points_per_centroid = 1  # else few vectors make it print a warning
    index.train(_draw(read, num_vectors, num_cells * _POINTS_PER_CELL))
    for start, end in _ranges(num_vectors):
        index.add(read(start, end))
    faiss.write_index(index, str(path))


class Cells:
    """An opened file of vectors."""

    def __init__(self, path: Path) -> None:
        faiss = require_faiss()
        try:
            try:
                self._index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
            except RuntimeError:  # Windows has no mapped lists
                self._index = faiss.read_index(str(path))
        except RuntimeError as error:
            raise CheckpointError(
                f"{path} is missing or damaged ({first_line(error):.120}); build the index again."
            ) from error

    def search(self, vector: Array, top_k: int, mask: Mask | None = None) -> list[tuple[int, float]]:
        """Give the numbers and cosines of the nearest vectors, best first, of those `mask` lets through."""
        num_allowed = self._index.ntotal if mask is None else int(mask.sum())
        wanted = min(top_k, num_allowed)
        if wanted < 1:
            return []
        num_cells = self._index.nlist
        is_small = num_allowed <= _SMALL_SHARE * self._index.ntotal
        looked = num_cells if is_small else min(CELLS_LOOKED_INTO, num_cells)
        while True:
            found = self._search(vector, wanted, mask, looked)
            if len(found) == wanted or looked == num_cells:
                return found
            looked = min(4 * looked, num_cells)

    def _search(self, vector: Array, top_k: int, mask: Mask | None, num_cells: int) -> list[tuple[int, float]]:
        faiss = require_faiss()
        selector = None
        if mask is not None:
            # The selector does not copy the bits: they must live as long as it does.
            bits = np.packbits(mask, bitorder="little")
            selector = faiss.IDSelectorBitmap(bits)
        settings = faiss.SearchParametersIVF(sel=selector, nprobe=num_cells)
        cosines, numbers = self._index.search(vector[None].astype(np.float32), top_k, params=settings)
        return [
            (int(number), min(1.0, float(cosine)))  # rounding may lead beyond
            for number, cosine in zip(numbers[0], cosines[0], strict=True)
            if number >= 0
        ]


def _draw(read: Callable[[int, int], Array], num_vectors: int, num_wanted: int) -> Array:
    """Give evenly spread vectors to learn the cells from."""
    step = max(1, num_vectors // max(1, num_wanted))
    parts = [read(start, end)[-start % step :: step] for start, end in _ranges(num_vectors)]
    return np.ascontiguousarray(np.concatenate(parts), dtype=np.float32)


def _ranges(num_vectors: int) -> Iterator[tuple[int, int]]:
    for start in range(0, num_vectors, _ROWS_AT_ONCE):
        yield start, min(start + _ROWS_AT_ONCE, num_vectors)
