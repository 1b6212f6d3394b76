"""Distinct words of a batch -> their context-free vectors, each word encoded once as long as it is remembered."""

import functools
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.inference.packed_linear import pack_linear, pack_torch_linear
from elmo.inference.precision import COMPILED_PRECISIONS, Precision
from elmo.inference.word_cache import WordCache, make_keys
from elmo.inference.workers import MAX_WORKERS, Workers
from elmo.kernels.characters import CharTable, fits_table, make_table, run_highway
from elmo.kernels.library import Library, find_library
from elmo.nn.bilm import TokenEncoder
from elmo.nn.char_cnn import CharCnn, Highway, count_before_padding
from elmo.text.batch import CharBatch

WORDS_AT_ONCE = 1024
LEAST_WORDS_FOR_TWO = 16
LEAST_COMPILED_WORDS_FOR_TWO = 48  # fewer are encoded before another thread wakes up
# Values that are made at once: they should stay in the cache until they are used.
VALUES_AT_ONCE = 2**21


class WordEncoder:
    """What TokenEncoder computes, up to the rounding of the precision; changed weights need a new encoder."""

    def __init__(self, tokens: TokenEncoder, precision: Precision, workers: Workers, *, cache_bytes: int) -> None:
        device = next(tokens.parameters()).device
        self._tokens = tokens
        self._workers = workers
        # A network that encodes words in another way of its own is run as it is.
        on_cpu = device.type == "cpu" and type(tokens) is TokenEncoder
        self._characters: PackedCharCnn | None = None
        self._projection: Callable[[Tensor], Tensor] | None = None
        if on_cpu and tokens.characters is not None:
            self._characters = PackedCharCnn(tokens.characters, precision)
        if on_cpu and tokens.projection is not None:
            self._projection = pack_linear(tokens.projection.weight, tokens.projection.bias, precision)
        self._is_compiled = on_cpu and precision in COMPILED_PRECISIONS and find_library() is not None
        self._least_for_two = LEAST_COMPILED_WORDS_FOR_TWO if self._is_compiled else LEAST_WORDS_FOR_TWO
        self.cache = WordCache(_output_dim(tokens), max_bytes=cache_bytes, device=device)

    def encode(self, batch: CharBatch) -> Tensor:
        """Return the vectors (U, D) of a batch's distinct words."""
        return self.cache.look_up(
            make_keys(batch.char_ids, batch.word_ids), lambda positions: self._encode_new(batch, positions)
        )

    def _encode_new(self, batch: CharBatch, positions: list[int]) -> Tensor:
        wanted = torch.tensor(positions, device=batch.word_index.device)
        tasks = []
        for window in torch.split(wanted, WORDS_AT_ONCE):
            # The same parts for any number of threads: how torch rounds may depend on the number of rows.
            for part in window.chunk(MAX_WORKERS if len(window) >= self._least_for_two else 1):
                ids = [
                    None if all_ids is None else all_ids.index_select(0, part)
                    for all_ids in (batch.char_ids, batch.word_ids)
                ]
                tasks.append(functools.partial(self._encode_part, *ids))
        few = len(positions) < LEAST_COMPILED_WORDS_FOR_TWO
        encoded = self._workers.run(tasks, first_here=self._is_compiled and few)
        return torch.cat(encoded) if len(encoded) > 1 else encoded[0]

    def _encode_part(self, char_ids: Tensor | None, word_ids: Tensor | None) -> Tensor:
        if self._characters is None and self._projection is None:
            return cast(Tensor, self._tokens(char_ids, word_ids))
        parts = []
        if self._tokens.words is not None:
            parts.append(self._tokens.words(word_ids))
        if self._characters is not None and char_ids is not None:
            parts.append(self._characters(char_ids))
        features = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        return features if self._projection is None else self._projection(features)


class PackedCharCnn:
    """What CharCnn computes, up to the rounding of the precision; the convolutions are made in float32."""

    def __init__(self, cnn: CharCnn, precision: Precision) -> None:
        library = find_library()
        self._pool: Callable[[Tensor], Tensor] = TorchPooling(cnn)
        if library is not None and fits_table(cnn.embedding.num_embeddings, cnn.list_filters()):
            self._pool = CompiledPooling(cnn, library)
        self._activation = cnn.activation
        self._highways = [PackedHighway(layer, precision) for layer in cnn.highways if isinstance(layer, Highway)]

    def __call__(self, char_ids: Tensor) -> Tensor:
        """(U, C) -> (U, F)."""
        features = self._activation(self._pool(char_ids))
        for highway in self._highways:
            highway.change(features)
        return features


