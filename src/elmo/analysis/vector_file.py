"""A file of vectors for nearest-neighbor search: an inverted file index of faiss, memory-mapped."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError, first_line
from elmo.extras import require

Array: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]
_CELLS_SEARCHED, _MAX_CELLS = 48, 4096
_POINTS_PER_CELL = 64  # to train its centroid
SAMPLE_SIZE = _MAX_CELLS * _POINTS_PER_CELL  # vectors to train the centroids
_KMEANS_ROUNDS = 8
_FEW = 4000  # up to this number, all vectors are compared


def require_faiss() -> Any:
    """Return the faiss module; ConfigError, which names the extra to install, if it is missing."""
    return require("faiss", "analysis", "An index of occurrences")


def write_vectors(path: Path, num_vectors: int, sample: Array, blocks: Iterable[Array]) -> None:
    """Write blocks (N, D) of vectors of length 1 to a file for VectorFile.

    faiss stores them with 8 bits per dimension in cells (inverted lists), whose centroids are trained on `sample`.
    """
    faiss = require_faiss()
    num_cells = max(1, min(round(num_vectors**0.5), num_vectors // _POINTS_PER_CELL, _MAX_CELLS))
    index = faiss.index_factory(sample.shape[1], f"IVF{num_cells},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.by_residual = False
    index.cp.niter, index.cp.max_points_per_centroid = _KMEANS_ROUNDS, _POINTS_PER_CELL
    index.cp.min_points_per_centroid = 1  # with few vectors it would print a warning
    index.train(np.ascontiguousarray(sample, dtype=np.float32))
    for block in blocks:
        index.add(np.ascontiguousarray(block, dtype=np.float32))
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # which hides the OSError
        raise InputError(f"{path} could not be written ({first_line(error):.120}); free some space.") from error


class VectorFile:
    """A file of write_vectors, memory-mapped."""

    def __init__(self, path: Path, num_vectors: int) -> None:
        """Open the file; ValueError if it is damaged."""
        faiss = require_faiss()
        index = None
        for flags in (faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY, 0):  # Windows cannot map the lists
            with contextlib.suppress(RuntimeError):
                index = faiss.read_index(str(path), flags)
                break
        # Otherwise faiss would read beyond the end of the file.
        if (
            not isinstance(index, faiss.IndexIVFScalarQuantizer)
            or index.ntotal != num_vectors
            or sum(index.invlists.list_size(cell) for cell in range(index.nlist)) != num_vectors
            or num_vectors * (index.code_size + 8) > path.stat().st_size
        ):
            raise ValueError(f"{path.name} does not hold its vectors")
        self._index = index

    def search(self, vector: Array, top_k: int, mask: Mask | None = None) -> list[tuple[int, float]]:
        """Return the positions and cosines of the nearest vectors that `mask` allows, best first.

        Only the nearest cells are searched, unless few vectors are allowed or these cells have too few.
        """
        faiss = require_faiss()
        num_allowed = self._index.ntotal if mask is None else int(mask.sum())
        top_k = min(top_k, num_allowed)
        if top_k < 1:
            return []
        bits = None if mask is None else np.packbits(mask, bitorder="little")  # which the selector does not copy
        selector = None if bits is None else faiss.IDSelectorBitmap(bits)
        nearest: list[tuple[int, float]] = []
        for num_cells in ([] if num_allowed <= _FEW else [_CELLS_SEARCHED]) + [self._index.nlist]:
            settings = faiss.SearchParametersIVF(sel=selector, nprobe=num_cells)
            cosines, positions = self._index.search(vector[None].astype(np.float32), top_k, params=settings)
            pairs = zip(positions[0].tolist(), cosines[0].tolist(), strict=True)
            nearest = [(position, min(1.0, cosine)) for position, cosine in pairs if position >= 0]
            if len(nearest) == top_k:
                break
        return nearest
