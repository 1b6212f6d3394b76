"""Sorted word lists of all parts -> one list -> the table of a corpus's distinct words, and its vocabulary.

The lists are merged from disk in bounded memory, many of them in several rounds, so that few files are open at a
time; each merged list has a map from its ranks to those of the result. A row of the table is a word id: row 0 is
the mark before each sentence and has no bytes, words follow by code point. Files: words.bin (UTF-8, without
separators), word_offsets.npy, word_counts.npy, word_targets.npy. Must not import torch.
"""

import heapq
import shutil
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.corpus.parts import COUNTS, IDS, WORDS, ShardRecord, part_folder, write_shard
from elmo.corpus.settings import DEFAULT_VOCABULARY_SIZE, SPECIAL_WORDS, PrepareSettings, read_vocabulary
from elmo.errors import InputError
from elmo.files.arrays import write_npy
from elmo.files.durable import FileRecord, write_file
from elmo.files.workers import Report, Workers
from elmo.text.characters import Ids, Utf8Alphabet

BYTES, OFFSETS, TOTALS, TARGETS = "words.bin", "word_offsets.npy", "word_counts.npy", "word_targets.npy"
LISTS_AT_ONCE = 64
_MERGED_AT_ONCE = 1 << 17
_BYTES_AT_ONCE = 1 << 24
_WORDS_AT_ONCE = 1 << 20
_LINE_FEED = 10

Ranks = npt.NDArray[np.uint32]


def merge_all(parts: Sequence[Path], folder: Path, workers: Workers, report: Report) -> Path:
    """Merge the lists of all parts, in rounds, in folders below `folder`; return the folder of the result."""
    shutil.rmtree(folder, ignore_errors=True)
    lists, round_number = list(parts), 0
    while round_number == 0 or len(lists) > 1:
        groups = [lists[start : start + LISTS_AT_ONCE] for start in range(0, len(lists), LISTS_AT_ONCE)]
        targets = [_merged_folder(folder, round_number, number) for number in range(len(groups))]
        calls = [(merge_lists, (group, target)) for group, target in zip(groups, targets, strict=True)]
        for _ in workers.run(calls, report):
            pass
        lists, round_number = targets, round_number + 1
    return lists[0]


