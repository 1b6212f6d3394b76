"""A segment of an index at rest: sentences, their words, where each word occurs, and the vectors of each layer.

Everything but segment.json is mapped into memory. Occurrences are numbered in the order of the text; words are
sorted so that forms of one word ("Play", "play") stand together.
"""

import bisect
import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.analysis.cells import Cells, Mask
from elmo.analysis.corpus_part import Part
from elmo.analysis.layer_choice import LayerKey
from elmo.analysis.occurrences import CorpusSentence, Occurrence
from elmo.errors import CheckpointError, first_line
from elmo.files.arrays import read_npy

DESCRIPTION = "segment.json"
TEXT, TEXT_ENDS, SENTENCE_STARTS = "text.bin", "text_ends.npy", "sentence_starts.npy"
OFFSETS, WORDS, WORD_ENDS = "offsets.npy", "words.bin", "word_ends.npy"
POSTINGS, POSTING_ENDS = "postings.npy", "posting_ends.npy"


def layer_file(layer: LayerKey) -> str:
    """Give the name of the file with the vectors of a layer."""
    return f"layer-{layer}.faiss"


def sort_key(word: str) -> tuple[str, str]:
    """Give what words are sorted by."""
    return word.casefold(), word


# What reading damaged files raises, depending on the byte that is wrong.
DAMAGE = (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, OverflowError, RuntimeError)


def damaged(folder: Path, error: Exception) -> CheckpointError:
    """Return the error for a segment, or an index, that cannot be read."""
    return CheckpointError(f"{folder} is damaged ({first_line(error):.120}); build the index again.")


def _load(path: Path, *, num_dims: int = 1) -> npt.NDArray[Any]:
    """Map an array of whole numbers; ValueError if the file holds another one."""
    array = read_npy(path)
    if array.ndim != num_dims or array.dtype.kind not in "iu":
        raise ValueError(f"{path.name} holds {array.dtype} of the shape {array.shape}")
    if isinstance(array, np.memmap) and array.offset + array.nbytes != path.stat().st_size:
        raise ValueError(f"{path.name} has bytes that do not belong to it")
    return array


class Strings:
    """Texts one after another in a mapped file, and where each ends."""

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


def write_strings(strings: Iterable[str], content: Path, ends: Path) -> None:
    """Write what Strings reads."""
    lengths = []
    with content.open("wb") as file:
        for string in strings:
            lengths.append(file.write(string.encode("utf-8")))
    np.save(ends, np.cumsum(lengths, dtype=np.int64))


class Segment:
    """One opened segment; its layers are opened when first searched."""

    def __init__(self, folder: Path, source_names: list[str]) -> None:
        self.folder = folder
        self._cells: dict[LayerKey, Cells] = {}
        try:
            description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
            # [number of the source, number of its first sentence here, how many]
            self.pieces = [(source_names[number], first, count) for number, first, count in description["sources"]]
            self._text = Strings(folder / TEXT, folder / TEXT_ENDS)
            self.words = Strings(folder / WORDS, folder / WORD_ENDS)
            self._starts = _load(folder / SENTENCE_STARTS)
            self._offsets = _load(folder / OFFSETS, num_dims=2)
            self._postings = _load(folder / POSTINGS)
            self._posting_ends = _load(folder / POSTING_ENDS)
            self._check()
        except DAMAGE as error:
            raise damaged(folder, error) from error

    def _check(self) -> None:
        """Raise ValueError if the files do not belong together."""
        num_words = len(self._offsets)
        sizes = {
            SENTENCE_STARTS: len(self._starts) == len(self._text) == sum(count for _, _, count in self.pieces),
            OFFSETS: self._offsets.shape[1] == 2,
            POSTINGS: len(self._postings) == num_words,
            POSTING_ENDS: len(self._posting_ends) == len(self.words) and self._posting_ends[-1] == num_words,
        }
        if wrong := [name for name, is_right in sizes.items() if not is_right]:
            raise ValueError(f"{wrong[0]} does not fit the other files")

    @property
    def num_occurrences(self) -> int:
        """How many words its sentences have."""
        return len(self._offsets)

    @cached_property
    def _piece_starts(self) -> list[int]:
        counts = [0, *(count for _, _, count in self.pieces)]
        return [int(each) for each in np.cumsum(counts)]

    def cells(self, layer: LayerKey) -> Cells:
        """Give the vectors of a layer: of the words for layer 0, of the occurrences for the others."""
        if layer not in self._cells:
            self._cells[layer] = Cells(self.folder / layer_file(layer))
        return self._cells[layer]

    def occurrences_of(self, word: str) -> npt.NDArray[np.int64]:
        """Give the numbers of the occurrences of all forms of a word."""
        forms = self.forms_of(word)
        if not forms:
            return np.zeros(0, dtype=np.int64)
        start = int(self._posting_ends[forms[0] - 1]) if forms[0] else 0
        return np.asarray(self._postings[start : int(self._posting_ends[forms[-1]])], dtype=np.int64)

    def forms_of(self, word: str) -> range:
        """Give the numbers of the words that are this one but for capital letters."""
        folded = word.casefold()
        numbers = range(len(self.words))
        first = bisect.bisect_left(numbers, folded, key=lambda number: self.words[number].casefold())
        last = bisect.bisect_right(numbers, folded, key=lambda number: self.words[number].casefold())
        return range(first, last)

    def __getitem__(self, number: int) -> Occurrence:
        """Give an occurrence by its number."""
        sentence = int(np.searchsorted(self._starts, number, side="right")) - 1
        start = int(self._starts[sentence])
        return Occurrence(self.sentence(sentence), number - start, number - start + 1)

    def sentence(self, number: int) -> CorpusSentence:
        """Give a sentence by its number in this segment."""
        offsets = self._offsets[self._start(number) : self._start(number + 1)].tolist()
        piece = bisect.bisect_right(self._piece_starts, number) - 1
        source, first, _ = self.pieces[piece]
        in_source = first + number - self._piece_starts[piece]
        return CorpusSentence(self._text[number], tuple(map(tuple, offsets)), source, in_source)

    def mask_of_part(self, part: Part) -> Mask:
        """Give which occurrences lie in a part of the corpus."""
        mask = np.zeros(self.num_occurrences, dtype=np.bool_)
        for (source, first, count), start in zip(self.pieces, self._piece_starts, strict=False):
            if not part.has_source(source):
                continue
            low = max(part.first - first, 0)
            high = count if part.last is None else min(part.last - first, count)
            if low < high:
                mask[self._start(start + low) : self._start(start + high)] = True
        return mask

    def _start(self, sentence: int) -> int:
        """Give the number of a sentence's first occurrence; behind the last sentence, how many there are."""
        return int(self._starts[sentence]) if sentence < len(self._starts) else self.num_occurrences
