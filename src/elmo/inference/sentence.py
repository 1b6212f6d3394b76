"""The sentence head, which pools the layers and static vectors of the words of a sentence into one vector.

The arrays have the names of the parameters of elmo.nn.sentence_head.SentenceHead. Every sentence is computed
separately, so its vector has the same bits in any batch.
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
    """The sentence head of a model, which pools the vectors of words."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """`arrays`: layer_weights, queries, rarity, projection and bias of a checkpoint."""
        parameters = {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()}
        exponents = np.exp(parameters["layer_weights"] - parameters["layer_weights"].max())
        self._shares: Array = (exponents / exponents.sum()).astype(np.float32)
        self._queries, self._rarity = pack_matrix(parameters["queries"]), parameters["rarity"]
        self._project = pack_matrix(parameters["projection"], parameters["bias"])
        num_heads, input_dim = parameters["queries"].shape
        self.dim, num_features = parameters["projection"].shape
        self.static_dim = num_features - (num_heads + 1) * input_dim  # 0 for a head without static vectors

    def encode(self, layers: npt.NDArray[Any], static: Array, weights: Array) -> Array:
        """Return the vector (dim,) of a sentence, scaled to length 1; zeros for a sentence without words.

        `layers` (L+1, T, 2D) are the layers of its words without boundaries. `static` (T, d) holds their static
        vectors, zeros for words outside the table, and `weights` (T,) their frequency weights.
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