def map_part(folder: Path, number: int, num_parts: int) -> Ranks:
    """Return the rank in the result of merge_all for each rank in part `number` of `num_parts`."""
    ranks: Ranks | None = None
    round_number = 0
    while round_number == 0 or num_parts > 1:
        group, position = divmod(number, LISTS_AT_ONCE)
        step = _read_map(_merged_folder(folder, round_number, group), position)
        ranks = step if ranks is None else step[ranks]
        number, num_parts = group, -(-num_parts // LISTS_AT_ONCE)
        round_number += 1
    assert ranks is not None
    return ranks


def _merged_folder(folder: Path, round_number: int, group: int) -> Path:
    return folder / f"{round_number}-{group:05d}"


def _map_file(folder: Path, position: int) -> Path:
    return folder / f"map-{position:02d}.bin"


def _read_map(folder: Path, position: int) -> Ranks:
    path = _map_file(folder, position)
    if path.stat().st_size == 0:  # a part without a word; an empty file cannot be mapped
        return np.zeros(0, dtype=np.uint32)
    return np.memmap(path, dtype="<u4", mode="r")


def merge_lists(sources: Sequence[Path], target: Path, report: Report) -> None:
    """Merge sorted lists, each a folder with words and counts, into the folder `target`; write their maps."""
    target.mkdir(parents=True)
    with ExitStack() as stack:
        words_file = stack.enter_context((target / WORDS).open("wb"))
        counts_file = stack.enter_context((target / COUNTS).open("wb"))
        map_files = [
            stack.enter_context(_map_file(target, position).open("wb")) for position in range(len(sources))
        ]
        maps = [array("I") for _ in sources]
        words: list[bytes] = []
        counts = array("q")
        num_flushed = num_entries = 0

        def flush() -> None:
            nonlocal num_flushed
            num_flushed += len(words)
            words_file.writelines(words)
            words.clear()
            for file, numbers in ((counts_file, counts), *zip(map_files, maps, strict=True)):
                file.write(numbers)
                del numbers[:]

        last = None
        streams = [_entries(folder, position) for position, folder in enumerate(sources)]
        for word, position, count in heapq.merge(*streams):
            if word != last:
                if num_entries >= _MERGED_AT_ONCE:
                    flush()
                    report(0, num_entries)
                    num_entries = 0
                words.append(word + b"\n")
                counts.append(0)
                last = word
            num_entries += 1
            counts[-1] += count
            maps[position].append(num_flushed + len(words) - 1)
        flush()
        report(0, num_entries)


def _entries(folder: Path, position: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield each word of a list with the position of the list and the count of the word."""
    with (folder / WORDS).open("rb", buffering=1 << 18) as words, (folder / COUNTS).open("rb") as counts:
        while block := counts.read(8 << 13):
            for count, line in zip(array("q", block), words, strict=False):
                yield line[:-1], position, count


def write_part_shard(
    shard: int, part: int, parts: Path, merged: Path, num_parts: int, folder: Path, report: Report
) -> ShardRecord:
    """Write shard number `shard` of the corpus in `folder`, made of part number `part`."""
    ids = part_folder(parts, part) / IDS
    return write_shard(shard, ids, map_part(merged, part, num_parts), folder, report)


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
    """Write the vocabulary id of each row; return also how often unknown words occur in the corpus.

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
        # words.bin lacks one byte, the line feed, for each word before.
        yield num_bytes + ends - np.arange(num_words, num_words + len(ends))
        num_bytes += len(block)
        num_words += len(ends)


def _slices(values: npt.NDArray[Any], size: int) -> Iterator[npt.NDArray[Any]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def _first_then(first: int, rest: Iterable[npt.NDArray[Any]]) -> Iterator[npt.NDArray[Any]]:
    yield np.array([first])
    yield from rest


def choose_vocabulary(folder: Path, settings: PrepareSettings) -> list[str]:
    """Return the vocabulary for the word table in `folder`: the special words, then words by falling frequency.

    Words of equal frequency follow by code point, so the same text makes the same vocabulary. The order matters:
    the sampled softmax draws rows near the top most often.
    """
    if settings.vocabulary is not None:
        return read_vocabulary(settings.vocabulary)
    counts = np.load(folder / TOTALS, mmap_mode="r")
    if settings.min_count is not None:
        size = None
        rows = most_frequent(counts, min_count=settings.min_count)
    else:
        size = settings.vocabulary_size or DEFAULT_VOCABULARY_SIZE
        # Enough rows, even if some words of the text are spelled like the special ones.
        rows = most_frequent(counts, size=size)
    words = [word for word in WordTable(folder).words(rows) if word not in SPECIAL_WORDS]
    if not words:
        raise InputError(f"No word occurs {settings.min_count} times; choose a lower min_count.")
    return [*SPECIAL_WORDS, *words][:size]


def most_frequent(
    counts: npt.NDArray[np.int64], *, size: int | None = None, min_count: int = 1
) -> npt.NDArray[np.int64]:
    """Return the rows of the highest counts, highest first, without row 0 (the mark), in bounded memory."""
    best = np.zeros(0, dtype=np.int64)
    for start in range(1, len(counts), _WORDS_AT_ONCE):
        block = counts[start : start + _WORDS_AT_ONCE]
        rows = np.concatenate([best, start + np.flatnonzero(block >= min_count)])
        best = rows[np.lexsort((rows, -counts[rows]))][:size]
    return best


class WordTable:
    """The words of a prepared corpus by their ids, memory-mapped."""

    def __init__(self, folder: Path) -> None:
        self._bytes = np.memmap(folder / BYTES, dtype=np.uint8, mode="r")
        self._offsets: npt.NDArray[np.int64] = np.load(folder / OFFSETS, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def words(self, ids: npt.ArrayLike) -> list[str]:
        """Return the words of some ids; that of the mark is empty."""
        rows = self._check(ids)
        spans = zip(self._offsets[rows].tolist(), self._offsets[rows + 1].tolist(), strict=True)
        return [self._bytes[start:end].tobytes().decode("utf-8") for start, end in spans]

    def character_ids(self, ids: npt.ArrayLike, max_characters: int = 50) -> Ids:
        """Return the character ids of some words, those of Utf8Alphabet, (n, max_characters); the mark is <S>."""
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
