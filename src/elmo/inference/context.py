"""Sentences of words -> what surrounds each word: a weighted sum of the static vectors of its neighbours.

Both sides go into one sum, so a clue on the left and one on the right meet. A neighbour counts more if it is rare,
and if it is related to the word in the middle. Only words are read here, never states of the language model.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.checkpoint.components import ContextLayer
from elmo.text.units import Tokenization, UnitSentence

Array = npt.NDArray[np.float32]
EncodeWords = Callable[[list[str]], Array]  # distinct words -> their vectors in layer 0, (n, D)
_POSITIONS_AT_ONCE = 64  # whose neighbours are weighed together; bounds the work and memory of long sentences
_PLACES_AT_ONCE = 1024  # of several sentences; what is computed for them stays in the processor's cache
_REMEMBERED_WORDS = 200_000
_NO_ROW = -1


class ContextReader:
    """Computes the context vectors of one model; safe to call from several threads."""

    def __init__(
        self, layer: ContextLayer, encode_words: EncodeWords, tokenization: Tokenization | None = None
    ) -> None:
        self.config = layer.config
        self._tokenization = tokenization or Tokenization()
        self._encode_words = encode_words
        self._tensors = {name: torch.from_numpy(array.copy()) for name, array in layer.arrays.items()}
        self._keys = {word: row for row, word in enumerate(layer.words)}
        self._rows: dict[str, int] = {}  # of words as they are spelled in texts
        share = self.config.share / (1 + self.config.share)
        self._top_scale, self._context_scale = np.float32(np.sqrt(1 - share)), np.float32(np.sqrt(share))

    def read(self, sentences: Sequence[Sequence[str]]) -> list[Array]:
        """Return the context vectors (T, d) of each sentence: of length nearly 1, less where little is near."""
        if not sentences:
            return []
        read = [self._tokenization.read(words) for words in sentences]
        has_groups = any(sentence.num_units is not None for sentence in read)
        found = self._read(read, [sentence.ranges() for sentence in read] if has_groups else None)
        return [vectors[: len(words)] for vectors, words in zip(found, sentences, strict=True)]

    def read_spans(self, words: Sequence[str], spans: Sequence[tuple[int, int]]) -> Array:
        """Return the context vectors (n, d) of phrases of one sentence: what surrounds each phrase as a whole."""
        if not spans:
            return np.zeros((0, self.config.dim), dtype=np.float32)
        sentence = self._tokenization.read(words)
        ranges = sentence.ranges()
        places = [(ranges[start][0], ranges[end - 1][1]) for start, end in spans]
        # One copy of the sentence per phrase, in which the phrase is one word and the others do not matter.
        groups = [[*((at, at + 1) for at in range(start)), (start, end)] for start, end in places]
        found = self._read([sentence] * len(spans), groups)
        return np.stack([row[start] for row, (start, _) in zip(found, places, strict=True)])

    def _read(
        self, sentences: Sequence[UnitSentence], groups: Sequence[Sequence[tuple[int, int]]] | None
    ) -> list[Array]:
        """Return (T, d) per sentence: of each unit, or of each of the `groups`, ranges of units that are one word.

        Zeros follow where a sentence is shorter than others, or has fewer groups than units.
        """
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(unit, len(numbers)) for unit in sentence.units] for sentence in sentences]
        vectors, weights = self._look_up(list(numbers))
        found: list[Array] = []
        with torch.inference_mode():
            for part in _divide([len(row) for row in rows]):
                index = torch.from_numpy(_pad(rows[part], padding=len(numbers)))
                owners = None if groups is None else torch.from_numpy(_number_groups(groups[part], index.shape[1]))
                found.extend(self._sum_neighbours(vectors, weights, index, owners).numpy())
        return found

    def join(self, top: Array, context: Array, scales: Array | None = None) -> Array:
        """Return the vectors (T, 2D + d) of "meaning": top layer and context side by side, each at its share.

        Where contexts have the length 1, the cosine of two is (cosine of the top layer + share · cosine of the
        contexts) / (1 + share). `scales` (T, 1) is what `scales_of` returns, if it is known.
        """
        joined = np.empty((len(top), top.shape[1] + context.shape[1]), dtype=np.float32)
        np.multiply(top, self.scales_of(top) if scales is None else scales, out=joined[:, : top.shape[1]])
        np.multiply(context, self._context_scale, out=joined[:, top.shape[1] :])
        return joined

    def scales_of(self, top: Array) -> Array:
        """Return what vectors of the top layer (N, 2D) are multiplied by in "meaning", (N, 1)."""
        lengths = np.sqrt(np.einsum("td,td->t", top, top))[:, None]
        scales: Array = self._top_scale / np.maximum(lengths, np.finfo(np.float32).tiny)
        return scales

    def encode(self, sentences: Sequence[Sequence[str]]) -> Array:
        """Return one vector (N, d + D) of length 1 per sentence; zeros for one without words.

        The weighted sum of the words' static vectors stands beside that of their centred vectors in layer 0; the
        directions that all sentences share are removed from both.
        """
        numbers: dict[str, int] = {}
        read = [self._tokenization.read(words).units for words in sentences]
        flat = [numbers.setdefault(unit, len(numbers)) for units in read for unit in units]
        starts = np.cumsum([0, *map(len, read)])[: len(read)]
        with torch.inference_mode():
            places, offsets = torch.tensor(flat, dtype=torch.int64), torch.tensor(starts, dtype=torch.int64)
            sums = [
                torch.nn.functional.embedding_bag(places, each, offsets, mode="sum")
                for each in self._look_up_both(list(numbers))
            ]
            parts = [
                _remove_directions(part, self._tensors[name])
                for part, name in zip(sums, ("sentence_components", "word_components"), strict=True)
            ]
            joined = torch.cat([torch.nn.functional.normalize(part, dim=1) for part in parts], dim=1)
            return torch.nn.functional.normalize(joined, dim=1).numpy()

    @property
    def sentence_dim(self) -> int:
        """d + D: the dimensions of what `encode` returns."""
        return self.config.dim + len(self._tensors["word_mean"])

    def _look_up(self, words: list[str]) -> tuple[Tensor, Tensor]:
        """Return the vectors (U + 1, d) and weights (U + 1,) of distinct words; the last row, padding, is zero."""
        rows = torch.tensor([*self._find_rows(words), _NO_ROW])
        is_known = rows != _NO_ROW
        tensors, chosen = self._tensors, rows.clamp(min=0)
        scales = tensors["scales"][chosen] * is_known
        vectors = torch.index_select(tensors["vectors"], 0, chosen).float().mul_(scales[:, None])
        weights = tensors["weights"][chosen] * is_known
        if len(unknown := torch.nonzero(~is_known[:-1])[:, 0]):
            encoded = torch.from_numpy(self._encode_words([words[number] for number in unknown.tolist()]))
            estimated = encoded @ tensors["unknown_map"] + tensors["unknown_bias"]
            vectors[unknown] = torch.nn.functional.normalize(estimated, dim=1)
            weights[unknown] = self.config.unknown_weight
        return vectors, weights

    def _look_up_both(self, words: list[str]) -> tuple[Tensor, Tensor]:
        """Return what each distinct word adds to its sentence: (U + 1, d) and (U + 1, D), zero in the last row."""
        vectors, weights = self._look_up(words)
        encoded = torch.zeros(len(words) + 1, len(self._tensors["word_mean"]))
        if words:
            centred = torch.from_numpy(self._encode_words(words)) - self._tensors["word_mean"]
            encoded[:-1] = torch.nn.functional.normalize(centred, dim=1)
        return vectors * weights[:, None] * self._tensors["sentence_scale"], encoded * weights[:, None]

    def _find_rows(self, words: list[str]) -> list[int]:
        """Return the rows of words in the table, _NO_ROW for others; spellings that were met are remembered."""
        remembered = self._rows
        if len(remembered) >= _REMEMBERED_WORDS:
            remembered = self._rows = {}
        rows = list(map(remembered.get, words))
        if None in rows:
            for word, row in zip(words, rows, strict=True):
                if row is None:
                    remembered[word] = self._keys.get(word.lower() if self.config.lowercase else word, _NO_ROW)
            rows = list(map(remembered.get, words))
        return cast(list[int], rows)

    def _sum_neighbours(
        self, vectors: Tensor, weights: Tensor, index: Tensor, groups: Tensor | None = None
    ) -> Tensor:
        """(U + 1, d), (U + 1,) and the distinct unit at each place (B, T) -> (B, T, d).

        `groups` (B, T) number the word that each unit belongs to: its units are no neighbours of each other, and
        the result is that of words.
        """
        window, length = self.config.window, index.shape[1]
        found = torch.empty(*index.shape, vectors.shape[1])
        means = None if groups is None else _average_groups(_rows_of(vectors, index), groups)
        for start in range(0, length, _POSITIONS_AT_ONCE):
            stop = min(start + _POSITIONS_AT_ONCE, length)
            first, last = max(0, start - window), min(length, stop + window)
            near = _rows_of(vectors, index[:, first:last])  # (B, K, d)
            middle = near[:, start - first : stop - first]
            if groups is not None and means is not None:
                middle = _take(means, groups[:, start:stop])
            shares = (middle @ near.transpose(1, 2)).mul_(self.config.focus).exp_()  # (B, T, K)
            distances = torch.arange(first, last) - torch.arange(start, stop)[:, None]
            is_near = (distances.abs() <= window) & (distances != 0)
            shares *= weights[index[:, first:last]][:, None] * is_near
            if groups is not None:
                shares *= groups[:, start:stop, None] != groups[:, None, first:last]
            found[:, start:stop] = shares @ near
        if groups is not None:
            found = _average_groups(found, groups)
        lengths = torch.linalg.vector_norm(found, dim=2, keepdim=True)
        # Without neighbours, and without shrinkage, zero stays zero.
        return found.div_((lengths + self.config.shrinkage).clamp_(min=torch.finfo(torch.float32).tiny))


def _number_groups(groups: Sequence[Sequence[tuple[int, int]]], length: int) -> npt.NDArray[np.int64]:
    """Return which of its sentence's groups each place (B, length) belongs to; places behind them are apart."""
    numbers = np.tile(np.arange(length), (len(groups), 1))
    for row, ranges in zip(numbers, groups, strict=True):
        for number, (start, end) in enumerate(ranges):
            row[start:end] = number
    return numbers


