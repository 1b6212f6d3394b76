"""Vectors of length 1 -> a file in which the nearest ones are found quickly: faiss, 8 bits a value, in cells.

A query looks into the cells nearest to it. The file is mapped into memory, not read.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.analysis.layer_choice import Array
from elmo.errors import CheckpointError, ConfigError, InputError, first_line
from elmo.files.arrays import read_npy

Mask: TypeAlias = npt.NDArray[np.bool_]
CELLS_LOOKED_INTO = 48  # of all files that are searched together
_FEWEST_CELLS = 10  # of one of them
_POINTS_PER_CELL = 64  # from which its centre is learned
_ROUNDS = 8
_ROWS_AT_ONCE = 16_384
_FEW = 4000  # as many are compared one by one, wherever they lie


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
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # the library's own, whatever the system said
        raise InputError(
            f"{path} could not be written ({first_line(error):.120}); make room on the disk and run the same "
            "command again: it goes on behind its last segment."
        ) from error
    np.save(_places_file(path), _find_places(index))


class Cells:
    """An opened file of vectors."""

    def __init__(self, path: Path) -> None:
        faiss = require_faiss()
        self._path = path
        try:
            try:
                self._index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
            except RuntimeError:  # Windows has no mapped lists
                self._index = faiss.read_index(str(path))
        except RuntimeError as error:
            raise CheckpointError(
                f"{path} is missing or damaged ({first_line(error):.120}); build the index again."
            ) from error
        self._check()

    def _check(self) -> None:
        """Raise CheckpointError if the vectors do not lie in the file, beyond which the library would read."""
        index, faiss = self._index, require_faiss()
        fault = None
        if not isinstance(index, faiss.IndexIVFScalarQuantizer):
            fault = "it holds another kind of index"
        elif sum(index.invlists.list_size(cell) for cell in range(index.nlist)) != index.ntotal:
            fault = "its lists do not hold its vectors"
        elif index.ntotal * (index.code_size + 8) > self._path.stat().st_size:
            fault = "it ends too early"
        if fault is not None:
            raise CheckpointError(f"{self._path} is missing or damaged ({fault}); build the index again.")

    def search(
        self, vector: Array, top_k: int, mask: Mask | None = None, *, num_files: int = 1
    ) -> list[tuple[int, float]]:
        """Give the numbers and cosines of the nearest vectors, best first, of those `mask` lets through.

        Of `num_files` files that are searched for the same, each is searched the less.
        """
        num_allowed = self._index.ntotal if mask is None else int(mask.sum())
        wanted = min(top_k, num_allowed)
        if wanted < 1:
            return []
        if mask is not None and num_allowed <= _FEW:
            return self._compare(vector, np.flatnonzero(mask), wanted)
        num_cells = self._index.nlist
        looked = min(max(CELLS_LOOKED_INTO // num_files, _FEWEST_CELLS), num_cells)
        while True:
            found = self._search(vector, wanted, mask, looked)
            if len(found) == wanted or looked == num_cells:
                return found
            looked = min(4 * looked, num_cells)

    def _compare(self, vector: Array, numbers: npt.NDArray[np.int64], top_k: int) -> list[tuple[int, float]]:
        faiss = require_faiss()
        places = np.asarray(self._places[numbers])
        codes = np.empty((len(numbers), self._index.code_size), dtype=np.uint8)
        for cell in np.unique(places[:, 0]).tolist():
            rows = np.flatnonzero(places[:, 0] == cell)
            size = self._index.invlists.list_size(cell) * self._index.code_size
            content = faiss.rev_swig_ptr(self._index.invlists.get_codes(cell), size)
            codes[rows] = content.reshape(-1, self._index.code_size)[places[rows, 1]]
        cosines = self._index.sq.decode(codes) @ vector.astype(np.float32)
        best = np.argsort(-cosines, kind="stable")[:top_k]
        return [(int(numbers[row]), min(1.0, float(cosines[row]))) for row in best]

    @cached_property
    def _places(self) -> npt.NDArray[np.int32]:
        """The cell of each vector, and its place in there."""
        path = _places_file(self._path)
        try:
            places: npt.NDArray[np.int32] = read_npy(path)
            reason = f"it holds {places.dtype} of the shape {places.shape}"
            if places.shape == (self._index.ntotal, 2) and places.dtype == np.int32:
                if self._are_inside(places):
                    return places
                reason = "a place lies outside its cell"
        except (OSError, ValueError) as error:
            reason = first_line(error)
        raise CheckpointError(f"{path} is missing or damaged ({reason:.120}); build the index again.")

    def _are_inside(self, places: npt.NDArray[np.int32]) -> bool:
        """Return whether every place exists: the library would read whatever memory is at another."""
        sizes = np.array([self._index.invlists.list_size(cell) for cell in range(self._index.nlist)])
        cells, within = places[:, 0], places[:, 1]
        is_cell = (cells >= 0) & (cells < len(sizes))
        return bool(is_cell.all() and (within >= 0).all() and (within < sizes[cells]).all())

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


def _places_file(path: Path) -> Path:
    return path.with_suffix(".places.npy")


def _find_places(index: Any) -> npt.NDArray[np.int32]:
    """Give (N, 2): the cell of each vector, and its place in there."""
    faiss = require_faiss()
    places = np.zeros((index.ntotal, 2), dtype=np.int32)
    for cell in range(index.nlist):
        size = index.invlists.list_size(cell)
        if size:
            numbers = faiss.rev_swig_ptr(index.invlists.get_ids(cell), size)
            places[numbers, 0], places[numbers, 1] = cell, np.arange(size)
    return places


def _draw(read: Callable[[int, int], Array], num_vectors: int, num_wanted: int) -> Array:
    """Give evenly spread vectors to learn the cells from."""
    step = max(1, num_vectors // max(1, num_wanted))
    parts = [read(start, end)[-start % step :: step] for start, end in _ranges(num_vectors)]
    return np.ascontiguousarray(np.concatenate(parts), dtype=np.float32)


def _ranges(num_vectors: int) -> Iterator[tuple[int, int]]:
    for start in range(0, num_vectors, _ROWS_AT_ONCE):
        yield start, min(start + _ROWS_AT_ONCE, num_vectors)