class CompiledPooling:
    """The maximum of each filter over a word, from a table."""

    def __init__(self, cnn: CharCnn, library: Library) -> None:
        filters = [weight.detach() for weight in cnn.list_filters()]
        # In float64, so that no number of threads changes a bit of the table.
        table = make_table(cnn.embedding.weight.detach().double(), [weight.double() for weight in filters])
        self._table = CharTable(library, table.float(), cnn.join_biases().detach(), filters)

    def __call__(self, char_ids: Tensor) -> Tensor:
        """(U, C) -> (U, F), before the activation."""
        # Windows that start in the padding are all alike, so one of them is enough.
        return self._table.pool(char_ids, count_before_padding(char_ids) + 1)


class TorchPooling:
    """The maximum of each filter over a word, by torch."""

    def __init__(self, cnn: CharCnn) -> None:
        self._embedding = cnn.embedding.weight.detach()
        self._width = cnn.max_width
        filters = cnn.list_filters()
        self._channels = [(weight.shape[2], weight.shape[0]) for weight in filters]
        weights = [F.pad(weight, (0, self._width - weight.shape[2])) for weight in filters]
        weight = torch.cat(weights).transpose(1, 2).flatten(start_dim=1)  # (F, width·d)
        bias = cnn.join_biases()
        self._num_features = len(bias)
        self._convolve = pack_torch_linear(weight, bias, "float32")

    def __call__(self, char_ids: Tensor) -> Tensor:
        """(U, C) -> (U, F), before the activation."""
        num_used = count_before_padding(char_ids)
        features = torch.empty(len(char_ids), self._num_features)
        order = torch.argsort(num_used, stable=True)
        start = 0
        while start < len(order):
            rows = order[start : start + self._num_at_once(int(num_used[order[start]]))]
            features[rows] = self._pool(char_ids[rows], int(num_used[rows[-1]]) + 1)
            start += len(rows)
        return features

    def _num_at_once(self, num_used: int) -> int:
        return max(1, VALUES_AT_ONCE // (self._num_features * (num_used + 2)))

    def _pool(self, char_ids: Tensor, num_starts: int) -> Tensor:
        """The maximum over windows that start at the first `num_starts` places; the rest are like the last one."""
        num_words, num_characters = char_ids.shape
        num_starts = min(num_starts, num_characters)
        ids = F.pad(char_ids, (0, self._width))[:, : num_starts + self._width - 1]
        windows = self._embedding[ids].unfold(1, self._width, 1).transpose(2, 3)  # (U, P, width, d)
        values = self._convolve(windows.reshape(num_words * num_starts, -1)).view(num_words, num_starts, -1)
        first = 0
        for width, channels in self._channels:
            # A window that reaches past the end of the ids is none.
            values[:, num_characters - width + 1 :, first : first + channels] = -torch.inf
            first += channels
        return values.amax(dim=1)


class PackedHighway:
    """One highway; both of its multiplications are made at once."""

    def __init__(self, highway: Highway, precision: Precision) -> None:
        weight = torch.cat([highway.transform.weight, highway.gate.weight])
        self._multiply = pack_linear(weight, torch.cat([highway.transform.bias, highway.gate.bias]), precision)
        self._library = find_library()

    def change(self, features: Tensor) -> None:
        """Send (U, F) through, in place."""
        dim = features.shape[1]
        for rows in torch.split(features, max(1, VALUES_AT_ONCE // (2 * dim))):
            products = self._multiply(rows)
            if self._library is not None:
                run_highway(self._library, products, rows)
            else:
                transformed, gate = torch.split(products, dim, dim=1)
                rows.lerp_(transformed.relu_(), gate.sigmoid_())


def _output_dim(tokens: TokenEncoder) -> int:
    if tokens.projection is not None:
        return tokens.projection.out_features
    dims = [] if tokens.words is None else [tokens.words.embedding_dim]
    if tokens.characters is not None:
        dims += [module.out_channels for module in tokens.characters.convolutions if isinstance(module, nn.Conv1d)]
    return sum(dims)
