"""The text of one part -> a folder with its word ids, its distinct words in order, and their counts.

Runs in worker processes, so it must import no torch. Ids count the part's own words from 1; 0 is the mark
before each sentence. The folder appears whole or not at all.
"""

import json
import os
import shutil
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import numpy as np

from elmo.corpus.settings import PrepareSettings
from elmo.corpus.text import PartText, cut_sentences, cut_words
from elmo.files.arrays import to_bytes
from elmo.files.durable import sync, write_file

Report = Callable[[int, int], None]  # words and input bytes done since the last call

IDS, WORDS, COUNTS, RECORD = "ids.bin", "words.txt", "counts.bin", "record.json"
_SECONDS_BETWEEN_REPORTS = 0.5


@dataclass(frozen=True)
class PartRecord:
    """What a finished part holds, and of which text and settings it was made."""

    identity: str
    number: int
    input_bytes: int
    num_words: int
    num_sentences: int
    num_distinct_words: int


def part_folder(parts: Path, number: int) -> Path:
    """Say where a part lies."""
    return parts / f"{number:05d}"


def read_part_record(parts: Path, number: int, identity: str) -> PartRecord | None:
    """Give the record of a finished part, or None if there is none, or one made of something else."""
    try:
        record = PartRecord(**json.loads((part_folder(parts, number) / RECORD).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return record if record.identity == identity else None


def write_part(
    text: PartText, settings: PrepareSettings, parts: Path, identity: str, report: Report
) -> PartRecord:
    """Make one part of its text and write it; InputError names the line that cannot be read."""
    # Numbers are handed out in the order of appearance, at the speed of C.
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
        progress.tell(len(ids) - num_sentences, share)
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
    # The last report also fails if the process that wanted the part is gone: then nothing is left behind.
    progress.finish(record.num_words)
    shutil.rmtree(folder, ignore_errors=True)
    aside.replace(folder)
    sync(parts)
    return record


def _lines_of(words: list[str]) -> Iterator[bytes]:
    for start in range(0, len(words), 1 << 16):
        yield "".join(f"{word}\n" for word in words[start : start + (1 << 16)]).encode("utf-8")


class _PartProgress:
    """Turns what was done so far into reports now and then."""

    def __init__(self, text: PartText, report: Report) -> None:
        self._text, self._report = text, report
        self._told_words = self._told_bytes = 0
        self._next = time.monotonic() + _SECONDS_BETWEEN_REPORTS

    def tell(self, num_words: int, share: float) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _SECONDS_BETWEEN_REPORTS
            self._send(num_words, int(share * self._text.input_bytes))

    def finish(self, num_words: int) -> None:
        self._send(num_words, self._text.input_bytes)

    def _send(self, num_words: int, num_bytes: int) -> None:
        self._report(num_words - self._told_words, num_bytes - self._told_bytes)
        self._told_words, self._told_bytes = num_words, num_bytes
