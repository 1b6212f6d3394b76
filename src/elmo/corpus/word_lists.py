"""Sorted word lists of all parts -> one sorted list with summed counts, merged from disk in bounded memory.

Of each merged list a map is kept: rank there -> rank in the result. Many lists are merged in several rounds,
so that few files are open at a time. Runs in worker processes, so it must import no torch.
"""

import heapq
import shutil
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo.corpus.part_words import COUNTS, WORDS
from elmo.corpus.workers import Report, Workers

LISTS_AT_ONCE = 64
_WORDS_AT_ONCE = 1 << 17

Ranks = npt.NDArray[np.uint32]


def merge_all(parts: Sequence[Path], folder: Path, workers: Workers, report: Report) -> Path:
    """Merge the lists of all parts in rounds of folders below `folder`; give the folder of the result."""
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
    """Give the rank in the result of merge_all for each rank in part `number` of `num_parts`."""
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
    if path.stat().st_size == 0:  # a part without a word; nothing can be mapped from an empty file
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
                if num_entries >= _WORDS_AT_ONCE:
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
    """Give each word of a list with the position of the list and the word's count."""
    with (folder / WORDS).open("rb", buffering=1 << 18) as words, (folder / COUNTS).open("rb") as counts:
        while block := counts.read(8 << 13):
            for count, line in zip(array("q", block), words, strict=False):
                yield line[:-1], position, count
