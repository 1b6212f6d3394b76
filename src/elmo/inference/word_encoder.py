"""Distinct words of a batch -> their context-free vectors, each word encoded once as long as it is remembered."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.inference.packed_lstm import pack_linear, pack_torch_linear
from elmo.inference.precision import COMPILED_PRECISIONS, Precision
from elmo.inference.workers import MAX_WORKERS, Workers
from elmo.kernels.characters import CharTable, CompiledWordEncoder, fits_table, make_table
from elmo.kernels.library import MAX_HIGHWAYS, find_library
from elmo.nn.bilm import TokenEncoder
from elmo.nn.char_cnn import CharCnn, Highway, count_before_padding
from elmo.text.batch import CharBatch

WORDS_AT_ONCE = 1024
LEAST_WORDS_FOR_TWO = 16
LEAST_COMPILED_WORDS_FOR_TWO = 4  # fewer are encoded before another thread has begun
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
        self._compiled = _compile(tokens, precision) if on_cpu else None
        self._characters: PackedCharCnn | None = None
        self._projection: Callable[[Tensor], Tensor] | None = None
        if on_cpu and tokens.characters is not None and self._compiled is None:
            self._characters = PackedCharCnn(tokens.characters, precision)
        if on_cpu and tokens.projection is not None and self._compiled is None:
            self._projection = pack_linear(tokens.projection.weight, tokens.projection.bias, precision)
        self.cache = WordCache(_output_dim(tokens), max_bytes=cache_bytes, device=device)

    def encode(self, batch: CharBatch) -> Tensor:
        """Return the vectors (U, D) of a batch's distinct words."""
        return self.cache.look_up(
            make_keys(batch.char_ids, batch.word_ids), lambda positions: self._encode_new(batch, positions)
        )

    def _encode_new(self, batch: CharBatch, positions: list[int]) -> Tensor:
        if self._compiled is not None and batch.char_ids is not None and self._compiled.has_helper:
            alone = self._workers.num_workers == 1 or len(positions) < LEAST_COMPILED_WORDS_FOR_TWO
            char_ids = batch.char_ids.numpy()
            wanted_ids = char_ids if len(positions) == len(char_ids) else char_ids[positions]
            return self._compiled(torch.from_numpy(wanted_ids), alone=alone)
        wanted = torch.tensor(positions, device=batch.word_index.device)
        tasks = []
        for window in torch.split(wanted, WORDS_AT_ONCE):
            # The same parts for any number of threads: how torch rounds may depend on the number of rows.
            for part in window.chunk(MAX_WORKERS if len(window) >= LEAST_WORDS_FOR_TWO else 1):
                ids = [
                    None if all_ids is None else all_ids.index_select(0, part)
                    for all_ids in (batch.char_ids, batch.word_ids)
                ]
                tasks.append(functools.partial(self._encode_part, *ids))
        encoded = self._workers.run(tasks)
        return torch.cat(encoded) if len(encoded) > 1 else encoded[0]

    def _encode_part(self, char_ids: Tensor | None, word_ids: Tensor | None) -> Tensor:
        if self._compiled is not None and char_ids is not None:
            return self._compiled(char_ids)
        if self._characters is None and self._projection is None:
            return cast(Tensor, self._tokens(char_ids, word_ids))
        parts = []
        if self._tokens.words is not None:
            parts.append(self._tokens.words(word_ids))
        if self._characters is not None and char_ids is not None:
            parts.append(self._characters(char_ids))
        features = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        return features if self._projection is None else self._projection(features)


def _compile(tokens: TokenEncoder, precision: Precision) -> CompiledWordEncoder | None:
    """Return the whole encoder in compiled code, or None where it reads more than characters or is too large."""
    if (
        tokens.characters is None
        or tokens.words is not None
        or not _compiles_highways(tokens.characters, precision)
    ):
        return None
    return _compile_characters(tokens.characters, precision, tokens.projection)


def _compiles_highways(cnn: CharCnn, precision: Precision) -> bool:
    return precision in COMPILED_PRECISIONS and len(cnn.highways) <= MAX_HIGHWAYS


