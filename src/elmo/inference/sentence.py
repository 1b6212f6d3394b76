"""Layers and static vectors of the words of sentences -> one vector per sentence.

The arrays are those of elmo.nn.sentence_head.SentenceHead, under the same names. Every sentence is computed apart,
so its vector has the same bits in any batch.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.inference.context import normalize
from elmo.kernels.matrix import pack_matrix

Array = npt.NDArray[np.float32]
_RARITY_FLOOR = np.float32(1e-3)  # as in elmo.nn.sentence_head


class SentenceEncoder:
    """The head of a model that pools the vectors of words."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take the arrays layer_weights, queries, rarity, projection and bias of a checkpoint."""
        read = {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()}
        exponents = np.exp(read["layer_weights"] - read["layer_weights"].max())
        self._shares: Array = (exponents / exponents.sum()).astype(np.float32)
        self._queries, self._rarity = pack_matrix(read["queries"]), read["rarity"]
        self._project = pack_matrix(read["projection"], read["bias"])
        num_heads, input_dim = read["queries"].shape
        self.dim, num_features = read["projection"].shape
        self.static_dim = num_features - (num_heads + 1) * input_dim  # 0 for a head without static vectors

    def encode(self, layers: npt.NDArray[Any], static: Array, weights: Array) -> Array:
        """Return the vector (dim,) of length 1 of one sentence; zeros for one without words.

        `layers` (L+1, T, 2D) are those of its words without boundaries. `static` (T, d) holds their static
        vectors, zeros for words outside the table, and `weights` (T,) their weights by frequency.
        """
        if not len(weights):
            return np.zeros(self.dim, dtype=np.float32)
        mixed = np.zeros(layers.shape[1:], dtype=np.float32)
        for share, layer in zip(self._shares, layers, strict=True):
            mixed += share * layer
        scores = self._queries(mixed) + self._rarity * np.log(weights + _RARITY_FLOOR)[:, None]  # (T, K)
        attention = np.exp(scores - scores.max(axis=0))
        attention /= attention.sum(axis=0)
        pooled = np.einsum("tk,td->kd", attention, mixed)  # without BLAS, whose rounding depends on the machine
        summed = np.einsum("t,td->d", weights, static)
        summed = summed / max(float(np.sqrt(np.einsum("d,d->", summed, summed))), 1e-12)
        features = np.concatenate([pooled.ravel(), mixed.max(axis=0), summed]).astype(np.float32)
        vector = self._project(features[None])[0]
        return normalize(vector)
