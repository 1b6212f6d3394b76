"""States of either direction -> probabilities of words: over the whole vocabulary, or scores of a few candidates.

Rows that are stored in 8 bits or float16 are expanded block by block, never as a whole matrix.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.weights import StoredWeights
from elmo.errors import InputError

Array = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
BLOCK_BYTES = 32 * 2**20  # of logits; their exponentials need as much again
POSITIONS_AT_ONCE = 1024  # more at once do not read the weights faster
_BYTES_PER_LOGIT = 4
_SCALE = ".scale"  # ends the name of the scales of an 8-bit matrix, see checkpoint/weights.py


class Softmax:
    """A weight row and a bias for each word of the vocabulary, of one direction."""

    def __init__(
        self, weight: npt.NDArray[Any], bias: npt.NDArray[Any], scales: npt.NDArray[Any] | None = None
    ) -> None:
        """`weight` (V, D) is float32, float16, or int8 with the `scales` (V,) of its rows; `bias` is (V,)."""
        if (weight.dtype == np.int8) != (scales is not None):
            raise InputError(f"The softmax has {weight.dtype} weights; int8 rows, and only these, need scales.")
        self.weight, self.scales = weight, None if scales is None else np.asarray(scales, dtype=np.float32)
        self.bias: Array = np.asarray(bias, dtype=np.float32)

    @property
    def num_words(self) -> int:
        """V."""
        return len(self.weight)

    def rows(self, chosen: slice | Ids) -> Array:
        """Return rows of the weights as float32."""
        rows = self.weight[chosen].astype(np.float32, copy=False)
        return rows if self.scales is None else rows * self.scales[chosen][..., None]

    def logits(self, states: Array, words: Ids) -> Array:
        """(N, D) and the candidates (N, K) of each state -> their logits (N, K)."""
        logits: Array = np.einsum("nd,nkd->nk", states, self.rows(words)) + self.bias[words]
        return logits

    def log_probabilities(self, states: Array) -> Array:
        """(N, D) -> (N, V)."""
        scores = np.concatenate([block for _, block in self._blocks(states)], axis=1)
        scores -= scores.max(axis=1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return scores

    def score(self, states: Array, words: Ids) -> Array:
        """(N, D) and the word (N,) that follows each state -> its log probability (N,)."""
        parts = [
            self._score(states[start : start + POSITIONS_AT_ONCE], words[start : start + POSITIONS_AT_ONCE])
            for start in range(0, len(words), POSITIONS_AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)

    def _score(self, states: Array, words: Ids) -> Array:
        total = np.full(len(states), -np.inf, dtype=np.float32)
        for _, block in self._blocks(states):
            peak = block.max(axis=1)
            total = np.logaddexp(total, peak + np.log(np.exp(block - peak[:, None]).sum(axis=1)))
        chosen = self.logits(states, words[:, None])[:, 0]
        # Rounding may carry a certain word past 0.
        scores: Array = np.minimum(chosen - total, np.float32(0))
        return scores

    def _blocks(self, states: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the logits (N, words) of one range of words after the other."""
        words_at_once = max(1, BLOCK_BYTES // (_BYTES_PER_LOGIT * max(1, len(states))))
        for start in range(0, self.num_words, words_at_once):
            window = slice(start, start + words_at_once)
            if self.scales is None:
                yield window, states @ self.rows(window).T + self.bias[window]
            else:
                expanded = self.weight[window].astype(np.float32)
                yield window, (states @ expanded.T) * self.scales[window] + self.bias[window]


Softmaxes = tuple[Softmax, Softmax]  # of left to right and of right to left, which may be one and the same


def open_softmaxes(weights: Mapping[str, Any]) -> Softmaxes | None:
    """Return the softmaxes among the weights of a checkpoint, if it has one, in the type they are stored in."""
    weights = weights.stored if isinstance(weights, StoredWeights) else weights
    if "softmax.weight" not in weights:
        return None
    left_to_right = _open(weights, "softmax")
    own = "right_to_left_softmax.weight" in weights
    return left_to_right, _open(weights, "right_to_left_softmax") if own else left_to_right


def _open(weights: Mapping[str, Any], name: str) -> Softmax:
    scales = weights.get(f"{name}.weight{_SCALE}")
    return Softmax(
        np.asarray(weights[f"{name}.weight"]),
        np.asarray(weights[f"{name}.bias"]),
        None if scales is None else np.asarray(scales),
    )
