"""A segment of an index: what is searched of up to half a million words of a vectors folder.

The sentences stay in the vectors folder; a segment has the words and where each occurs, which row of the folder
each occurrence is in, and the vectors of each layer. Everything is memory-mapped. Occurrences are numbered in the
order of the text; words are sorted so that forms of one word ("Play", "play") are adjacent. Vectors of length 1
are stored by faiss with 8 bits per dimension in cells (inverted lists), and a query is compared with the vectors
in the cells nearest to it.
"""

import bisect
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.analysis.layers import Array, LayerKey, normalize
from elmo.analysis.occurrences import CorpusFilter
from elmo.errors import CheckpointError, InputError, first_line
from elmo.extras import require
from elmo.files.arrays import read_npy

Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.int64]
# What reading damaged files raises, depending on which byte is wrong.
DAMAGE = (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, OverflowError, RuntimeError)

_WORDS, _WORD_ENDS, _POSTINGS, _POSTING_ENDS = "words.bin", "word_ends.npy", "postings.npy", "posting_ends.npy"
# Of each row: where it is in the vectors folder, its file, its number among the sentences there, its last word.
_ROWS = "rows.npy"
_CELLS_SEARCHED = 48  # of all segments together
_FEWEST_CELLS = 10  # of one of them
_POINTS_PER_CELL = 64  # to learn its centre from
_KMEANS_ROUNDS = 8
_ROWS_AT_ONCE = 16_384
_FEW = 4000  # candidates that are compared one by one, whatever their cells


def damaged(path: Path, error: Exception) -> CheckpointError:
    """Return the error for a file or folder of an index that cannot be read."""
    return CheckpointError(f"{path} is damaged ({first_line(error):.120}); build the index again.")


def require_faiss() -> Any:
    """Return the library; ConfigError with the extra to install if it is missing."""
    return require("faiss", "analysis", "An index of occurrences")


class Segment:
    """A segment on disk, opened; `source_names` are those of the whole index, by number."""

    def __init__(self, folder: Path, source_names: Sequence[str]) -> None:
        """Open the files; CheckpointError if they are damaged."""
        self.folder = folder
        self._source_names = source_names
        self._vectors: dict[LayerKey, VectorFile] = {}
        try:
            self.words = _Strings(folder / _WORDS, folder / _WORD_ENDS)
            self._postings, self._posting_ends = _load(folder / _POSTINGS), _load(folder / _POSTING_ENDS)
            self._rows = _load(folder / _ROWS, num_dims=2)
            if self._rows.shape[1] != 4 or not len(self._rows):
                raise ValueError(f"{_ROWS} does not describe rows")
            self._ends = np.ascontiguousarray(self._rows[:, 3])
            if len(self._postings) != self.num_occurrences:
                raise ValueError(f"{_POSTINGS} does not fit the other files")
            if len(self._posting_ends) != len(self.words) or self._posting_ends[-1] != self.num_occurrences:
                raise ValueError(f"{_POSTING_ENDS} does not fit the other files")
        except DAMAGE as error:
            raise damaged(folder, error) from error

    @property
    def num_occurrences(self) -> int:
        """The number of words in its sentences."""
        return int(self._ends[-1])

    def vectors(self, layer: LayerKey) -> "VectorFile":
        """Return the vectors of a layer: of the distinct words for layer 0, of the occurrences for the others."""
        if layer not in self._vectors:
            self._vectors[layer] = VectorFile(self.folder / _layer_file(layer))
        return self._vectors[layer]

    def occurrences_of(self, word: str) -> Numbers:
        """Return the numbers of the occurrences of all forms of a word."""
        forms = self.forms_of(word)
        start, end = (int(self._posting_ends[form - 1]) if form else 0 for form in (forms.start, forms.stop))
        return np.asarray(self._postings[start:end], dtype=np.int64)

    def runs_of(self, words: Sequence[str]) -> Numbers:
        """Return the numbers of the first words where all these words stand in a row in one sentence."""
        first = self.occurrences_of(words[0])
        for distance, word in enumerate(words[1:], start=1):
            first = np.intersect1d(first, self.occurrences_of(word) - distance)
        sentences = (np.searchsorted(self._ends, first + far, side="right") for far in (0, len(words) - 1))
        return np.asarray(first[np.equal(*sentences)], dtype=np.int64)

    def forms_of(self, word: str) -> range:
        """Return the numbers of the words that equal this one except for upper and lower case."""
        folded, numbers = word.casefold(), range(len(self.words))
        ends = (bisect.bisect_left, bisect.bisect_right)
        return range(*(find(numbers, folded, key=lambda number: self.words[number].casefold()) for find in ends))

    def locate(self, number: int) -> tuple[int, str, int, int]:
        """Return an occurrence's row in the folder, its file, the number of its sentence there, and its place."""
        row = int(np.searchsorted(self._ends, number, side="right"))
        position, source, sentence, _ = self._rows[row].tolist()
        return position, self._source_names[source], sentence, number - (int(self._ends[row - 1]) if row else 0)

    def mask(self, chosen: CorpusFilter | None) -> Mask | None:
        """Return which occurrences pass a filter; None if all do."""
        if chosen is None or chosen.is_whole:
            return None
        names = np.array([chosen.has_source(name) for name in self._source_names], dtype=np.bool_)
        sentences = self._rows[:, 2]
        passes = names[self._rows[:, 1]] & (sentences >= chosen.first_sentence)
        if chosen.last_sentence is not None:
            passes &= sentences < chosen.last_sentence
        return np.repeat(passes, np.diff(self._ends, prepend=0))


