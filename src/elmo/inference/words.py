"""Encode the distinct tokens of a batch as context-free vectors, cached by token."""

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.config import CharacterConfig, ModelConfig
from elmo.errors import InputError
from elmo.inference.workers import ForkSafeLock, Workers
from elmo.kernels.characters import CharWeights, EncodeCharacters, pack_characters
from elmo.kernels.library import find_library
from elmo.kernels.matrix import Multiply, pack_matrix
from elmo.text.batch import CharBatch, TokenIds

Array = npt.NDArray[np.float32]
Weights = Mapping[str, Any]  # array-likes by their names in a checkpoint
DEFAULT_BYTES = 128 * 2**20
_BYTES_PER_KEY = 256  # approximate size of a key and its table entry
_NO_ROW = -1
WORDS_AT_ONCE = 2048
MIN_WORDS_FOR_TWO_THREADS = 4  # one thread encodes fewer words before a second one starts


@dataclass(frozen=True)
class CacheInfo:
    """Hits, misses and size of a word cache. A word counts once per batch."""

    num_hits: int
    num_misses: int
    num_words: int
    max_words: int
    num_bytes: int

    @property
    def hit_rate(self) -> float:
        """The fraction of words whose vectors were in the cache, 0 to 1."""
        return self.num_hits / max(1, self.num_hits + self.num_misses)


class WordCache:
    """A thread-safe LRU cache: each key owns a row of one array of vectors."""

    def __init__(self, dim: int, *, max_bytes: int = DEFAULT_BYTES) -> None:
        self._row_bytes = 4 * dim + _BYTES_PER_KEY
        self._max_words = max_bytes // self._row_bytes
        self._rows: OrderedDict[Hashable, int] = OrderedDict()  # the least recently used key first
        # Rows 0 to len(self._rows) - 1 are in use; the system provides memory as rows are written.
        self._vectors: Array = np.empty((max(1, self._max_words), dim), dtype=np.float32)
        self._num_hits = self._num_misses = 0
        self._lock = ForkSafeLock(self.clear)

    def info(self) -> CacheInfo:
        """Return the hits, misses and size of the cache."""
        with self._lock:
            num_words = len(self._rows)
            return CacheInfo(self._num_hits, self._num_misses, num_words, self._max_words, num_words * self._row_bytes)

    def clear(self) -> None:
        """Remove all words and reset the counters."""
        with self._lock:
            self._rows = OrderedDict()
            self._num_hits = self._num_misses = 0

    def look_up(self, keys: Sequence[Hashable], encode: Callable[[list[int]], Array]) -> Array:
        """Return the vectors (U, D) of keys; `encode` computes missing vectors, given the positions of their keys."""
        with self._lock:
            get_row, missing = self._rows.get, []
            rows = [get_row(key, _NO_ROW) for key in keys]
            for position, row in enumerate(rows):
                if row == _NO_ROW:
                    missing.append(position)
                else:
                    self._rows.move_to_end(keys[position])
            vectors = self._vectors.take(rows, axis=0)  # any vector for a missing key
            self._num_hits += len(keys) - len(missing)
            self._num_misses += len(missing)
        if missing:
            vectors[missing] = encoded = encode(missing)
            self._keep([keys[position] for position in missing], encoded)
        return vectors

    def _keep(self, keys: Sequence[Hashable], vectors: Array) -> None:
        """Store new keys with their vectors; if they are too many for the cache, only the last are stored."""
        if not self._max_words:
            return
        keys, vectors = keys[-self._max_words :], vectors[-self._max_words :]
        with self._lock:
            for key, vector in zip(keys, vectors, strict=True):
                if key in self._rows:  # added by another thread in the meantime
                    continue
                if len(self._rows) < self._max_words:
                    row = len(self._rows)
                else:
                    _, row = self._rows.popitem(last=False)
                self._rows[key] = row
                self._vectors[row] = vector


def take(weights: Weights, name: str) -> Array:
    """Return a weight as float32."""
    return np.asarray(weights[name], dtype=np.float32)


class WordEncoder:
    """Word embeddings and character features, whichever the model has, projected to D dimensions."""

    def __init__(
        self, config: ModelConfig, weights: Weights, workers: Workers, *, int8: bool, cache_bytes: int
    ) -> None:
        projection = None
        if config.token_projection:
            projection = take(weights, "tokens.projection.weight"), take(weights, "tokens.projection.bias")
        self._words = take(weights, "tokens.words.weight") if config.words else None
        self._characters: EncodeCharacters | None = None
        self._project: Multiply | None = None
        if config.characters:
            # Without word embeddings, the projection is part of the same kernel call.
            included = projection if self._words is None else None
            self._characters = pack_characters(read_characters(config.characters, weights, included), int8=int8)
        if projection is not None and self._words is not None:
            self._project = pack_matrix(*projection, int8=int8)
        self._workers = workers
        library = find_library()
        self._has_helper = library is not None and library.has_helper
        self.cache = WordCache(config.encoder.output_dim, max_bytes=cache_bytes)

    def encode(self, batch: CharBatch) -> Array:
        """Return the vectors (U, D) of a batch's distinct tokens."""
        keys, look_up = batch.keys, batch.look_up
        return self.cache.look_up(
            keys, lambda positions: self._encode_ids(look_up([keys[position] for position in positions]))
        )

    def _encode_ids(self, ids: TokenIds) -> Array:
        num_tokens = next(len(part) for part in ids if part is not None)
        use_two_threads = self._workers.num_threads > 1 and num_tokens >= MIN_WORDS_FOR_TWO_THREADS
        if num_tokens <= WORDS_AT_ONCE:
            return self._encode(ids, not (use_two_threads and self._has_helper))
        tasks: list[Callable[[], Array]] = []
        for start in range(0, num_tokens, WORDS_AT_ONCE):
            window = slice(start, start + WORDS_AT_ONCE)
            window_ids = TokenIds(*(None if part is None else part[window] for part in ids))
            tasks.append(functools.partial(self._encode, window_ids, single_threaded=True))
        return np.concatenate(self._workers.run(tasks))

    def _encode(self, ids: TokenIds, single_threaded: bool) -> Array:
        parts: list[Array] = []
        if self._words is not None:
            if ids.words is None:
                raise InputError("The model has word embeddings, but the batch has no word ids.")
            parts.append(self._words[ids.words])
        if self._characters is not None:
            if ids.characters is None:
                raise InputError("The model has a character network, but the batch has no character ids.")
            parts.append(self._characters(ids.characters, single_threaded))
        features = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
        return features if self._project is None else self._project(features)


def read_characters(
    characters: CharacterConfig, weights: Weights, projection: tuple[Array, Array] | None
) -> CharWeights:
    """Return the weights of a checkpoint's character network."""
    prefix = "tokens.characters"
    convolutions = [f"{prefix}.convolutions.{number}" for number in range(len(characters.filters))]
    highways = [f"{prefix}.highways.{number}" for number in range(characters.num_highways)]
    return CharWeights(
        embedding=take(weights, f"{prefix}.embedding.weight"),
        filters=[take(weights, f"{name}.weight") for name in convolutions],
        bias=np.concatenate([take(weights, f"{name}.bias") for name in convolutions]),
        is_tanh=characters.activation == "tanh",
        highways=[
            (
                np.concatenate([take(weights, f"{name}.{half}.weight") for half in ("transform", "gate")]),
                np.concatenate([take(weights, f"{name}.{half}.bias") for half in ("transform", "gate")]),
            )
            for name in highways
        ],
        projection=projection,
    )
