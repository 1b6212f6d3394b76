"""Layers and static vectors of the words of sentences -> one vector per sentence, in NumPy.

The arrays are those of elmo.nn.sentence_head.SentenceHead, under the same names.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
_RARITY_FLOOR = np.float32(1e-3)  # as in elmo.nn.sentence_head
_TINY = np.finfo(np.float32).tiny


class SentenceEncoder:
    """The head of a model that pools the vectors of words."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take the arrays layer_weights, queries, rarity, projection and bias of a checkpoint."""
        read = {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()}
        exponents = np.exp(read["layer_weights"] - read["layer_weights"].max())
        self._shares: Array = (exponents / exponents.sum()).astype(np.float32)
        self._queries, self._rarity = read["queries"], read["rarity"]
        self._projection, self._bias = np.ascontiguousarray(read["projection"].T), read["bias"]

    @property
    def dim(self) -> int:
        """Return the number of values of a sentence vector."""
        return len(self._bias)

    @property
    def static_dim(self) -> int:
        """Return the number of values of a static vector, 0 for a head without them."""
        num_heads, input_dim = self._queries.shape
        return int(len(self._projection) - (num_heads + 1) * input_dim)

    def encode(self, layers: npt.NDArray[Any], static: Array, weights: Array) -> Array:
        """Return the vector (dim,) of length 1 of one sentence; zeros for one without words.

        `layers` (L+1, T, 2D) are those of its words without boundaries. `static` (T, d) holds their static
        vectors, zeros for words outside the table, and `weights` (T,) their weights by frequency.
        """
        vector: Array = self.encode_batch([layers], [static], [weights])[0]
        return vector

    def encode_batch(
        self, layers: Sequence[npt.NDArray[Any]], static: Sequence[Array], weights: Sequence[Array]
    ) -> Array:
        """Return one vector (S, dim) per sentence; each is the same in any batch."""
        vectors = np.zeros((len(layers), self.dim), dtype=np.float32)
        for row, (own, fixed, shares) in enumerate(zip(layers, static, weights, strict=True)):
            if own.shape[1]:
                vectors[row] = self._encode(own, fixed, shares)
        return vectors

    def _encode(self, layers: npt.NDArray[Any], static: Array, weights: Array) -> Array:
        mixed = np.einsum("l,ltd->td", self._shares, layers.astype(np.float32, copy=False))
        scores = mixed @ self._queries.T + self._rarity * np.log(weights + _RARITY_FLOOR)[:, None]  # (T, K)
        attention = np.exp(scores - scores.max(axis=0))
        pooled = (attention / attention.sum(axis=0)).T @ mixed  # (K, 2D)
        summed = weights @ static[:, : self.static_dim]
        summed = summed / max(float(np.sqrt(summed @ summed)), 1e-12)
        features = np.concatenate([pooled.ravel(), mixed.max(axis=0), summed]).astype(np.float32)
        vector = features @ self._projection + self._bias
        length: Array = vector / np.maximum(np.sqrt(vector @ vector), _TINY)
        return length