class SegmentWriter:
    """Writes a segment into a folder, row by row; vectors wait on disk until it is complete."""

    def __init__(self, folder: Path, layers: Sequence[LayerKey]) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        self._spools = {layer: (folder / f"layer-{layer}.spool").open("wb") for layer in layers}
        self._dims: dict[LayerKey, int] = {}
        self._rows: list[tuple[int, int, int, int]] = []
        self._word_numbers = array("q")
        self._words: dict[str, int] = {}
        self.num_occurrences = 0

    def add(
        self, position: int, source: int, sentence: int, words: Sequence[str], vectors: Mapping[LayerKey, Array]
    ) -> None:
        """Add a row of the folder with its words and their vectors (T, dimensions) in each layer."""
        self.num_occurrences += len(words)
        self._rows.append((position, source, sentence, self.num_occurrences))
        self._word_numbers.extend(self._words.setdefault(word, len(self._words)) for word in words)
        for layer, spool in self._spools.items():
            self._dims[layer] = vectors[layer].shape[1]
            spool.write(normalize(np.asarray(vectors[layer], np.float32)).astype(np.float16).tobytes())

    def close(self) -> None:
        """Close the files as they are."""
        for spool in self._spools.values():
            spool.close()

    @property
    def words(self) -> list[str]:
        """The distinct words, sorted as they are stored."""
        return sorted(self._words, key=lambda word: (word.casefold(), word))

    def finish(self, word_vectors: Array) -> None:
        """Write everything that Segment reads; `word_vectors` are those of `words` in layer 0."""
        self.close()
        folder, words = self._folder, self.words
        np.save(folder / _ROWS, np.asarray(self._rows, dtype=np.int64))
        _write_strings(words, folder / _WORDS, folder / _WORD_ENDS)
        old_numbers = np.asarray([self._words[word] for word in words], dtype=np.int64)
        new_numbers = np.empty_like(old_numbers)
        new_numbers[old_numbers] = np.arange(len(words))
        numbers = new_numbers[np.asarray(self._word_numbers, dtype=np.int64)]
        np.save(folder / _POSTINGS, np.argsort(numbers, kind="stable").astype(np.uint32))
        np.save(folder / _POSTING_ENDS, np.cumsum(np.bincount(numbers, minlength=len(words)), dtype=np.int64))
        write_vectors(folder / _layer_file(0), normalize(word_vectors))
        for layer, dim in self._dims.items():
            path = folder / f"layer-{layer}.spool"
            spool = np.memmap(path, dtype=np.float16, mode="r").reshape(-1, dim)
            write_vectors(folder / _layer_file(layer), spool)
            del spool
            path.unlink()


