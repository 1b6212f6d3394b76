"""Word vectors of a batch -> the layers asked for at every word, both directions at the same time.

A direction reads its words in windows and passes its state on, so beside the result memory does not depend on
the length of a text.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from elmo.inference.layers import LayerChoice
from elmo.inference.packed_lstm import CompiledLstm, PackedLstm
from elmo.inference.padded_encoder import PaddedEncoder
from elmo.inference.precision import COMPILED_PRECISIONS, Precision
from elmo.inference.reading_order import Indices, ReadingOrder, cut_steps, order_reading
from elmo.inference.workers import Workers
from elmo.kernels.library import find_library
from elmo.nn.bilm import BiLMState, Encoder
from elmo.nn.projected_lstm import LstmStack
from elmo.nn.reading_state import ReadingState
from elmo.text.batch import CharBatch

WORDS_AT_ONCE = 8192  # at most; encoders with large states ask for fewer
# A torch step with fewer products than this is over sooner than two threads have agreed on who runs Python.
LEAST_PRODUCTS_FOR_TWO = 2**23
# All steps together, compiled: a tenth of a millisecond, about what it takes to wake a thread.
LEAST_COMPILED_PRODUCTS_FOR_TWO = 2**22
# Torch divides no operation on fewer values than this among threads (at::internal::GRAIN_SIZE).
VALUES_OF_ONE_THREAD = 2**15
# Sentences in a group of their own, where there are more cores than directions.
LEAST_ROWS_PER_GROUP = 8


class PackedEncoder(Protocol):
    """One direction; it reads words step by step, without padding."""

    num_weights: int
    uses_one_thread: bool  # the one that calls it
    words_at_once: int  # that it should read, for the memory they take

    def read(
        self,
        words: Tensor,
        sources: Indices,
        targets: Indices,
        counts: Indices,
        state: ReadingState | None,
        choice: LayerChoice,
        result: Tensor,
    ) -> ReadingState:
        """Read the packed rows `words[sources]` (N, D) in steps of `counts` rows, and return all rows' end states.

        The mixes of row i go to `result[targets[i]]`, (·, K, D). The state has at least as many rows as the first
        step; None starts from zero.
        """
        ...


def can_pack(encoder: Encoder, device: torch.device) -> bool:
    """Return whether a direction's weights can be laid out for the multiplications of a precision."""
    return isinstance(encoder, LstmStack) and device.type == "cpu"


def pack_encoder(module: Encoder, precision: Precision) -> PackedEncoder:
    """Lay out the weights of a direction, or take the module as it is where that cannot be done."""
    device = next(module.parameters()).device
    if not isinstance(module, LstmStack) or not can_pack(module, device):
        return PaddedEncoder(module)
    library = find_library() if precision in COMPILED_PRECISIONS else None
    return PackedLstm(module, precision) if library is None else CompiledLstm(module, precision, library)