def _compile_characters(
    cnn: CharCnn, precision: Precision, projection: nn.Linear | None = None
) -> CompiledWordEncoder | None:
    """Return the convolutions, and the highways where the precision has them in compiled code."""
    library = find_library()
    filters = [weight.detach() for weight in cnn.list_filters()]
    if library is None or not fits_table(cnn.embedding.num_embeddings, filters):
        return None
    # In float64, so that no number of threads changes a bit of the table.
    table = make_table(cnn.embedding.weight.detach().double(), [weight.double() for weight in filters])
    return CompiledWordEncoder(
        library,
        CharTable(library, table.float(), cnn.join_biases().detach(), filters),
        is_tanh=cnn.activation is torch.tanh,
        highways=[_join_highway(each) for each in _list_highways(cnn)]
        if _compiles_highways(cnn, precision)
        else [],
        projection=None if projection is None else (projection.weight, projection.bias),
        int8=precision == "int8",
    )


class PackedCharCnn:
    """What CharCnn computes, up to the rounding of the precision; the convolutions are made in float32."""

    def __init__(self, cnn: CharCnn, precision: Precision) -> None:
        compiled = _compile_characters(cnn, precision)
        self._convolve: Callable[[Tensor], Tensor] = TorchPooling(cnn) if compiled is None else compiled
        has_highways = compiled is not None and _compiles_highways(cnn, precision)
        rest = [] if has_highways else _list_highways(cnn)
        self._highways = [PackedHighway(layer, precision) for layer in rest]

    def __call__(self, char_ids: Tensor) -> Tensor:
        """(U, C) -> (U, F)."""
        features = self._convolve(char_ids)
        for highway in self._highways:
            highway.change(features)
        return features


