"""The table of a corpus's distinct words: written once, then memory-mapped.

A row is a word id. Row 0 is the mark before each sentence and has no bytes; words follow by code point.
Files: words.bin (UTF-8, without separators), word_offsets.npy, word_counts.npy, word_targets.npy.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.corpus.part_words import COUNTS, WORDS
from elmo.files.arrays import write_npy
from elmo.files.durable import FileRecord, write_file
from elmo.text.characters import Ids, Utf8Alphabet

BYTES, OFFSETS, TOTALS, TARGETS = "words.bin", "word_offsets.npy", "word_counts.npy", "word_targets.npy"
_BYTES_AT_ONCE = 1 << 24
_WORDS_AT_ONCE = 1 << 20
_LINE_FEED = 10


def write_words(merged: Path, folder: Path, num_sentences: int) -> dict[str, FileRecord]:
    """Write the bytes, offsets and counts of the words listed in the folder `merged`."""
    counts = np.memmap(merged / COUNTS, dtype="<i8", mode="r")
    num_rows = len(counts) + 1
    words = merged / WORDS
    return {
        BYTES: write_file(folder / BYTES, (block[block != _LINE_FEED].tobytes() for block in _blocks(words))),
        OFFSETS: write_npy(folder / OFFSETS, "<i8", num_rows + 1, _offsets(words)),
        TOTALS: write_npy(
            folder / TOTALS, "<i8", num_rows, _first_then(num_sentences, _slices(counts, _WORDS_AT_ONCE))
        ),
    }


def write_targets(merged: Path, folder: Path, vocabulary: Sequence[str]) -> tuple[FileRecord, int]:
    """Write the vocabulary id of each row; give also how often unknown words occur in the corpus.

    The mark has the id of <S>. Words spelled like the special ones are unknown.
    """
    counts = np.memmap(merged / COUNTS, dtype="<i8", mode="r")
    begin, unknown = vocabulary.index("<S>"), vocabulary.index("<UNK>")
    ids = {word.encode("utf-8"): number for number, word in enumerate(vocabulary)}
    for word in (b"<S>", b"</S>", b"<UNK>"):
        del ids[word]
    num_unknown = 0

    def look_up() -> Iterator[npt.NDArray[Any]]:
        nonlocal num_unknown
        num_done = 0
        with (merged / WORDS).open("rb") as lines:
            while found := [ids.get(line[:-1], unknown) for line in islice(lines, _WORDS_AT_ONCE)]:
                targets = np.array(found, dtype=np.uint32)
                num_unknown += int(counts[num_done : num_done + len(found)][targets == unknown].sum())
                num_done += len(found)
                yield targets

    record = write_npy(folder / TARGETS, "<u4", len(counts) + 1, _first_then(begin, look_up()))
    return record, num_unknown


def _blocks(path: Path) -> Iterator[npt.NDArray[np.uint8]]:
    with path.open("rb") as file:
        while block := file.read(_BYTES_AT_ONCE):
            yield np.frombuffer(block, dtype=np.uint8)


def _offsets(words: Path) -> Iterator[npt.NDArray[Any]]:
    yield np.zeros(2, dtype=np.int64)  # where the mark begins, and where it ends and the first word begins
    num_bytes = num_words = 0
    for block in _blocks(words):
        ends = np.flatnonzero(block == _LINE_FEED)
        # Each line feed before a word's end is one byte that words.bin has not.
        yield num_bytes + ends - np.arange(num_words, num_words + len(ends))
        num_bytes += len(block)
        num_words += len(ends)


def _slices(values: npt.NDArray[Any], size: int) -> Iterator[npt.NDArray[Any]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def _first_then(first: int, rest: Iterable[npt.NDArray[Any]]) -> Iterator[npt.NDArray[Any]]:
    yield np.array([first])
    yield from rest


class WordTable:
    """The words of a prepared corpus by their ids; nothing is read but what is asked for."""

    def __init__(self, folder: Path) -> None:
        self._bytes = np.memmap(folder / BYTES, dtype=np.uint8, mode="r")
        self._offsets: npt.NDArray[np.int64] = np.load(folder / OFFSETS, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def words(self, ids: npt.ArrayLike) -> list[str]:
        """Give the words of some ids; the mark's is empty."""
        rows = self._check(ids)
        spans = zip(self._offsets[rows].tolist(), self._offsets[rows + 1].tolist(), strict=True)
        return [self._bytes[start:end].tobytes().decode("utf-8") for start, end in spans]

    def character_ids(self, ids: npt.ArrayLike, max_characters: int = 50) -> Ids:
        """Give what Utf8Alphabet gives for the words, shape (n, max_characters); the mark's are those of <S>."""
        rows = self._check(ids)
        starts = self._offsets[rows]
        lengths = np.minimum(self._offsets[rows + 1] - starts, max_characters - 2)
        columns = np.arange(max_characters - 2)
        places = np.minimum(starts[:, None] + columns, len(self._bytes) - 1)  # (n, max_characters - 2)
        content = self._bytes[places].astype(np.int64) + Utf8Alphabet.SHIFT
        result = np.full((len(rows), max_characters), Utf8Alphabet.PADDING, dtype=np.int64)
        result[:, 0] = Utf8Alphabet.BEGIN_WORD
        result[:, 1:-1][columns < lengths[:, None]] = content[columns < lengths[:, None]]
        result[np.arange(len(rows)), lengths + 1] = Utf8Alphabet.END_WORD
        result[rows == 0] = Utf8Alphabet(max_characters).boundaries()[0]
        return result

    def _check(self, ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
        rows = np.asarray(ids, dtype=np.int64)
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"word ids must be 0 to {len(self) - 1}; {rows.min()} to {rows.max()} were given")
        return rows
