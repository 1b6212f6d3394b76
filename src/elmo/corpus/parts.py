"""Convert the text of parts to word ids, and write the word table and the shards of a corpus.

Part ids number the words of one part from 1; shard ids number the words of the whole corpus. Id 0, BOS, precedes each
sentence. A shard id is a row of the word table: row 0 is BOS and has no bytes, and words follow in code point order.
A shard consists of blocks, which the trainer shuffles: whole sentences, about BLOCK_TOKENS tokens.
"""

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.corpus.prepared import (
    BOS_ID,
    BYTES,
    OFFSETS,
    TARGETS,
    TOTALS,
    VOCABULARY,
    starts_name,
    tokens_name,
)
from elmo.corpus.rows import Part
from elmo.corpus.settings import DEFAULT_VOCABULARY_SIZE, SPECIAL_WORDS, PrepareSettings, read_vocabulary
from elmo.corpus.text import cut_words
from elmo.errors import InputError
from elmo.files.arrays import write_npy
from elmo.files.durable import atomic_write, remove
from elmo.files.work_folder import record_file
from elmo.text.vocabulary import format_lines

IDS, WORDS, RECORD = "ids.bin", "words.txt", "record.json"  # the files of a part
BLOCK_TOKENS = 2048


@dataclass(frozen=True)
class PartRecord:
    """The sizes of a finished part; `identity` is the hash of its text and settings."""

    identity: str
    number: int
    input_bytes: int
    num_words: int
    num_sentences: int


def part_folder(work: Path, number: int) -> Path:
    """Return the folder of a part."""
    return work / f"part-{number:05d}"


def write_part(part: Part, settings: PrepareSettings, work: Path, identity: str) -> PartRecord:
    """Tokenize a part and write its folder atomically. Runs in worker processes."""
    # Ids are assigned in order of appearance; this form runs at the speed of C.
    numbers: defaultdict[str, int] = defaultdict(count(1).__next__)
    ids = array("I")
    num_sentences = 0
    for words in cut_words(part, settings):
        ids.append(BOS_ID)
        ids.extend(map(numbers.__getitem__, words))
        num_sentences += 1
    record = PartRecord(identity, part.number, part.input_bytes, len(ids) - num_sentences, num_sentences)

    folder = part_folder(work, part.number)
    with atomic_write(folder) as new:
        new.mkdir()
        (new / IDS).write_bytes(ids.tobytes())
        (new / WORDS).write_bytes("".join(f"{word}\n" for word in numbers).encode())
        (new / RECORD).write_bytes(json.dumps(asdict(record)).encode())
        remove(folder)
    return record


def _read_part(folder: Path) -> tuple[npt.NDArray[np.uint32], list[bytes]]:
    return np.fromfile(folder / IDS, np.uint32), (folder / WORDS).read_bytes().split(b"\n")[:-1]


def count_words(parts: Iterable[Path]) -> dict[bytes, int]:
    """Return how often each word occurs in all parts, in the order of the word table."""
    counts: defaultdict[bytes, int] = defaultdict(int)
    for folder in parts:
        ids, words = _read_part(folder)
        for word, number in zip(words, np.bincount(ids, minlength=len(words) + 1)[1:].tolist(), strict=True):
            counts[word] += number
    return {word: counts[word] for word in sorted(counts)}


def choose_vocabulary(counts: Mapping[bytes, int], settings: PrepareSettings) -> list[str]:
    """Return the vocabulary: the special words, then words by descending frequency, as the sampled softmax expects.

    Words of equal frequency are sorted by code point, so the same text gives the same vocabulary.
    """
    if settings.vocabulary is not None:
        return read_vocabulary(settings.vocabulary)
    size = None if settings.min_count is not None else settings.vocabulary_size or DEFAULT_VOCABULARY_SIZE
    frequent = (word for word in counts if counts[word] >= (settings.min_count or 1))
    # `size` words are enough, even if some words of the text are spelled like special words.
    words = [word.decode() for word in sorted(frequent, key=counts.__getitem__, reverse=True)[:size]]
    ordinary = [word for word in words if word not in SPECIAL_WORDS]
    if not ordinary:
        raise InputError(f"No word occurs {settings.min_count} times; choose a lower min_count.")
    return [*SPECIAL_WORDS, *ordinary][:size]


def write_table(
    counts: Mapping[bytes, int], num_sentences: int, vocabulary: Sequence[str], folder: Path
) -> tuple[dict[str, dict[str, Any]], int]:
    """Write the vocabulary and the word table; return the file records and the number of unknown words in the corpus.

    BOS gets the vocabulary id of <S>. Words spelled like special words are unknown.
    """
    begin, unknown = vocabulary.index("<S>"), vocabulary.index("<UNK>")
    ids = {word.encode(): number for number, word in enumerate(vocabulary) if word not in SPECIAL_WORDS}
    targets = np.array([begin, *(ids.get(word, unknown) for word in counts)])
    totals = np.array([num_sentences, *counts.values()])
    files = {
        VOCABULARY: _write_bytes(folder / VOCABULARY, format_lines(vocabulary)),
        BYTES: _write_bytes(folder / BYTES, b"".join(counts)),
        OFFSETS: _write_array(folder / OFFSETS, np.cumsum([0, 0, *map(len, counts)]), "<i8"),
        TOTALS: _write_array(folder / TOTALS, totals, "<i8"),
        TARGETS: _write_array(folder / TARGETS, targets, "<u4"),
    }
    return files, int(totals[1:][targets[1:] == unknown].sum())


def write_shard(number: int, part: Path, rows: Mapping[bytes, int], folder: Path) -> dict[str, Any]:
    """Write shard `number` of the corpus in `folder` from the text of a part; return its entry in the manifest."""
    ids, words = _read_part(part)
    row_of_id = np.fromiter(chain([BOS_ID], map(rows.__getitem__, words)), np.uint32, len(words) + 1)
    tokens = row_of_id[ids]
    starts = find_starts(tokens)
    return {
        "number": number,
        "num_tokens": len(tokens),
        "num_blocks": len(starts),
        "tokens": _write_array(folder / tokens_name(number), tokens, "<u4"),
        "starts": _write_array(folder / starts_name(number), starts, "<i8"),
    }


def find_starts(tokens: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Return the starts of blocks: the first BOS at or after each multiple of BLOCK_TOKENS."""
    sentences = np.flatnonzero(tokens == BOS_ID)
    following = np.searchsorted(sentences, np.arange(0, len(tokens), BLOCK_TOKENS))
    return np.unique(sentences[following[following < len(sentences)]])


def _write_bytes(path: Path, content: bytes) -> dict[str, Any]:
    path.write_bytes(content)
    return record_file(path)


def _write_array(path: Path, array: npt.NDArray[Any], dtype: str) -> dict[str, Any]:
    write_npy(path, array.astype(dtype))
    return record_file(path)
