"""A segment of an index: sentences, their words, where each word occurs, and the vectors of each layer.

Everything but segment.json is memory-mapped. Occurrences are numbered in the order of the text; words are sorted
so that forms of one word ("Play", "play") are adjacent. Vectors of length 1 are stored by faiss with 8 bits per
dimension in cells (inverted lists), and a query is compared with the vectors in the cells nearest to it.
"""

import bisect
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.analysis.layers import Array, LayerKey, normalize
from elmo.analysis.occurrences import CorpusFilter, CorpusSentence, Occurrence
from elmo.errors import CheckpointError, ConfigError, InputError, first_line
from elmo.files.arrays import read_npy

Mask: TypeAlias = npt.NDArray[np.bool_]
# What reading damaged files raises, depending on which byte is wrong.
DAMAGE = (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, OverflowError, RuntimeError)

_DESCRIPTION = "segment.json"
_TEXT, _TEXT_ENDS, _SENTENCE_STARTS = "text.bin", "text_ends.npy", "sentence_starts.npy"
_OFFSETS, _WORDS, _WORD_ENDS = "offsets.npy", "words.bin", "word_ends.npy"
_POSTINGS, _POSTING_ENDS = "postings.npy", "posting_ends.npy"
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
    try:
        import faiss
    except ImportError as error:
        raise ConfigError("An index of occurrences needs faiss: pip install 'modern-elmo[analysis]'.") from error
    return faiss


