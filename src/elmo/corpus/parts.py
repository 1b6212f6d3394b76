"""The text of a part -> its word ids, distinct words and counts -> the word table and the shards of a corpus.

Word ids of a part number its own words from 1, those of a shard the words of the whole corpus; id 0, BOS, precedes
each sentence. Sorted word lists are merged from disk in bounded memory, in several rounds if necessary to limit the
number of open files; each merged list has a map from its ranks to those of the result. Rows of the word table are
word ids: row 0 is BOS and has no bytes, words follow in code point order. A shard consists of blocks, the units that
a trainer shuffles: whole sentences, about BLOCK_TOKENS tokens. Runs in worker processes.
"""

import heapq
import json
import shutil
import time
from array import array
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain, count, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.corpus.settings import TextSettings
from elmo.corpus.text import PartText, cut_sentences, cut_words
from elmo.files.arrays import to_bytes, write_npy
from elmo.files.durable import FileRecord, atomic_write, write_file
from elmo.files.work_folder import read_json
from elmo.files.workers import ProgressCallback, Workers

# Files of a part or a merged list.
IDS, WORDS, COUNTS, RECORD = "ids.bin", "words.txt", "counts.bin", "record.json"
# Files of a corpus: UTF-8 words without separators, their offsets, their counts, their vocabulary ids.
BYTES, OFFSETS, TOTALS, TARGETS = "words.bin", "word_offsets.npy", "word_counts.npy", "word_targets.npy"
SHARDS = "shards"
BLOCK_TOKENS = 2048
LISTS_AT_ONCE = 64
_MERGED_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 1 << 24
_WORDS_AT_ONCE = 1 << 20
_LINE_FEED = 10
_SECONDS_BETWEEN_REPORTS = 0.5

Ranks = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class PartRecord:
    """Sizes of a finished part; `identity` is a hash of its text and settings."""

    identity: str
    number: int
    input_bytes: int
    num_words: int
    num_sentences: int
    num_distinct_words: int


@dataclass(frozen=True)
class ShardRecord:
    """The number, the size and the two files of a shard."""

    number: int
    num_tokens: int
    num_blocks: int
    tokens: FileRecord
    starts: FileRecord


def part_folder(parts: Path, number: int) -> Path:
    """Return the folder of a part."""
    return parts / f"part-{number:05d}"


def read_part_record(folder: Path, identity: str) -> PartRecord | None:
    """Return the record of a finished part; None if it is missing or has another identity."""
    try:
        record = PartRecord(**(read_json(folder / RECORD) or {}))
    except TypeError:
        return None
    return record if record.identity == identity else None


def write_part(
    text: PartText, settings: TextSettings, parts: Path, identity: str, report: ProgressCallback
) -> PartRecord:
    """Tokenize a part and write its folder, complete or not at all; InputError names the invalid line."""
    # Numbers are assigned in the order of appearance, at the speed of C.
    numbers: defaultdict[str, int] = defaultdict(count(1).__next__)
    ids = array("I")
    num_sentences = words_reported = bytes_reported = 0

    def report_progress(share: float) -> None:
        nonlocal words_reported, bytes_reported
        num_words, num_bytes = len(ids) - num_sentences, int(share * text.input_bytes)
        report(num_words - words_reported, num_bytes - bytes_reported)
        words_reported, bytes_reported = num_words, num_bytes

    next_report = time.monotonic() + _SECONDS_BETWEEN_REPORTS
    for sentence, share in cut_sentences(text, settings):
        num_before = len(ids)
        ids.append(0)
        for words in cut_words(sentence, settings):
            ids.extend(map(numbers.__getitem__, words))
        if len(ids) == num_before + 1:
            ids.pop()
        else:
            num_sentences += 1
        if time.monotonic() >= next_report:
            report_progress(share)
            next_report = time.monotonic() + _SECONDS_BETWEEN_REPORTS
    words = sorted(numbers)  # by code point, which is also the order of the UTF-8 bytes
    rank = np.zeros(len(words) + 1, dtype=np.uint32)
    rank[np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))] = np.arange(1, len(words) + 1)
    del numbers
    sorted_ids = rank[np.frombuffer(ids, dtype=np.uint32)]
    counts = np.bincount(sorted_ids, minlength=len(words) + 1)[1:]
    record = PartRecord(identity, text.number, text.input_bytes, len(ids) - num_sentences, num_sentences, len(words))

    folder = part_folder(parts, text.number)
    with atomic_write(folder) as new:
        new.mkdir()
        write_file(new / IDS, [to_bytes(sorted_ids, "<u4")])
        blocks = (words[start : start + _WORDS_AT_ONCE] for start in range(0, len(words), _WORDS_AT_ONCE))
        write_file(new / WORDS, ("".join(f"{word}\n" for word in block).encode("utf-8") for block in blocks))
        write_file(new / COUNTS, [to_bytes(counts, "<i8")])
        write_file(new / RECORD, [json.dumps(asdict(record)).encode()])
        # This also fails if the parent process is gone; then nothing is left behind.
        report_progress(1.0)
        shutil.rmtree(folder, ignore_errors=True)
    return record


