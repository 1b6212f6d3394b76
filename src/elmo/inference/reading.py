"""Word vectors of a batch -> the layers asked for at every word, both directions at the same time.

A direction reads its words step by step, of all sentences the first one, then the second, and so on: the words
of a step are one matrix multiplication, and nothing is padded. It reads in windows and passes its state on, so
memory beyond the result does not depend on the length of a text.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.inference.layers import LayerChoice
from elmo.inference.workers import Workers
from elmo.nn.bilm import BiLMState, Encoder
from elmo.nn.reading_state import ReadingState
from elmo.text.batch import CharBatch

Indices = npt.NDArray[np.int64]

WORDS_AT_ONCE = 8192  # at most; encoders with large states ask for fewer
# A torch step with fewer multiplications than this ends sooner than two threads agree on who runs Python.
LEAST_PRODUCTS_FOR_TWO = 2**23
# All steps together, compiled: some hundredths of a millisecond, about what it takes to wake a thread.
LEAST_COMPILED_PRODUCTS_FOR_TWO = 2**22
# Sentences per group where there are more cores than directions.
LEAST_ROWS_PER_GROUP = 8


@dataclass(frozen=True)
class Window:
    """What one direction reads at a time: the packed rows `words[sources]` (N, D) in steps of `counts` rows.

    Row i writes `result[targets[i]]`. Counts never rise.
    """

    words: Tensor
    sources: Indices
    targets: Indices
    counts: Indices


class PackedEncoder(Protocol):
    """One direction of the language model without gradients."""

    num_weights: int
    uses_one_thread: bool  # the one that calls it
    words_at_once: int  # that it should read, for the memory they take

    def read(
        self, window: Window, state: ReadingState | None, choice: LayerChoice, result: Tensor
    ) -> ReadingState:
        """Write the mixes of each packed row to `result` (·, K, D) and return all rows' end states.

        The state has at least as many rows as the first step; None starts from zero.
        """
        ...


@runtime_checkable
class CompiledEncoder(PackedEncoder, Protocol):
    """One direction in the compiled library, which can read both directions in one call."""

    has_helper: bool  # the library has a thread for the other direction

    def read_sentence_beside(
        self, other: PackedEncoder, words: Tensor, places: Tensor, choice: LayerChoice, *, alone: bool
    ) -> Tensor:
        """Return the mixes (T, K, 2D) of one sentence `words[places]`, read from zero with both directions."""
        ...

    def read_beside(
        self,
        other: PackedEncoder,
        windows: Sequence[Window],
        states: Sequence[ReadingState | None],
        choice: LayerChoice,
        results: Sequence[Tensor],
        *,
        alone: bool,
        keep_state: bool,
    ) -> Sequence[ReadingState] | None:
        """Do what `read` does for this direction and the other, one after the other if `alone`.

        Returns the states at the end, which may be None if they are not to be kept.
        """
        ...


class PaddedEncoder:
    """Any direction on any device: pads packed rows, runs the module itself in float32, and packs its outputs."""

    uses_one_thread = False
    words_at_once = 2048

    def __init__(self, module: Encoder) -> None:
        self._module = module
        self.num_weights = sum(parameter.numel() for parameter in module.parameters())

    def read(
        self, window: Window, state: ReadingState | None, choice: LayerChoice, result: Tensor
    ) -> ReadingState:
        """Read packed rows; see PackedEncoder."""
        device, counts = window.words.device, window.counts
        inputs = window.words[torch.from_numpy(window.sources).to(device)]
        state = self._module.zero_state(int(counts[0])) if state is None else state
        steps = torch.from_numpy(np.repeat(np.arange(len(counts)), counts)).to(device)
        rows = torch.from_numpy(np.concatenate([np.arange(count) for count in counts])).to(device)
        padded = inputs.new_zeros(state.num_rows, len(counts), inputs.shape[1])
        padded[rows, steps] = inputs
        lengths = [int((counts > row).sum()) for row in range(state.num_rows)]
        outputs, state = self._module(padded, lengths, state)
        mixed = choice.mix([inputs, *(layer[rows, steps] for layer in outputs)])
        result[torch.from_numpy(window.targets).to(device)] = mixed
        return state


class BidirectionalReader:
    """Runs both directions of a language model."""

    def __init__(
        self,
        left_to_right: PackedEncoder,
        right_to_left: PackedEncoder,
        zero_state: Callable[[int], BiLMState],
        workers: Workers,
    ) -> None:
        """`zero_state` returns the state of a number of rows before anything was read."""
        self._encoders = (left_to_right, right_to_left)
        self._compiled: CompiledEncoder | None = None
        if isinstance(left_to_right, CompiledEncoder) and left_to_right.has_helper:
            self._compiled = left_to_right
        self._words_at_once = min(WORDS_AT_ONCE, left_to_right.words_at_once)
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
        word, zero in the half of a direction that did not read the word; and each row's state at its end, if it is
        to be kept.
        """
        places, compiled = batch.word_index, self._compiled
        whole = num_read is batch.lengths and state is None and not keep_state
        if compiled is not None and whole and len(places) == 1 and places.shape[1] <= self._words_at_once:
            alone = self._reads_alone(places.shape[1])
            return compiled.read_sentence_beside(self._encoders[1], words, places, choice, alone=alone), None
        lengths, read = batch.lengths.numpy(), num_read.numpy()
        num_words, num_rows = int(lengths.sum()), len(lengths)
        make = torch.empty if num_read is batch.lengths else torch.zeros
        result = make(num_words, choice.num_vectors, 2, words.shape[1], device=words.device)
        if state is None and read.min() == 0:  # some rows, or all, are not read
            state = self._zero_state(num_rows)
        groups = self._group_rows(lengths)
        word_index, starts = batch.word_index.numpy(), np.cumsum(lengths) - lengths
        parts: list[tuple[int, Indices, Window]] = []  # side, rows, what they read
        for side in range(len(self._encoders)):
            for rows in groups:
                order = order_reading(lengths[rows], read[rows], from_right=side == 1)
                sources = word_index[rows[order.rows], order.positions]
                targets = starts[rows[order.rows]] + order.positions
                parts.append((side, rows, Window(words, sources, targets, order.counts)))
        after = self._read_parts(parts, choice, result, num_rows, state, keep_state=keep_state)
        vectors = result.flatten(start_dim=2)
        if not keep_state or after is None:
            return vectors, None
        sides = [functools.reduce(_join, after[: len(groups)]), functools.reduce(_join, after[len(groups) :])]
        order_of_rows = np.argsort(np.concatenate(groups))
        return vectors, BiLMState(*sides).rows(torch.from_numpy(order_of_rows))

    def _read_parts(
        self,
        parts: Sequence[tuple[int, Indices, Window]],
        choice: LayerChoice,
        result: Tensor,
        num_rows: int,
        state: BiLMState | None,
        *,
        keep_state: bool,
    ) -> Sequence[ReadingState] | None:
        """Let each side read its rows, all at the same time, and return their states at the end, if kept."""
        befores = [
            None
            if state is None
            else (state.left_to_right, state.right_to_left)[side].rows(torch.from_numpy(rows))
            for side, rows, _ in parts
        ]
        if self._compiled is not None and len(parts) == 2 and len(result) <= self._words_at_once:
            return self._compiled.read_beside(
                self._encoders[1],
                [window for _, _, window in parts],
                befores,
                choice,
                [result[:, :, side] for side, _, _ in parts],
                alone=self._reads_alone(len(result)),
                keep_state=keep_state,
            )
        tasks = [
            functools.partial(
                _read_windows,
                self._encoders[side],
                cut_windows(window, self._words_at_once),
                before,
                choice,
                result[:, :, side],
            )
            for (side, _, window), before in zip(parts, befores, strict=True)
        ]
        return self._run(tasks, len(result), num_rows)

    def _reads_alone(self, num_words: int) -> bool:
        small = num_words * self._encoders[0].num_weights < LEAST_COMPILED_PRODUCTS_FOR_TWO
        return small or self._workers.num_workers == 1

    def _group_rows(self, lengths: Indices) -> list[Indices]:
        """Return groups of rows of mixed lengths, each by falling length, so that every core has work."""
        falling = np.argsort(-lengths, kind="stable")
        num_groups = self._count_groups(len(lengths))
        return [falling[first::num_groups] for first in range(num_groups)]

    def _count_groups(self, num_rows: int) -> int:
        """Return into how many groups of mixed lengths to cut the sentences, so that every core has work."""
        if not self._encoders[0].uses_one_thread:
            return 1
        return max(1, min(self._workers.num_workers // 2, num_rows // LEAST_ROWS_PER_GROUP))

    def _run(
        self, tasks: Sequence[Callable[[], ReadingState]], num_words: int, num_rows: int
    ) -> list[ReadingState]:
        encoder = self._encoders[0]
        if encoder.uses_one_thread:
            small = self._reads_alone(num_words)
        else:
            small = num_rows * encoder.num_weights < LEAST_PRODUCTS_FOR_TWO
        if small:
            return self._workers.run([lambda: [task() for task in tasks]])[0]
        return self._workers.run(tasks)


@dataclass(frozen=True)
class ReadingOrder:
    """The words one direction reads, step by step."""

    counts: Indices  # of each step: how many sentences are that long; rows by falling length
    rows: Indices  # (N,): the row of the batch that a word stands in
    positions: Indices  # (N,): where in its sentence it stands, from the left


def order_reading(lengths: Indices, num_read: Indices, *, from_right: bool) -> ReadingOrder:
    """Return the order for sentences of these lengths, of which `num_read` words are read; both fall by row."""
    if len(lengths) == 1:
        steps = np.arange(num_read[0])
        rows, counts = np.zeros_like(steps), np.ones_like(steps)
    else:
        steps, rows = np.nonzero(np.arange(num_read[0])[:, None] < num_read)
        counts = np.bincount(steps, minlength=num_read[0])
    return ReadingOrder(counts, rows, lengths[rows] - 1 - steps if from_right else steps)


def cut_windows(window: Window, words_at_once: int) -> Iterable[Window]:
    """Cut what a direction reads into windows of about `words_at_once` words, each with the words it needs."""
    if len(window.sources) <= words_at_once:
        return [window]
    return (
        _cut_window(window.words, window.sources[rows], window.targets[rows], steps)
        for rows, steps in cut_steps(window.counts.tolist(), words_at_once)
    )


def cut_steps(counts: Sequence[int], words_at_once: int) -> Iterator[tuple[slice, list[int]]]:
    """Cut steps of `counts` words into windows of at most `words_at_once`, but of at least one step."""
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


def _cut_window(words: Tensor, sources: Indices, targets: Indices, counts: list[int]) -> Window:
    """Take the words of one window: most words of a long text are in others."""
    used, places = np.unique(sources, return_inverse=True)
    return Window(words[torch.from_numpy(used).to(words.device)], places, targets, np.array(counts))


def _read_windows(
    encoder: PackedEncoder,
    windows: Iterable[Window],
    state: ReadingState | None,
    choice: LayerChoice,
    result: Tensor,
) -> ReadingState:
    """Fill one direction's half (N, K, D) of the result and return the state at the end."""
    for window in windows:
        state = encoder.read(window, state, choice, result)
    assert state is not None  # where nothing is read, one was given
    return state


def _join(some: ReadingState, others: ReadingState) -> ReadingState:
    return some.join(others)
