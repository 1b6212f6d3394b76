"""Run both directions of the language model over a batch in parallel: word vectors -> the requested layers.

A direction runs step by step: over the first words of all sentences, then the second words, and so on. The words of a
step are one matrix multiplication, without padding. Long texts are run in windows, with the state passed from one to
the next, so memory beyond the result does not depend on the length of a text.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.config import EncoderConfig
from elmo.inference.words import take
from elmo.inference.workers import Workers
from elmo.kernels.lstm import (
    LONGEST_SENTENCE,
    CompiledStack,
    LayerWeights,
    LstmState,
    Stack,
    Window,
    cut_steps,
    forward_directions,
    forward_sentence,
    pack_stack,
)
from elmo.text.batch import CharBatch

Array = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]

WORDS_AT_ONCE = LONGEST_SENTENCE  # the maximum; encoders with large states run over fewer
# Fewer multiplications take one thread less time than waking a second one, some hundredths of a millisecond.
MIN_PRODUCTS_FOR_TWO_THREADS = 2**22
# Sentences per group, if there are threads for more than one group per direction.
MIN_ROWS_PER_GROUP = 8


class BidirectionalEncoder:
    """Both directions of an LSTM language model."""

    def __init__(self, config: EncoderConfig, weights: Mapping[str, Any], workers: Workers, *, int8: bool) -> None:

        def pack(side: str) -> Stack:
            return pack_stack(read_layers(config, weights, side), residual=config.residual, int8=int8)

        self._stacks: Sequence[Stack] = workers.run(
            [functools.partial(pack, side) for side in ("left_to_right", "right_to_left")]
        )
        first, second = self._stacks
        self._compiled: tuple[CompiledStack, CompiledStack] | None = None
        if isinstance(first, CompiledStack) and isinstance(second, CompiledStack) and first.library.has_helper:
            self._compiled = first, second
        self._words_at_once = min(WORDS_AT_ONCE, first.words_at_once)
        products_per_cell = 8 * config.output_dim + config.projected * config.output_dim
        self._num_weights = config.num_layers * config.cell_dim * products_per_cell
        self._workers = workers

    def zero_state(self, num_rows: int) -> LstmState:
        """Return the zero state of both directions: hidden (2, L, B, D) and cell (2, L, B, H)."""
        stack = self._stacks[0]
        return LstmState(
            np.zeros((2, stack.num_layers, num_rows, stack.output_dim), dtype=np.float32),
            np.zeros((2, stack.num_layers, num_rows, stack.cell_dim), dtype=np.float32),
        )

    def forward(self, words: Array, batch: CharBatch, mix: Array, *, skip_last: bool = False) -> Array:
        """Run over a batch from the zero state, given the vectors (U, D) of its distinct tokens.

        Returns (N, K, 2D), K vectors per token, weighted by `mix` (K, L+1), for consecutive sentences with their
        boundaries. With `skip_last`, no direction reads its last token, a boundary, and its half of the vector of
        this token is undefined.
        """
        places, compiled = batch.word_index, self._compiled
        if compiled is not None and not skip_last and len(places) == 1 and places.shape[1] <= self._words_at_once:
            return forward_sentence(compiled, words, places[0], mix, single_threaded=self._is_small(places.shape[1]))
        return self.forward_from(None, words, batch, mix, skip_last=skip_last)[0]

    def forward_from(
        self, state: LstmState | None, words: Array, batch: CharBatch, mix: Array, *, skip_last: bool
    ) -> tuple[Array, LstmState]:
        """Run over a batch from a state, like `forward`; also return the final state of each row."""
        places, lengths = batch.word_index, batch.lengths
        num_words = int(lengths.sum())
        result: Array = np.empty((num_words, len(mix), 2, words.shape[1]), dtype=np.float32)
        groups = self._group_rows(lengths)
        starts = np.cumsum(lengths) - lengths
        jobs: list[_Job] = []
        for side, stack in enumerate(self._stacks):
            initial = None if state is None else LstmState(state.hidden[side], state.cell[side])
            for rows in groups:
                counts, indices, positions = order_steps(lengths[rows], skip_last=skip_last, from_right=side == 1)
                sentences = rows[indices]
                sources, targets = places[sentences, positions], starts[sentences] + positions
                window = Window(words, sources, targets, counts, mix, result, side)
                jobs.append(_Job(stack, window, None if initial is None else initial.rows(rows)))
        final = self._run(jobs, num_words)
        sides = [functools.reduce(LstmState.join, half) for half in (final[: len(groups)], final[len(groups) :])]
        both = LstmState(np.stack([side.hidden for side in sides]), np.stack([side.cell for side in sides]))
        return result.reshape(num_words, len(mix), -1), both.rows(np.argsort(np.concatenate(groups)))

    def _run(self, jobs: Sequence["_Job"], num_words: int) -> list[LstmState]:
        """Run all jobs in parallel and return their final states."""
        single = self._is_small(num_words)
        if self._compiled is not None and len(jobs) == 2 and num_words <= self._words_at_once:
            windows, states = [job.window for job in jobs], [job.state for job in jobs]
            return forward_directions(self._compiled, windows, states, single_threaded=single)
        tasks: list[Callable[[], LstmState]] = [functools.partial(job.run, self._words_at_once) for job in jobs]
        return [task() for task in tasks] if single else self._workers.run(tasks)

    def _is_small(self, num_words: int) -> bool:
        return self._workers.num_threads == 1 or num_words * self._num_weights < MIN_PRODUCTS_FOR_TWO_THREADS

    def _group_rows(self, lengths: Indices) -> list[Indices]:
        """Return one group of rows per core, with similar total lengths and each sorted by descending length."""
        by_length = np.argsort(-lengths, kind="stable")
        num_groups = max(1, min(self._workers.num_threads // 2, len(lengths) // MIN_ROWS_PER_GROUP))
        return [by_length[first::num_groups] for first in range(num_groups)]


@dataclass(frozen=True)
class _Job:
    """A group of rows of one direction, with its initial state."""

    stack: Stack
    window: Window
    state: LstmState | None

    def run(self, words_at_once: int) -> LstmState:
        """Run window by window and return the final state."""
        state = self.state
        for window in cut_windows(self.window, words_at_once):
            state = self.stack.forward(window, state)
        assert state is not None  # every sentence has words: its boundaries
        return state


def read_layers(config: EncoderConfig, weights: Mapping[str, Any], side: str) -> list[LayerWeights]:
    """Return the LSTM layers of one direction among a checkpoint's weights."""
    layers = []
    for number in range(config.num_layers):
        prefix = f"{side}.layers.{number}"
        bias = take(weights, f"{prefix}.bias").copy()
        bias[config.cell_dim : 2 * config.cell_dim] += np.float32(config.forget_bias)
        layers.append(
            LayerWeights(
                take(weights, f"{prefix}.input_weight"),
                take(weights, f"{prefix}.state_weight"),
                bias,
                take(weights, f"{prefix}.projection_weight") if config.projected else None,
                config.cell_clip,
                config.projection_clip,
            )
        )
    return layers


def order_steps(lengths: Indices, *, skip_last: bool, from_right: bool) -> tuple[Indices, Indices, Indices]:
    """Return the order in which the words of sentences are processed; rows are sorted by descending length.

    The result is the number of rows of each step, and the row and position of every word, step by step. With
    `skip_last`, the last word of each sentence is left out.
    """
    num_steps = lengths - skip_last
    steps, rows = np.nonzero(np.arange(num_steps[0])[:, None] < num_steps)
    counts = np.bincount(steps)
    return counts, rows, lengths[rows] - 1 - steps if from_right else steps


def cut_windows(window: Window, words_at_once: int) -> Iterator[Window]:
    """Cut the window of a direction into windows of about `words_at_once` words, each with only the words it needs."""
    if len(window.sources) <= words_at_once:
        yield window
        return
    for rows, counts in cut_steps(window.counts.tolist(), words_at_once):
        used, places = np.unique(window.sources[rows], return_inverse=True)
        targets = window.targets[rows]
        yield replace(window, words=window.words[used], sources=places, targets=targets, counts=np.array(counts))
