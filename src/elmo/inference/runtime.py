"""A packed batch -> all layers of vectors, without gradients. Each distinct word is encoded once."""

import threading
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor

from elmo.errors import ConfigError
from elmo.nn.bilm import BiLM, BiLMState, LayerStates
from elmo.nn.device import open_device
from elmo.text.batch import CharBatch

PRECISIONS = ("float32",)
# The convolutions of this many words at once take about 200 MB in the largest official model.
WORDS_AT_ONCE = 1024
# (B, T-1, D) of each direction, left to right and right to left: what a softmax predicts words from.
PredictingStates: TypeAlias = tuple[Tensor, Tensor]
ResultT = TypeVar("ResultT")


def encode_words(bilm: BiLM, batch: CharBatch) -> Tensor:
    """Give the context-free vector at each position, (B, T, D)."""
    num_words = next(len(ids) for ids in (batch.char_ids, batch.word_ids) if ids is not None)
    parts = []
    for start in range(0, num_words, WORDS_AT_ONCE):
        window = slice(start, start + WORDS_AT_ONCE)
        parts.append(
            bilm.tokens(
                None if batch.char_ids is None else batch.char_ids[window],
                None if batch.word_ids is None else batch.word_ids[window],
            )
        )
    return torch.cat(parts)[batch.word_index]


def run_bilm(bilm: BiLM, batch: CharBatch, state: BiLMState | None = None) -> tuple[LayerStates, BiLMState]:
    """Give all layers of a batch, boundaries included, read from `state` or from zero; and where it ended."""
    batch = batch.to(next(bilm.parameters()).device)
    layers, end = bilm(encode_words(bilm, batch), batch.lengths, state)
    return layers, end


def predict_with_bilm(
    bilm: BiLM, batch: CharBatch, state: BiLMState | None = None
) -> tuple[PredictingStates, BiLMState]:
    """Give the states that predict each word, read from `state` or from zero; and where they ended."""
    batch = batch.to(next(bilm.parameters()).device)
    ahead, back, end = bilm.predict(encode_words(bilm, batch), batch.lengths, state)
    return (ahead, back), end


class CarriedState:
    """The state the original programs keep from batch to batch, row by row; one batch at a time."""

    def __init__(self, bilm: BiLM) -> None:
        self._bilm = bilm
        self._state: BiLMState | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, BiLM]:
        # A copy or a pickle begins from zero: the state belongs to what this one read.
        return {"bilm": self._bilm}

    def __setstate__(self, arguments: dict[str, BiLM]) -> None:
        CarriedState.__init__(self, **arguments)

    def reset(self) -> None:
        """Forget what was read."""
        with self._lock:
            self._state = None

    def run(self, batch: CharBatch) -> LayerStates:
        """Read a batch from where its rows stood; rows beyond those seen so far start from zero.

        A smaller batch uses and moves on the first rows and leaves the rest where they are. Gradients do not
        flow into earlier batches.
        """
        return self._read(batch, run_bilm)

    def predict(self, batch: CharBatch) -> PredictingStates:
        """Read a batch as run does, but without the boundaries its rows end at, which are only predicted."""
        return self._read(batch, predict_with_bilm)

    def _read(
        self, batch: CharBatch, read: Callable[[BiLM, CharBatch, BiLMState], tuple[ResultT, BiLMState]]
    ) -> ResultT:
        with self._lock:
            num_rows = len(batch.order)
            fresh = self._bilm.zero_state(num_rows)
            # The network may have been moved since.
            device = fresh.left_to_right.tensors[0].device
            kept = fresh if self._state is None else self._state.to(device)
            if kept.num_rows < num_rows:
                kept = kept.join(fresh.rows(slice(kept.num_rows, None)))
            result, moved = read(self._bilm, batch, kept.rows(slice(num_rows)))
            self._state = moved.join(kept.rows(slice(num_rows, None))).detach()
            return result


class Runtime:
    """Runs one biLM on one device without gradients; safe to call from several threads."""

    def __init__(
        self,
        bilm: BiLM,
        *,
        precision: str = "float32",
        device: torch.device | str = "cpu",
        carry: bool = False,
    ) -> None:
        if precision not in PRECISIONS:
            raise ConfigError(f"The precision {precision!r} is not known; choose one of {', '.join(PRECISIONS)}.")
        self.bilm = bilm.to(open_device(device))
        self.precision = precision
        self.carried = CarriedState(self.bilm) if carry else None

    @torch.inference_mode()
    def run(self, batch: CharBatch) -> LayerStates:
        """Give the layers of a batch, boundaries included, from the carried state or from zero."""
        return run_bilm(self.bilm, batch)[0] if self.carried is None else self.carried.run(batch)

    @torch.inference_mode()
    def predict(self, batch: CharBatch) -> PredictingStates:
        """Give the states that predict the words of a batch, from the carried state or from zero."""
        return predict_with_bilm(self.bilm, batch)[0] if self.carried is None else self.carried.predict(batch)
