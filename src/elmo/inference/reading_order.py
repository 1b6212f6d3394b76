"""The lengths of a batch's sentences -> the order in which each direction reads their words, step by step.

Step by step, so that the words of one step are neighbours: a product for all of them, and no padding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReadingOrder:
    """The words one direction reads: of all sentences the first one, then the second, and so on."""

    counts: list[int]  # of each step: how many sentences are that long; rows by falling length
    rows: Indices  # (N,): the row of the batch that a word stands in
    positions: Indices  # (N,): where in its sentence it stands, from the left


def cut_steps(counts: Sequence[int], words_at_once: int) -> Iterator[tuple[slice, list[int]]]:
    """Cut steps of so many words each into windows of at most `words_at_once`, but of at least one step."""
    start = num_words = 0
    window: list[int] = []
    for count in counts:
        if window and num_words + count > words_at_once:
            yield slice(start, start + num_words), window
            start, num_words, window = start + num_words, 0, []
        window.append(count)
        num_words += count
    if window:
        yield slice(start, start + num_words), window


def order_reading(lengths: Indices, num_read: Indices, *, from_right: bool) -> ReadingOrder:
    """Give the order for sentences of these lengths, of which `num_read` words are read; both fall by row."""
    steps, rows = np.nonzero(np.arange(num_read[0])[:, None] < num_read)
    counts = np.bincount(steps, minlength=num_read[0]).tolist()
    return ReadingOrder(counts, rows, lengths[rows] - 1 - steps if from_right else steps)