class Segment:
    """A segment on disk, opened; `source_names` are those of the whole index, by number."""

    def __init__(self, folder: Path, source_names: Sequence[str]) -> None:
        """Open the files; CheckpointError if they are damaged."""
        self.folder = folder
        self._vectors: dict[LayerKey, VectorFile] = {}
        try:
            pieces = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))["sources"]
            # Each piece: the source, the number of its first sentence here, how many sentences.
            self.pieces = [(source_names[number], first, count) for number, first, count in pieces]
            self._piece_starts = [int(each) for each in np.cumsum([0, *(count for *_, count in self.pieces)])]
            self._text = _Strings(folder / _TEXT, folder / _TEXT_ENDS)
            self.words = _Strings(folder / _WORDS, folder / _WORD_ENDS)
            self._starts = _load(folder / _SENTENCE_STARTS)
            self._offsets = _load(folder / _OFFSETS, num_dims=2)
            self._postings = _load(folder / _POSTINGS)
            self._posting_ends = _load(folder / _POSTING_ENDS)
            self._check()
        except DAMAGE as error:
            raise damaged(folder, error) from error

    def _check(self) -> None:
        """Raise ValueError if the files do not belong together."""
        num_words = len(self._offsets)
        fits = {
            _SENTENCE_STARTS: len(self._starts) == len(self._text) == self._piece_starts[-1],
            _OFFSETS: self._offsets.shape[1] == 2,
            _POSTINGS: len(self._postings) == num_words,
            _POSTING_ENDS: len(self._posting_ends) == len(self.words) and self._posting_ends[-1] == num_words,
        }
        if wrong := [name for name, is_right in fits.items() if not is_right]:
            raise ValueError(f"{wrong[0]} does not fit the other files")

    @property
    def num_occurrences(self) -> int:
        """The number of words in its sentences."""
        return len(self._offsets)

    def vectors(self, layer: LayerKey) -> "VectorFile":
        """Return the vectors of a layer: of the distinct words for layer 0, of the occurrences for the others."""
        if layer not in self._vectors:
            self._vectors[layer] = VectorFile(self.folder / _layer_file(layer))
        return self._vectors[layer]

    def occurrences_of(self, word: str) -> npt.NDArray[np.int64]:
        """Return the numbers of the occurrences of all forms of a word."""
        forms = self.forms_of(word)
        start, end = (int(self._posting_ends[form - 1]) if form else 0 for form in (forms.start, forms.stop))
        return np.asarray(self._postings[start:end], dtype=np.int64)

    def runs_of(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the numbers of the first words where all these words stand in a row in one sentence."""
        found = self.occurrences_of(words[0])
        for distance, word in enumerate(words[1:], start=1):
            found = np.intersect1d(found, self.occurrences_of(word) - distance)
        sentences = (np.searchsorted(self._starts, found + far, side="right") for far in (0, len(words) - 1))
        return np.asarray(found[np.equal(*sentences)], dtype=np.int64)

    def forms_of(self, word: str) -> range:
        """Return the numbers of the words that equal this one except for upper and lower case."""
        folded, numbers = word.casefold(), range(len(self.words))
        ends = (bisect.bisect_left, bisect.bisect_right)
        return range(*(find(numbers, folded, key=lambda number: self.words[number].casefold()) for find in ends))

    def __getitem__(self, number: int) -> Occurrence:
        """Return an occurrence by its number."""
        sentence = int(np.searchsorted(self._starts, number, side="right")) - 1
        start = int(self._starts[sentence])
        return Occurrence(self._sentence(sentence), number - start, number - start + 1)

    def _sentence(self, number: int) -> CorpusSentence:
        offsets = self._offsets[self._start(number) : self._start(number + 1)].tolist()
        piece = bisect.bisect_right(self._piece_starts, number) - 1
        source, first, _ = self.pieces[piece]
        in_source = first + number - self._piece_starts[piece]
        return CorpusSentence(self._text[number], tuple(map(tuple, offsets)), source, in_source)

    def mask(self, chosen: CorpusFilter | None) -> Mask | None:
        """Return which occurrences pass a filter; None if all do."""
        if chosen is None or chosen.is_whole:
            return None
        mask = np.zeros(self.num_occurrences, dtype=np.bool_)
        for (source, first, count), start in zip(self.pieces, self._piece_starts, strict=False):
            low = max(chosen.first_sentence - first, 0)
            high = count if chosen.last_sentence is None else min(chosen.last_sentence - first, count)
            if chosen.has_source(source) and low < high:
                mask[self._start(start + low) : self._start(start + high)] = True
        return mask

    def _start(self, sentence: int) -> int:
        """Return the number of a sentence's first occurrence."""
        return int(self._starts[sentence]) if sentence < len(self._starts) else self.num_occurrences


class SegmentWriter:
    """Writes a segment into a folder, sentence by sentence; vectors wait on disk until it is complete."""

    def __init__(self, folder: Path, layers: Sequence[LayerKey]) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        self._spools = {layer: (folder / f"layer-{layer}.spool").open("wb") for layer in layers}
        self._dims: dict[LayerKey, int] = {}
        self._texts: list[str] = []
        self._starts: list[int] = []
        self._offsets: list[tuple[int, int]] = []
        self._word_numbers: list[int] = []
        self._words: dict[str, int] = {}
        self._word_vectors: list[npt.NDArray[np.float16]] = []
        self._pieces: list[list[int]] = []
        self.num_occurrences = 0

    def add(self, sentence: CorpusSentence, source: int, vectors: Mapping[LayerKey, Array]) -> None:
        """Add a sentence and its vectors (T, dimensions) in each layer, including layer 0."""
        if not self._pieces or self._pieces[-1][0] != source:
            self._pieces.append([source, sentence.number, 0])
        self._pieces[-1][2] += 1
        self._texts.append(sentence.text)
        self._starts.append(self.num_occurrences)
        self._offsets += sentence.offsets
        for place, word in enumerate(sentence.words):
            if word not in self._words:
                self._words[word] = len(self._words)
                self._word_vectors.append(normalize(vectors[0][place]).astype(np.float16))
            self._word_numbers.append(self._words[word])
        for layer, spool in self._spools.items():
            self._dims[layer] = vectors[layer].shape[1]
            spool.write(normalize(vectors[layer]).astype(np.float16).tobytes())
        self.num_occurrences += len(sentence.offsets)

    def close(self) -> None:
        """Close the files as they are."""
        for spool in self._spools.values():
            spool.close()

    def finish(self) -> None:
        """Write everything that Segment reads."""
        self.close()
        folder = self._folder
        _write_strings(self._texts, folder / _TEXT, folder / _TEXT_ENDS)
        np.save(folder / _SENTENCE_STARTS, np.asarray(self._starts, dtype=np.int64))
        np.save(folder / _OFFSETS, np.asarray(self._offsets, dtype=np.uint32).reshape(-1, 2))
        self._write_words()
        for layer, dim in self._dims.items():
            path = folder / f"layer-{layer}.spool"
            spool = np.memmap(path, dtype=np.float16, mode="r").reshape(-1, dim)
            write_vectors(folder / _layer_file(layer), spool)
            del spool
            path.unlink()
        (folder / _DESCRIPTION).write_text(json.dumps({"sources": self._pieces}), encoding="utf-8")

    def _write_words(self) -> None:
        words = sorted(self._words, key=lambda word: (word.casefold(), word))
        _write_strings(words, self._folder / _WORDS, self._folder / _WORD_ENDS)
        old_numbers = np.asarray([self._words[word] for word in words], dtype=np.int64)
        new_numbers = np.empty_like(old_numbers)
        new_numbers[old_numbers] = np.arange(len(words))
        numbers = new_numbers[np.asarray(self._word_numbers, dtype=np.int64)]
        np.save(self._folder / _POSTINGS, np.argsort(numbers, kind="stable").astype(np.uint32))
        counts = np.bincount(numbers, minlength=len(words))
        np.save(self._folder / _POSTING_ENDS, np.cumsum(counts, dtype=np.int64))
        write_vectors(self._folder / _layer_file(0), np.stack(self._word_vectors)[old_numbers])


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