def merge_all(parts: Sequence[Path], folder: Path, workers: Workers) -> Path:
    """Merge the lists of all parts, in rounds, in folders below `folder`; return the folder of the result."""
    shutil.rmtree(folder, ignore_errors=True)
    lists, round_number = list(parts), 0
    while round_number == 0 or len(lists) > 1:
        groups = [lists[start : start + LISTS_AT_ONCE] for start in range(0, len(lists), LISTS_AT_ONCE)]
        targets = [_merged_folder(folder, round_number, number) for number in range(len(groups))]
        calls = [(merge_lists, (group, target)) for group, target in zip(groups, targets, strict=True)]
        deque(workers.run(calls), maxlen=0)
        lists, round_number = targets, round_number + 1
    return lists[0]


def map_part(folder: Path, number: int, num_parts: int) -> Ranks:
    """Return the rank in the result of merge_all for each rank in part `number` of `num_parts`."""
    ranks: Ranks | None = None
    round_number = 0
    while round_number == 0 or num_parts > 1:
        group, position = divmod(number, LISTS_AT_ONCE)
        step = np.fromfile(_map_file(_merged_folder(folder, round_number, group), position), dtype="<u4")
        ranks = step if ranks is None else step[ranks]
        number, num_parts = group, -(-num_parts // LISTS_AT_ONCE)
        round_number += 1
    assert ranks is not None
    return ranks


def _merged_folder(folder: Path, round_number: int, group: int) -> Path:
    return folder / f"{round_number}-{group:05d}"


def _map_file(folder: Path, position: int) -> Path:
    return folder / f"map-{position:02d}.bin"


def merge_lists(sources: Sequence[Path], target: Path, _report: ProgressCallback | None = None) -> None:
    """Merge sorted lists, each a folder with words and counts, into the folder `target`; write their maps."""
    target.mkdir(parents=True)
    with ExitStack() as stack:
        words_file = stack.enter_context((target / WORDS).open("wb"))
        counts_file = stack.enter_context((target / COUNTS).open("wb"))
        map_files = [stack.enter_context(_map_file(target, position).open("wb")) for position in range(len(sources))]
        streams = [_entries(folder, position) for position, folder in enumerate(sources)]
        groups = groupby(heapq.merge(*streams), key=itemgetter(0))
        num_words = 0
        while block := list(map(_sum_up, islice(groups, _MERGED_AT_ONCE))):
            words_file.writelines(word + b"\n" for word, _, _ in block)
            array("q", [total for _, total, _ in block]).tofile(counts_file)
            maps = [array("I") for _ in sources]
            for rank, (_, _, positions) in enumerate(block, start=num_words):
                for position in positions:
                    maps[position].append(rank)
            for file, ranks in zip(map_files, maps, strict=True):
                ranks.tofile(file)
            num_words += len(block)


def _sum_up(group: tuple[bytes, Iterator[tuple[bytes, int, int]]]) -> tuple[bytes, int, list[int]]:
    """Return a word, how often it occurs in all lists, and the positions of the lists that have it."""
    word, entries = group
    _, positions, counts = zip(*entries, strict=True)
    return word, sum(counts), list(positions)


def _entries(folder: Path, position: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield each word of a list with the position of the list and the count of the word."""
    with (folder / WORDS).open("rb", buffering=1 << 18) as words, (folder / COUNTS).open("rb") as counts:
        while block := counts.read(8 << 13):
            for count, line in zip(array("q", block), words, strict=False):
                yield line[:-1], position, count


def write_shard(
    number: int,
    part: int,
    parts: Path,
    merged: Path,
    num_parts: int,
    folder: Path,
    _report: ProgressCallback | None = None,
) -> ShardRecord:
    """Write shard `number` of the corpus in `folder`, from the ids of part number `part` and the merged lists."""
    ranks = map_part(merged, part, num_parts)
    lookup = np.zeros(len(ranks) + 1, dtype=np.uint32)  # 0, the BOS id, stays 0
    lookup[1:] = ranks
    lookup[1:] += 1
    tokens = lookup[np.fromfile(part_folder(parts, part) / IDS, dtype="<u4")]
    starts = find_starts(tokens)
    token_file = write_npy(folder / tokens_name(number), "<u4", len(tokens), [tokens])
    start_file = write_npy(folder / starts_name(number), "<i8", len(starts), [starts])
    return ShardRecord(number, len(tokens), len(starts), token_file, start_file)


def tokens_name(number: int) -> str:
    """Return the name of the file of a shard's word ids inside the corpus folder."""
    return f"{SHARDS}/{number:05d}.npy"


def starts_name(number: int) -> str:
    """Return the name of the file of a shard's block starts inside the corpus folder."""
    return f"{SHARDS}/{number:05d}.starts.npy"


def find_starts(tokens: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Return the starts of blocks: the first BOS at or after each multiple of BLOCK_TOKENS."""
    sentences = np.flatnonzero(tokens == 0)
    following = np.searchsorted(sentences, np.arange(0, len(tokens), BLOCK_TOKENS))
    return np.unique(sentences[following[following < len(sentences)]])


def write_words(merged: Path, folder: Path, num_sentences: int) -> dict[str, FileRecord]:
    """Write the bytes, offsets and counts of the words listed in the folder `merged`."""
    counts = np.memmap(merged / COUNTS, dtype="<i8", mode="r")
    num_rows = len(counts) + 1
    words = merged / WORDS
    return {
        BYTES: write_file(folder / BYTES, (block[block != _LINE_FEED].tobytes() for block in _blocks(words))),
        OFFSETS: write_npy(folder / OFFSETS, "<i8", num_rows + 1, _offsets(words)),
        TOTALS: write_npy(folder / TOTALS, "<i8", num_rows, [np.array([num_sentences]), counts]),
    }


def write_targets(merged: Path, folder: Path, vocabulary: Sequence[str]) -> tuple[FileRecord, int]:
    """Write the vocabulary id of each row; also return the number of unknown words in the corpus.

    BOS gets the id of <S>. Words spelled like special tokens are unknown.
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
            while word_targets := [ids.get(line[:-1], unknown) for line in islice(lines, _WORDS_AT_ONCE)]:
                targets = np.array(word_targets, dtype=np.uint32)
                num_unknown += int(counts[num_done : num_done + len(word_targets)][targets == unknown].sum())
                num_done += len(word_targets)
                yield targets

    record = write_npy(folder / TARGETS, "<u4", len(counts) + 1, chain([np.array([begin])], look_up()))
    return record, num_unknown


def _blocks(path: Path) -> Iterator[npt.NDArray[np.uint8]]:
    with path.open("rb") as file:
        while block := file.read(_BYTES_AT_ONCE):
            yield np.frombuffer(block, dtype=np.uint8)


def _offsets(words: Path) -> Iterator[npt.NDArray[Any]]:
    yield np.zeros(2, dtype=np.int64)  # start of BOS, and its end, which is the start of the first word
    num_bytes = num_words = 0
    for block in _blocks(words):
        ends = np.flatnonzero(block == _LINE_FEED)
        # words.bin omits the line feed of each preceding word.
        yield num_bytes + ends - np.arange(num_words, num_words + len(ends))
        num_bytes += len(block)
        num_words += len(ends)


def most_frequent(
    counts: npt.NDArray[np.int64], *, size: int | None = None, min_count: int = 1
) -> npt.NDArray[np.int64]:
    """Return the rows of the highest counts, highest first, without row 0 (the BOS id), in bounded memory."""
    best = np.zeros(0, dtype=np.int64)
    for start in range(1, len(counts), _WORDS_AT_ONCE):
        block = counts[start : start + _WORDS_AT_ONCE]
        rows = np.concatenate([best, start + np.flatnonzero(block >= min_count)])
        best = rows[np.lexsort((rows, -counts[rows]))][:size]
    return best
