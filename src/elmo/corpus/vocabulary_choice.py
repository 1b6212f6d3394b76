"""Counts of the distinct words -> the vocabulary: the special words, then words by falling frequency.

Words of equal frequency follow by code point, so the same text gives the same vocabulary. The order matters:
the sampled softmax takes rows near the top most often.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo.corpus.settings import (
    DEFAULT_VOCABULARY_SIZE,
    SPECIAL_WORDS,
    PrepareSettings,
    read_vocabulary,
)
from elmo.corpus.word_table import TOTALS, WordTable
from elmo.errors import InputError

_ROWS_AT_ONCE = 1 << 20


def choose_vocabulary(folder: Path, settings: PrepareSettings) -> list[str]:
    """Give the words of the vocabulary in order, for the word table in `folder`."""
    if settings.vocabulary is not None:
        return read_vocabulary(settings.vocabulary)
    counts = np.load(folder / TOTALS, mmap_mode="r")
    if settings.min_count is not None:
        size = None
        rows = most_frequent(counts, min_count=settings.min_count)
    else:
        size = settings.vocabulary_size or DEFAULT_VOCABULARY_SIZE
        # As many as are wanted are left if words of the text are spelled like the special ones.
        rows = most_frequent(counts, size=size)
    words = [word for word in WordTable(folder).words(rows) if word not in SPECIAL_WORDS]
    if not words:
        raise InputError(f"No word occurs {settings.min_count} times; choose a lower min_count.")
    return [*SPECIAL_WORDS, *words][:size]


def most_frequent(
    counts: npt.NDArray[np.int64], *, size: int | None = None, min_count: int = 1
) -> npt.NDArray[np.int64]:
    """Give the rows of the highest counts, best first, row 0 (the mark) left out; memory grows with the result."""
    best = np.zeros(0, dtype=np.int64)
    for start in range(1, len(counts), _ROWS_AT_ONCE):
        block = counts[start : start + _ROWS_AT_ONCE]
        rows = np.concatenate([best, start + np.flatnonzero(block >= min_count)])
        best = rows[np.lexsort((rows, -counts[rows]))][:size]
    return best
