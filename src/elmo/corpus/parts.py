"""The text of a part -> a folder with its word ids, its distinct words and their counts -> a shard of the corpus.

Ids of a part count its own words from 1, those of a shard the words of the whole corpus; 0 is the mark before each
sentence. A shard is divided into blocks, which a trainer shuffles: whole sentences, marks included, of about
BLOCK_TOKENS tokens. Runs in worker processes, so it must not import torch.
"""

import json
import os
import shutil
import time
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo.corpus.settings import TextSettings
from elmo.corpus.text import PartText, cut_sentences, cut_words
from elmo.files.arrays import to_bytes, write_npy
from elmo.files.durable import FileRecord, sync, write_file
from elmo.files.work_folder import read_json
from elmo.files.workers import Report

IDS, WORDS, COUNTS, RECORD = "ids.bin", "words.txt", "counts.bin", "record.json"
SHARDS = "shards"
BLOCK_TOKENS = 2048
_SECONDS_BETWEEN_REPORTS = 0.5


@dataclass(frozen=True)
class PartRecord:
    """What a finished part holds; `identity` is the hash of the text and settings it was made of."""

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
    return parts / f"{number:05d}"


def read_part_record(parts: Path, number: int, identity: str) -> PartRecord | None:
    """Return the record of a finished part, or None if there is none, or one made of something else."""
    try:
        record = PartRecord(**(read_json(part_folder(parts, number) / RECORD) or {}))
    except TypeError:
        return None
    return record if record.identity == identity else None


def write_part(text: PartText, settings: TextSettings, parts: Path, identity: str, report: Report) -> PartRecord:
    """Tokenize a part and write its folder, complete or not at all; InputError names the line that is broken."""
    # Numbers are assigned in the order of appearance, at the speed of C.
    numbers: defaultdict[str, int] = defaultdict(count(1).__next__)
    ids = array("I")
    num_sentences = 0
    progress = _PartProgress(text, report)
    for sentence, share in cut_sentences(text, settings):
        num_before = len(ids)
        ids.append(0)
        for words in cut_words(sentence, settings):
            ids.extend(map(numbers.__getitem__, words))
        if len(ids) == num_before + 1:
            ids.pop()
        else:
            num_sentences += 1
        progress.update(len(ids) - num_sentences, share)
    words = sorted(numbers)  # by code point, which is also the order of the UTF-8 bytes
    rank = np.zeros(len(words) + 1, dtype=np.uint32)
    rank[np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))] = np.arange(1, len(words) + 1)
    del numbers
    sorted_ids = rank[np.frombuffer(ids, dtype=np.uint32)]
    counts = np.bincount(sorted_ids, minlength=len(words) + 1)[1:]
    record = PartRecord(
        identity, text.number, text.input_bytes, len(ids) - num_sentences, num_sentences, len(words)
    )

    folder = part_folder(parts, text.number)
    aside = folder.with_name(f"{folder.name}.new-{os.getpid()}")
    aside.mkdir()
    write_file(aside / IDS, [to_bytes(sorted_ids, "<u4")])
    write_file(aside / WORDS, _lines_of(words))
    write_file(aside / COUNTS, [to_bytes(counts, "<i8")])
    write_file(aside / RECORD, [json.dumps(asdict(record)).encode()])
    # This also fails if the process that wants the part is gone: then nothing is left behind.
    progress.finish(record.num_words)
    shutil.rmtree(folder, ignore_errors=True)
    aside.replace(folder)
    sync(parts)
    return record


def _lines_of(words: list[str]) -> Iterator[bytes]:
    for start in range(0, len(words), 1 << 16):
        yield "".join(f"{word}\n" for word in words[start : start + (1 << 16)]).encode("utf-8")


class _PartProgress:
    """Reports words and input bytes now and then."""

    def __init__(self, text: PartText, report: Report) -> None:
        self._text, self._report = text, report
        self._num_words = self._num_bytes = 0
        self._next = time.monotonic() + _SECONDS_BETWEEN_REPORTS

    def update(self, num_words: int, share: float) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _SECONDS_BETWEEN_REPORTS
            self._send(num_words, int(share * self._text.input_bytes))

    def finish(self, num_words: int) -> None:
        self._send(num_words, self._text.input_bytes)

    def _send(self, num_words: int, num_bytes: int) -> None:
        self._report(num_words - self._num_words, num_bytes - self._num_bytes)
        self._num_words, self._num_bytes = num_words, num_bytes


def tokens_name(number: int) -> str:
    """Return the name of the file of a shard's word ids inside the corpus folder."""
    return f"{SHARDS}/{number:05d}.npy"


def starts_name(number: int) -> str:
    """Return the name of the file of a shard's block starts inside the corpus folder."""
    return f"{SHARDS}/{number:05d}.starts.npy"


def write_shard(
    number: int, ids: Path, ranks: npt.NDArray[np.uint32], folder: Path, report: Report
) -> ShardRecord:
    """Write shard `number` of the corpus in `folder`, from the ids of a part and the ranks of its words."""
    lookup = np.zeros(len(ranks) + 1, dtype=np.uint32)  # 0, the mark, stays 0
    lookup[1:] = ranks
    lookup[1:] += 1
    tokens = lookup[np.fromfile(ids, dtype="<u4")]
    starts = find_starts(tokens)
    record = ShardRecord(
        number,
        len(tokens),
        len(starts),
        write_npy(folder / tokens_name(number), "<u4", len(tokens), [tokens]),
        write_npy(folder / starts_name(number), "<i8", len(starts), [starts]),
    )
    report(0, len(tokens))
    return record


def find_starts(tokens: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Return where blocks begin: at the first mark from each multiple of BLOCK_TOKENS on."""
    marks = np.flatnonzero(tokens == 0)
    next_marks = np.searchsorted(marks, np.arange(0, len(tokens), BLOCK_TOKENS))
    return np.unique(marks[next_marks[next_marks < len(marks)]])