def write_vectors(path: Path, vectors: npt.NDArray[np.floating[Any]]) -> None:
    """Write vectors (N, D) of length 1, which may be memory-mapped, to a file that VectorFile searches."""
    faiss = require_faiss()
    num_vectors, dim = vectors.shape
    num_cells = max(1, min(round(num_vectors**0.5), num_vectors // _POINTS_PER_CELL))
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(dim), dim, num_cells, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT, False
    )
    index.cp.niter, index.cp.max_points_per_centroid = _KMEANS_ROUNDS, _POINTS_PER_CELL
    index.cp.min_points_per_centroid = 1  # with few vectors it would print a warning
    step = max(1, num_vectors // (num_cells * _POINTS_PER_CELL))
    index.train(np.ascontiguousarray(vectors[::step], dtype=np.float32))
    for start in range(0, num_vectors, _ROWS_AT_ONCE):
        index.add(np.ascontiguousarray(vectors[start : start + _ROWS_AT_ONCE], dtype=np.float32))
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # which hides the OSError
        raise InputError(
            f"{path} could not be written ({first_line(error):.120}); make room on the disk and run the same "
            "command again: it resumes after its last segment."
        ) from error


class VectorFile:
    """A file of vectors, memory-mapped."""

    def __init__(self, path: Path) -> None:
        """Open a file of write_vectors; CheckpointError if it is damaged."""
        faiss = require_faiss()
        try:
            try:
                self._index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
            except RuntimeError:  # Windows cannot map the lists
                self._index = faiss.read_index(str(path))
            self._check(path)
        except (RuntimeError, ValueError, OSError) as error:
            raise damaged(path, error) from error

    def _check(self, path: Path) -> None:
        """Raise ValueError if the vectors are not in the file, because faiss would read beyond its end."""
        index, faiss = self._index, require_faiss()
        if not isinstance(index, faiss.IndexIVFScalarQuantizer):
            raise ValueError("it holds another kind of index")
        if sum(index.invlists.list_size(cell) for cell in range(index.nlist)) != index.ntotal:
            raise ValueError("its lists do not hold its vectors")
        if index.ntotal * (index.code_size + 8) > path.stat().st_size:
            raise ValueError("it ends too early")

    def search(
        self, vector: Array, top_k: int, mask: Mask | None = None, *, num_files: int = 1
    ) -> list[tuple[int, float]]:
        """Return the numbers and cosines of the nearest vectors that `mask` lets through, best first.

        If `num_files` files are searched for the same vector, fewer cells of each are searched.
        """
        num_allowed = self._index.ntotal if mask is None else int(mask.sum())
        wanted = min(top_k, num_allowed)
        if wanted < 1:
            return []
        if mask is not None and num_allowed <= _FEW:
            return self._compare(vector, np.flatnonzero(mask), wanted)
        num_cells = self._index.nlist
        searched = min(max(_CELLS_SEARCHED // num_files, _FEWEST_CELLS), num_cells)
        while True:
            found = self._search(vector, wanted, mask, searched)
            if len(found) == wanted or searched == num_cells:
                return found
            searched = min(4 * searched, num_cells)

    @cached_property
    def _addressable(self) -> Any:
        """The index with a table of where each vector is stored."""
        self._index.set_direct_map_type(require_faiss().DirectMap.Array)
        return self._index

    def _compare(self, vector: Array, numbers: npt.NDArray[np.int64], top_k: int) -> list[tuple[int, float]]:
        cosines = self._addressable.reconstruct_batch(numbers) @ vector.astype(np.float32)
        best = np.argsort(-cosines, kind="stable")[:top_k]
        return [(int(numbers[row]), min(1.0, float(cosines[row]))) for row in best]

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
            (int(number), min(1.0, float(cosine)))  # rounding may exceed 1
            for number, cosine in zip(numbers[0], cosines[0], strict=True)
            if number >= 0
        ]


class _Strings:
    """Texts one after another in a memory-mapped file, and where each ends."""

    def __init__(self, content: Path, ends: Path) -> None:
        self._ends = _load(ends)
        self._content = np.memmap(content, dtype=np.uint8, mode="r")
        if self._ends[-1] != len(self._content):
            raise ValueError(f"{ends.name} does not fit {content.name}")

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> str:
        start = int(self._ends[number - 1]) if number else 0
        return bytes(self._content[start : int(self._ends[number])]).decode("utf-8")


def _write_strings(strings: Iterable[str], content: Path, ends: Path) -> None:
    lengths = []
    with content.open("wb") as file:
        for string in strings:
            lengths.append(file.write(string.encode("utf-8")))
    np.save(ends, np.cumsum(lengths, dtype=np.int64))


def _load(path: Path, *, num_dims: int = 1) -> npt.NDArray[Any]:
    """Map an array of integers; ValueError if the file holds something else."""
    array = read_npy(path)
    if array.ndim != num_dims or array.dtype.kind not in "iu":
        raise ValueError(f"{path.name} holds {array.dtype} of the shape {array.shape}")
    if isinstance(array, np.memmap) and array.offset + array.nbytes != path.stat().st_size:
        raise ValueError(f"{path.name} has bytes after its array")
    return array


def _layer_file(layer: LayerKey) -> str:
    return f"layer-{layer}.faiss"
