"""The ids of one part -> a shard: ids of the whole corpus, and where its blocks begin.

A block is what a trainer shuffles: whole sentences, marks included, of about BLOCK_TOKENS tokens.
Runs in worker processes, so it must import no torch.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo.corpus.part_words import IDS, part_folder
from elmo.corpus.word_lists import map_part
from elmo.corpus.workers import Report
from elmo.files.arrays import write_npy
from elmo.files.durable import FileRecord

SHARDS = "shards"
BLOCK_TOKENS = 2048


@dataclass(frozen=True)
class ShardRecord:
    """What is known of a shard: its number, its size and its two files."""

    number: int
    num_tokens: int
    num_blocks: int
    tokens: FileRecord
    starts: FileRecord


def tokens_name(number: int) -> str:
    """Say what the file of a shard's word ids is called inside the corpus folder."""
    return f"{SHARDS}/{number:05d}.npy"


def starts_name(number: int) -> str:
    """Say what the file of a shard's block starts is called inside the corpus folder."""
    return f"{SHARDS}/{number:05d}.starts.npy"


def write_shard(
    number: int, part: int, parts: Path, merged: Path, num_parts: int, folder: Path, report: Report
) -> ShardRecord:
    """Write shard `number` of the corpus in `folder`, made of part `part`."""
    ids = np.fromfile(part_folder(parts, part) / IDS, dtype="<u4")
    ranks = map_part(merged, part, num_parts)
    lookup = np.zeros(len(ranks) + 1, dtype=np.uint32)  # 0, the mark, stays 0
    lookup[1:] = ranks
    lookup[1:] += 1
    tokens = lookup[ids]
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
    """Give where blocks begin: at the first mark from each multiple of BLOCK_TOKENS on."""
    marks = np.flatnonzero(tokens == 0)
    next_marks = np.searchsorted(marks, np.arange(0, len(tokens), BLOCK_TOKENS))
    return np.unique(marks[next_marks[next_marks < len(marks)]])