class TorchPooling:
    """The maximum of each filter over a word and its activation, by torch."""

    def __init__(self, cnn: CharCnn) -> None:
        self._embedding = cnn.embedding.weight.detach()
        self._width = cnn.max_width
        self._activation = cnn.activation
        filters = cnn.list_filters()
        self._channels = [(weight.shape[2], weight.shape[0]) for weight in filters]
        weights = [F.pad(weight, (0, self._width - weight.shape[2])) for weight in filters]
        weight = torch.cat(weights).transpose(1, 2).flatten(start_dim=1)  # (F, width·d)
        bias = cnn.join_biases()
        self._num_features = len(bias)
        self._convolve = pack_torch_linear(weight, bias, "float32")

    def __call__(self, char_ids: Tensor) -> Tensor:
        """(U, C) -> (U, F)."""
        num_used = count_before_padding(char_ids)
        features = torch.empty(len(char_ids), self._num_features)
        order = torch.argsort(num_used, stable=True)
        start = 0
        while start < len(order):
            rows = order[start : start + self._num_at_once(int(num_used[order[start]]))]
            features[rows] = self._pool(char_ids[rows], int(num_used[rows[-1]]) + 1)
            start += len(rows)
        return self._activation(features)

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
        self._multiply = pack_linear(*_join_highway(highway), precision)

    def change(self, features: Tensor) -> None:
        """Send (U, F) through, in place."""
        dim = features.shape[1]
        for rows in torch.split(features, max(1, VALUES_AT_ONCE // (2 * dim))):
            transformed, gate = torch.split(self._multiply(rows), dim, dim=1)
            rows.lerp_(transformed.relu_(), gate.sigmoid_())


def _list_highways(cnn: CharCnn) -> list[Highway]:
    return [layer for layer in cnn.highways if isinstance(layer, Highway)]


def _join_highway(highway: Highway) -> tuple[Tensor, Tensor]:
    """Return weights and bias of the transform and, below it, of the gate."""
    both = (highway.transform, highway.gate)
    return torch.cat([part.weight for part in both]), torch.cat([part.bias for part in both])


def _output_dim(tokens: TokenEncoder) -> int:
    if tokens.projection is not None:
        return tokens.projection.out_features
    dims = [] if tokens.words is None else [tokens.words.embedding_dim]
    if tokens.characters is not None:
        dims += [module.out_channels for module in tokens.characters.convolutions if isinstance(module, nn.Conv1d)]
    return sum(dims)


DEFAULT_BYTES = 128 * 2**20
_BYTES_PER_KEY = 256  # about what a key and its place in the table take
_FIRST_ROWS = 1024
_NO_ROW = -1


@dataclass(frozen=True)
class CacheInfo:
    """What a word cache did so far, and how full it is. A word counts once in each batch."""

    num_hits: int
    num_misses: int
    num_words: int
    max_words: int
    num_bytes: int

    @property
    def hit_rate(self) -> float:
        """The share of words that were there, 0 to 1."""
        return self.num_hits / max(1, self.num_hits + self.num_misses)


class WordCache:
    """Keys of words -> their vectors, at most `max_bytes` of them."""

    def __init__(self, dim: int, *, max_bytes: int = DEFAULT_BYTES, device: torch.device | str = "cpu") -> None:
        self._row_bytes = 4 * dim + _BYTES_PER_KEY
        self._max_words = max_bytes // self._row_bytes
        self._rows: OrderedDict[bytes, int] = OrderedDict()
        self._vectors = torch.empty(0, dim, device=device)
        self._num_hits = self._num_misses = 0
        self._lock = threading.Lock()

    def info(self) -> CacheInfo:
        """Return how often words were found, and how full the cache is."""
        with self._lock:
            num_words = len(self._rows)
            return CacheInfo(
                self._num_hits, self._num_misses, num_words, self._max_words, num_words * self._row_bytes
            )

    def clear(self) -> None:
        """Forget all words, and how often they were found."""
        with self._lock:
            self._rows.clear()
            self._num_hits = self._num_misses = 0

    def look_up(self, keys: Sequence[bytes], encode: Callable[[list[int]], Tensor]) -> Tensor:
        """Return the vectors (U, D) of distinct words; `encode` makes those of the missing ones, by position."""
        with self._lock:
            find, move_to_end = self._rows.get, self._rows.move_to_end
            rows = [find(key, _NO_ROW) for key in keys]
            missing = [position for position, row in enumerate(rows) if row == _NO_ROW]
            here = (
                [position for position, row in enumerate(rows) if row != _NO_ROW] if missing else range(len(keys))
            )
            for position in here:
                move_to_end(keys[position])
            known = _take_rows(self._vectors, [rows[position] for position in here])
            self._num_hits += len(here)
            self._num_misses += len(missing)
        if not missing:
            return known
        vectors = encode(missing)
        self._keep([keys[position] for position in missing], vectors)
        if not here:
            return vectors
        result = known.new_empty(len(keys), known.shape[1])
        _put_rows(result, here, known)
        _put_rows(result, missing, vectors)
        return result

    def _keep(self, keys: Sequence[bytes], vectors: Tensor) -> None:
        if not self._max_words:
            return
        with self._lock:
            # Another thread may have added some meanwhile.
            new = [number for number, key in enumerate(keys) if key not in self._rows][-self._max_words :]
            self._grow(min(self._max_words, len(self._rows) + len(new)))
            rows = []
            for number in new:
                full = len(self._rows) == self._max_words
                row = self._rows.popitem(last=False)[1] if full else len(self._rows)
                self._rows[keys[number]] = row
                rows.append(row)
            _put_rows(self._vectors, rows, vectors if len(new) == len(vectors) else _take_rows(vectors, new))

    def _grow(self, num_rows: int) -> None:
        if num_rows > len(self._vectors):
            size = min(self._max_words, max(_FIRST_ROWS, num_rows, 2 * len(self._vectors)))
            grown = self._vectors.new_empty(size, self._vectors.shape[1])
            grown[: len(self._vectors)] = self._vectors
            self._vectors = grown


# On the CPU by numpy: torch would wake its threads, and they wait for more work in a loop, on the cores that the
# kernels need.


def _take_rows(vectors: Tensor, rows: Sequence[int]) -> Tensor:
    index = np.array(rows, dtype=np.int64)
    if vectors.is_cpu:
        return torch.from_numpy(vectors.numpy().take(index, axis=0))
    return vectors.index_select(0, torch.from_numpy(index).to(vectors.device))


def _put_rows(vectors: Tensor, rows: Sequence[int], new: Tensor) -> None:
    index = np.array(rows, dtype=np.int64)
    if vectors.is_cpu:
        vectors.numpy()[index] = new.numpy()
    else:
        vectors.index_copy_(0, torch.from_numpy(index).to(vectors.device), new)


def make_keys(*ids: Tensor | None) -> list[bytes]:
    """Return a key for each word from what the network reads of it: its characters (U, C), its number (U,)."""
    columns = [part.cpu().numpy().reshape(len(part), -1).astype(np.int32) for part in ids if part is not None]
    joined = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
    content, size = joined.tobytes(), joined.shape[1] * joined.itemsize
    return [content[start : start + size] for start in range(0, len(content), size)]