class BidirectionalReader:
    """Runs both directions of a language model."""

    def __init__(
        self,
        left_to_right: PackedEncoder,
        right_to_left: PackedEncoder,
        zero_state: Callable[[int], BiLMState],
        workers: Workers,
    ) -> None:
        """`zero_state` gives the state of so many rows before anything was read."""
        self._encoders = (left_to_right, right_to_left)
        self._zero_state = zero_state
        self._workers = workers

    def read(
        self,
        words: Tensor,
        batch: CharBatch,
        choice: LayerChoice,
        num_read: Tensor,
        state: BiLMState | None,
        *,
        keep_state: bool = True,
    ) -> tuple[Tensor, BiLMState | None]:
        """Read the first `num_read` (B,) words from each side, given the distinct words' vectors (U, D).

        Returns (N, K, 2D), the sentences of the batch one after the other with their boundaries, K vectors per
        word; half of it is zero for words that were not read. And each row's state at its end, if it is to be
        kept.
        """
        lengths = batch.lengths.numpy()
        falling = np.argsort(-lengths, kind="stable")
        ends = np.cumsum(lengths)
        rows = _Rows(
            lengths=lengths[falling],
            num_read=num_read.numpy()[falling],
            first_words=(ends - lengths)[falling],
            word_index=batch.word_index.numpy()[falling],
        )
        make = torch.empty if bool((num_read == batch.lengths).all()) else torch.zeros
        result = make(int(ends[-1]), choice.num_vectors, 2, words.shape[1], device=words.device)
        if state is None and rows.num_read[-1] == 0:  # some rows, or all, are not read
            state = self._zero_state(len(lengths))
        before = (None, None) if state is None else _both(state.rows(torch.from_numpy(falling)))
        groups = self._cut_groups(len(lengths))
        words_at_once = min(WORDS_AT_ONCE, self._encoders[0].words_at_once)
        tasks = [
            functools.partial(
                _read_windows,
                self._encoders[side],
                _cut_windows(rows.take(group), words, words_at_once, from_right=side == 1),
                None if (known := before[side]) is None else known.rows(group),
                choice,
                result[:, :, side],
            )
            for side in (0, 1)
            for group in groups
        ]
        after = self._run(tasks, int(ends[-1]), len(lengths), words.shape[1])
        vectors = result.flatten(start_dim=2)
        if not keep_state:
            return vectors, None
        sides = [functools.reduce(_join, after[: len(groups)]), functools.reduce(_join, after[len(groups) :])]
        # Rows stand by group, and in a group by falling length.
        order = falling[np.concatenate([np.arange(len(lengths))[group] for group in groups])]
        return vectors, BiLMState(*sides).rows(torch.from_numpy(np.argsort(order)))

    def _cut_groups(self, num_rows: int) -> list[slice]:
        """Cut the sentences into groups of mixed lengths, so that every core has one of each direction."""
        num_groups = 1
        if self._encoders[0].uses_one_thread:
            num_groups = max(1, min(self._workers.num_workers // 2, num_rows // LEAST_ROWS_PER_GROUP))
        return [slice(first, None, num_groups) for first in range(num_groups)]

    def _run(
        self, tasks: Sequence[Callable[[], ReadingState]], num_words: int, num_rows: int, dim: int
    ) -> list[ReadingState]:
        encoder = self._encoders[0]
        if encoder.uses_one_thread:
            here = num_words * dim < VALUES_OF_ONE_THREAD
            if num_words * encoder.num_weights < LEAST_COMPILED_PRODUCTS_FOR_TWO:
                return self._workers.run([lambda: [task() for task in tasks]], first_here=here)[0]
            return self._workers.run(tasks, first_here=here)
        if num_rows * encoder.num_weights < LEAST_PRODUCTS_FOR_TWO:
            return self._workers.run([lambda: [task() for task in tasks]])[0]
        return self._workers.run(tasks)


@dataclass(frozen=True)
class _Rows:
    """The sentences of a batch by falling length: where each begins in the result, and its words."""

    lengths: Indices
    num_read: Indices
    first_words: Indices
    word_index: Indices

    def take(self, rows: slice) -> "_Rows":
        return _Rows(self.lengths[rows], self.num_read[rows], self.first_words[rows], self.word_index[rows])

    def order(self, *, from_right: bool) -> ReadingOrder:
        return order_reading(self.lengths, self.num_read, from_right=from_right)


@dataclass(frozen=True)
class _Window:
    """What one direction reads at a time: see PackedEncoder.read."""

    words: Tensor
    sources: Indices
    targets: Indices
    counts: Indices


def _cut_windows(rows: _Rows, words: Tensor, words_at_once: int, *, from_right: bool) -> Iterable[_Window]:
    order = rows.order(from_right=from_right)
    sources = rows.word_index[order.rows, order.positions]
    targets = rows.first_words[order.rows] + order.positions
    if len(sources) <= words_at_once:
        return [_Window(words, sources, targets, np.array(order.counts))]
    cuts = cut_steps(order.counts, words_at_once)
    return (_cut_window(words, sources[window], targets[window], counts) for window, counts in cuts)


def _cut_window(words: Tensor, sources: Indices, targets: Indices, counts: list[int]) -> _Window:
    """Take the words of one window: most words of a long text are in others."""
    used, places = np.unique(sources, return_inverse=True)
    return _Window(words[torch.from_numpy(used).to(words.device)], places, targets, np.array(counts))


def _read_windows(
    encoder: PackedEncoder,
    windows: Iterable[_Window],
    state: ReadingState | None,
    choice: LayerChoice,
    result: Tensor,
) -> ReadingState:
    """Fill one direction's half (N, K, D) of the result and return the state at the end."""
    for window in windows:
        state = encoder.read(window.words, window.sources, window.targets, window.counts, state, choice, result)
    assert state is not None  # where nothing is read, one was given
    return state


def _both(state: BiLMState) -> tuple[ReadingState, ReadingState]:
    return state.left_to_right, state.right_to_left


def _join(some: ReadingState, others: ReadingState) -> ReadingState:
    return some.join(others)
