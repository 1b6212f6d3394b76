"""Word vectors of a batch -> the layers asked for at every word, both directions at the same time.

A direction reads its words in windows and passes its state on, so beside the result memory does not depend on
the length of a text.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from elmo.inference.layers import LayerChoice
from elmo.inference.packed_lstm import PackedLstm
from elmo.inference.padded_encoder import PaddedEncoder
from elmo.inference.precision import Precision
from elmo.inference.reading_order import Indices, ReadingOrder, cut_steps, order_reading
from elmo.inference.workers import Workers
from elmo.nn.bilm import BiLMState, Encoder
from elmo.nn.projected_lstm import LstmStack
from elmo.nn.reading_state import ReadingState
from elmo.text.batch import CharBatch

WORDS_AT_ONCE = 2048
# A step with fewer products than this is over sooner than two threads have agreed on who runs Python.
LEAST_PRODUCTS_FOR_TWO = 2**23


class PackedEncoder(Protocol):
    """One direction; it reads words step by step, without padding."""

    num_weights: int

    def read(self, words: Tensor, sources: Tensor, counts: list[int], state: Any) -> tuple[list[Tensor], Any]:
        """Read the packed rows `words[sources]`, (N, D): each layer's outputs (N, D), and all rows' end states."""
        ...


def can_pack(encoder: Encoder, device: torch.device) -> bool:
    """Tell whether a direction's weights can be laid out for the products of a precision."""
    return isinstance(encoder, LstmStack) and device.type == "cpu"


def pack_encoder(module: Encoder, precision: Precision) -> PackedEncoder:
    """Lay out the weights of a direction, or take the module as it is where that cannot be done."""
    device = next(module.parameters()).device
    if isinstance(module, LstmStack) and can_pack(module, device):
        return PackedLstm(module, precision)
    return PaddedEncoder(module)


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
        self, words: Tensor, batch: CharBatch, choice: LayerChoice, num_read: Tensor, state: BiLMState | None
    ) -> tuple[Tensor, BiLMState]:
        """Read the first `num_read` (B,) words from each side, given the distinct words' vectors (U, D).

        Gives (N, K, 2D), the sentences of the batch one after the other with their boundaries, K vectors a word;
        of words that were not read, half of it is zero. And the state at each row's end.
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
        if state is None and rows.num_read[-1] == 0:
            state = self._zero_state(len(lengths))
        before = (None, None) if state is None else _both(state.rows(torch.from_numpy(falling)))
        tasks = [
            functools.partial(
                _read_direction,
                self._encoders[side],
                rows.order(from_right=side == 1),
                rows,
                words,
                before[side],
                choice,
                result[:, :, side],
            )
            for side in (0, 1)
        ]
        if len(lengths) * self._encoders[0].num_weights < LEAST_PRODUCTS_FOR_TWO:
            (after,) = self._workers.run([lambda: [task() for task in tasks]])
        else:
            after = self._workers.run(tasks)
        restore = torch.from_numpy(np.argsort(falling))
        return result.flatten(start_dim=2), BiLMState(*after).rows(restore)


@dataclass(frozen=True)
class _Rows:
    """The sentences of a batch by falling length: where each begins in the result, and its words."""

    lengths: Indices
    num_read: Indices
    first_words: Indices
    word_index: Indices

    def order(self, *, from_right: bool) -> ReadingOrder:
        return order_reading(self.lengths, self.num_read, from_right=from_right)


def _read_direction(
    encoder: PackedEncoder,
    order: ReadingOrder,
    rows: _Rows,
    words: Tensor,
    state: ReadingState | None,
    choice: LayerChoice,
    result: Tensor,
) -> ReadingState:
    """Fill one direction's half (N, K, D) of the result and give the state at the end."""
    sources = torch.from_numpy(rows.word_index[order.rows, order.positions]).to(words.device)
    targets = torch.from_numpy(rows.first_words[order.rows] + order.positions).to(words.device)
    for window, counts in cut_steps(order.counts, WORDS_AT_ONCE):
        outputs, state = encoder.read(words, sources[window], counts, state)
        result[targets[window]] = choice.mix([words[sources[window]], *outputs])
    assert state is not None  # where nothing is read, one was given
    return state


def _both(state: BiLMState) -> tuple[ReadingState, ReadingState]:
    return state.left_to_right, state.right_to_left
