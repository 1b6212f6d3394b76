"""Look up the static vectors of a context layer, and sum them up to the vectors of sentences.

This module does not use the states of the language model.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.components import ContextLayer
from elmo.inference.words import WordCache
from elmo.kernels.int8 import quantize_rows
from elmo.kernels.meaning import Tokens
from elmo.text.units import Tokenization

Array = npt.NDArray[np.float32]
EncodeWords = Callable[[list[str]], Array]  # distinct words -> their vectors in layer 0, (n, D)
Span: TypeAlias = tuple[int, int]  # a half-open range of words
_ESTIMATES_BYTES = 32 * 2**20
_ROWS_AT_ONCE = 4096  # rows of the table that are expanded to float32
NO_ROW = -1
_TINY = np.finfo(np.float32).tiny


class StaticTable:
    """The static vectors of tokens: rows of the context layer, or estimates from layer 0; thread-safe."""

    def __init__(
        self, layer: ContextLayer, encode_words: EncodeWords, tokenization: Tokenization | None = None
    ) -> None:
        self.config = layer.config
        self._encode_words, self._tokenization = encode_words, tokenization or Tokenization()
        self.arrays = {name: np.asarray(tensor) for name, tensor in layer.arrays.items()}
        self._estimates = WordCache(layer.config.dim + 1, max_bytes=_ESTIMATES_BYTES)  # int8 values, then the scale
        self._keys = {word: row for row, word in enumerate(layer.words)}

    def look_up(self, words: Sequence[str], *, estimates: bool = True) -> tuple[Array, Array]:
        """Return the vectors (n, d) and weights (n,) of words; without `estimates`, vectors outside the table are 0."""
        tokens = self.look_up_tokens(words, self.find_rows(words), estimates=estimates)
        vectors: Array = tokens.vectors * tokens.scales[:, None]
        return vectors, tokens.weights

    def look_up_tokens(self, words: Sequence[str], rows: npt.NDArray[np.int64], *, estimates: bool = True) -> Tokens:
        """Return the int8 vectors, scales and weights of words, given their rows in the table."""
        arrays, valid_rows = self.arrays, np.maximum(rows, 0)
        vectors, scales, weights = (arrays[name].take(valid_rows, axis=0) for name in ("vectors", "scales", "weights"))
        if len(unknown := np.flatnonzero(rows == NO_ROW)):
            weights[unknown] = self.config.unknown_weight
            if estimates:
                vectors[unknown], scales[unknown] = self._estimate([words[number] for number in unknown.tolist()])
            else:
                scales[unknown] = 0
        return Tokens(vectors, scales, weights)

    def _estimate(self, words: list[str]) -> tuple[npt.NDArray[np.int8], Array]:
        """Return the int8 vectors and scales of words outside the table, estimated from layer 0."""

        def estimate(missing: list[int]) -> Array:
            encoded = self._encode_words([words[position] for position in missing])
            # Without BLAS, whose rounding depends on the number of words.
            rows = np.einsum("ud,de->ue", encoded, self.arrays["unknown_map"]) + self.arrays["unknown_bias"]
            return np.column_stack(quantize_rows(normalize(rows)))

        rows = self._estimates.look_up(words, estimate)
        return rows[:, :-1].astype(np.int8), rows[:, -1]

    def mean(self, words: Sequence[str]) -> Array:
        """Return the mean vector (d,) of words, scaled to length 1."""
        mean: Array = normalize(self.look_up(words)[0].mean(axis=0)[None])[0]
        return mean

    def cosines(self, words: Sequence[str]) -> Array:
        """Return the cosine (rows,) between every row of the table and the mean vector of `words`."""
        query = self.mean(words)
        cosines = np.empty(len(self.arrays["vectors"]), dtype=np.float32)
        for start in range(0, len(cosines), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            cosines[block] = (self.arrays["vectors"][block].astype(np.float32) @ query) * self.arrays["scales"][block]
        return cosines

    def encode(self, sentences: Sequence[Sequence[str]]) -> Array:
        """Return one vector (N, d + D) of length 1 per sentence, or zeros if it has no words.

        The weighted sum of the words' static vectors is concatenated with the weighted sum of their centred vectors
        in layer 0; the directions common to all sentences are removed from both.
        """
        numbers: dict[str, int] = {}
        rows = [
            [numbers.setdefault(token, len(numbers)) for token in self._tokenization.split_words(words).tokens]
            for words in sentences
        ]
        words, arrays = list(numbers), self.arrays
        halves = [np.zeros((len(rows), dim), np.float32) for dim in (self.config.dim, len(arrays["word_mean"]))]
        if words:
            vectors, weights = self.look_up(words)
            static = vectors * weights[:, None] * arrays["sentence_scale"]
            encoded = normalize(self._encode_words(words) - arrays["word_mean"]) * weights[:, None]
            for number, row in enumerate(rows):
                halves[0][number], halves[1][number] = static[row].sum(axis=0), encoded[row].sum(axis=0)
        names = ("sentence_components", "word_components")
        removed = [_remove_directions(half, arrays[name]) for half, name in zip(halves, names, strict=True)]
        return normalize(np.concatenate([normalize(half) for half in removed], axis=1))

    @property
    def sentence_dim(self) -> int:
        """The dimension of sentence vectors, d + D."""
        return self.config.dim + len(self.arrays["word_mean"])

    def find_rows(self, words: Iterable[str]) -> npt.NDArray[np.int64]:
        """Return the row of each word in the table, or -1 for words outside the table."""
        spellings = map(str.lower, words) if self.config.lowercase else words
        return np.array(list(map(self._keys.get, spellings, itertools.repeat(NO_ROW))), dtype=np.int64)


def normalize(vectors: Array) -> Array:
    """Scale vectors (..., d) to length 1; zero vectors stay zero."""
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    scaled: Array = vectors / np.maximum(lengths, _TINY)
    return scaled


def _remove_directions(vectors: Array, directions: Array) -> Array:
    """Remove orthonormal directions (k, d) from vectors (N, d); the result of a row does not depend on other rows."""
    projections = np.einsum("nd,kd->nk", vectors, directions)
    removed: Array = vectors - np.einsum("nk,kd->nd", projections, directions)
    return removed