def _average_groups(values: Tensor, groups: Tensor) -> Tensor:
    """(B, T, d) of units -> (B, T, d) of groups, zero where there is none."""
    places = groups[..., None].expand_as(values)
    sums = torch.zeros_like(values).scatter_add_(1, places, values)
    counts = torch.zeros(groups.shape).scatter_add_(1, groups, torch.ones(groups.shape))
    return sums / counts.clamp_(min=1)[..., None]


def _rows_of(vectors: Tensor, index: Tensor) -> Tensor:
    """(U, d) and (B, T) -> (B, T, d); several times as fast as vectors[index]."""
    return vectors.index_select(0, index.reshape(-1)).view(*index.shape, -1)


def _take(values: Tensor, groups: Tensor) -> Tensor:
    return values.gather(1, groups[..., None].expand(*groups.shape, values.shape[2]))


def _divide(lengths: Sequence[int]) -> Iterator[slice]:
    """Yield neighbouring sentences that have few places together, padding counted."""
    start, longest = 0, 1
    for number, length in enumerate(lengths):
        longest = max(longest, length)
        if number > start and longest * (number + 1 - start) > _PLACES_AT_ONCE:
            yield slice(start, number)
            start, longest = number, max(1, length)
    yield slice(start, len(lengths))


def _pad(rows: Sequence[Sequence[int]], *, padding: int) -> npt.NDArray[np.int64]:
    """Return rows of numbers as an array (B, T), T at least 1."""
    padded = np.full((len(rows), max(1, *map(len, rows))), padding, dtype=np.int64)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded


def _remove_directions(vectors: Tensor, directions: Tensor) -> Tensor:
    """Take orthonormal directions (k, d) out of vectors (N, d)."""
    return vectors - (vectors @ directions.T) @ directions
