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
from elmo.nn.bilm import BiLM, BiLMState, Encoder
from elmo.nn.projected_lstm import LstmStack
from elmo.nn.reading_state import ReadingState
from elmo.text.batch import CharBatch

WORDS_AT_ONCE = 4096


class PackedEncoder(Protocol):
    """One direction; it reads words step by step, without padding."""

    def read(self, inputs: Tensor, counts: list[int], state: Any) -> tuple[list[Tensor], Any]:
        """Packed rows (N, D) -> each layer's outputs (N, D), and the state of all rows at their ends."""
        ...


def can_pack(encoder: Encoder, device: torch.device) -> bool:
    """Tell whether a direction's weights can be laid out for the products of a precision."""
    return isinstance(encoder, LstmStack) and device.type == "cpu"


class BidirectionalReader:
    """Runs both directions of a biLM as it is now; changed weights need a new reader."""

    def __init__(self, bilm: BiLM, precision: Precision, workers: Workers) -> None:
        self._bilm = bilm
        self._workers = workers
        self._on_cpu = next(bilm.parameters()).device.type == "cpu"
        directions = (bilm.left_to_right, bilm.right_to_left)
        self._encoders = self._run([functools.partial(_pack, module, precision) for module in directions])

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
            state = self._bilm.zero_state(len(lengths))
        before = (None, None) if state is None else _both(state.rows(torch.from_numpy(falling)))
        after = self._run(
            [
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
        )
        restore = torch.from_numpy(np.argsort(falling))
        return result.flatten(start_dim=2), BiLMState(*after).rows(restore)

    def _run(self, tasks: list[Callable[[], Any]]) -> list[Any]:
        return self._workers.run(tasks) if self._on_cpu else [task() for task in tasks]


@dataclass(frozen=True)
class _Rows:
    """The sentences of a batch by falling length: where each begins in the result, and its words."""

    lengths: Indices
    num_read: Indices
    first_words: Indices
    word_index: Indices

    def order(self, *, from_right: bool) -> ReadingOrder:
        return order_reading(self.lengths, self.num_read, from_right=from_right)


def _pack(module: Encoder, precision: Precision) -> PackedEncoder:
    on_cpu = next(module.parameters()).device.type == "cpu"
    return PackedLstm(module, precision) if isinstance(module, LstmStack) and on_cpu else PaddedEncoder(module)


def _read_direction(
    encoder: PackedEncoder,
    order: ReadingOrder,
    rows: _Rows,
    words: Tensor,
    state: ReadingState | None,
    choice: LayerChoice,
    result: Tensor,
) -> ReadingState | None:
    """Fill one direction's half (N, K, D) of the result and give the state at the end."""
    sources = torch.from_numpy(rows.word_index[order.rows, order.positions]).to(words.device)
    targets = torch.from_numpy(rows.first_words[order.rows] + order.positions).to(words.device)
    for window, counts in cut_steps(order.counts, WORDS_AT_ONCE):
        inputs = words[sources[window]]
        outputs, state = encoder.read(inputs, counts, state)
        result[targets[window]] = choice.mix([inputs, *outputs])
    return state


def _both(state: BiLMState) -> tuple[ReadingState, ReadingState]:
    return state.left_to_right, state.right_to_left
