"""Tokens by name -> vectors computed before, at most so many bytes of them; the least recently used go first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.inference.forks import follow_forks

Array = npt.NDArray[np.float32]
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
    """Keys -> rows of one array of vectors. Each key has a row that no other key has; safe in several threads."""

    def __init__(self, dim: int, *, max_bytes: int = DEFAULT_BYTES) -> None:
        self._row_bytes = 4 * dim + _BYTES_PER_KEY
        self._dim, self._max_bytes = dim, max_bytes
        self._max_words = max_bytes // self._row_bytes
        self._rows: OrderedDict[Hashable, int] = OrderedDict()  # the least recently used key first
        self._vectors: Array = np.empty((0, dim), dtype=np.float32)  # rows 0 to len(self._rows) - 1 are taken
        self._num_hits = self._num_misses = 0
        self._lock = threading.Lock()
        follow_forks(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_cache, (self._dim, self._max_bytes)  # a copy begins empty

    def after_fork(self) -> None:
        """Take a lock of this process; forget everything if another thread was changing it at the fork."""
        was_held, self._lock = self._lock.locked(), threading.Lock()
        if was_held:
            self.clear()

    def info(self) -> CacheInfo:
        """Return how often words were there, and how full the cache is."""
        with self._lock:
            num_words = len(self._rows)
            return CacheInfo(
                self._num_hits, self._num_misses, num_words, self._max_words, num_words * self._row_bytes
            )

    def clear(self) -> None:
        """Forget all words, and how often they were there."""
        with self._lock:
            self._rows = OrderedDict()
            self._num_hits = self._num_misses = 0

    def look_up(self, keys: Sequence[Hashable], encode: Callable[[list[int]], Array]) -> Array:
        """Return the vectors (U, D) of keys; `encode` makes those of the missing ones, named by position."""
        with self._lock:
            find = self._rows.get
            rows = [find(key, _NO_ROW) for key in keys]
            if _NO_ROW not in rows:
                self._num_hits += len(keys)
                for key in keys:
                    self._rows.move_to_end(key)
                return self._vectors.take(rows, axis=0)
            missing = [position for position, row in enumerate(rows) if row == _NO_ROW]
            present = [position for position, row in enumerate(rows) if row != _NO_ROW]
            for position in present:
                self._rows.move_to_end(keys[position])
            known = self._vectors.take(np.array([rows[position] for position in present], dtype=np.int64), axis=0)
            self._num_hits += len(present)
            self._num_misses += len(missing)
        encoded = encode(missing)
        self._keep([keys[position] for position in missing], encoded)
        if not present:
            return encoded
        vectors = np.empty((len(keys), self._dim), dtype=np.float32)
        vectors[present], vectors[missing] = known, encoded
        return vectors

    def _keep(self, keys: Sequence[Hashable], vectors: Array) -> None:
        """Store new keys with their vectors; of more than fit, the last ones."""
        if not self._max_words:
            return
        keys, vectors = keys[-self._max_words :], vectors[-self._max_words :]
        with self._lock:
            self._grow(min(self._max_words, len(self._rows) + len(keys)))
            for key, vector in zip(keys, vectors, strict=True):
                if key in self._rows:  # another thread added it meanwhile
                    continue
                if len(self._rows) < self._max_words:
                    row = len(self._rows)
                else:
                    _, row = self._rows.popitem(last=False)
                self._rows[key] = row
                self._vectors[row] = vector

    def _grow(self, num_rows: int) -> None:
        if num_rows > len(self._vectors):
            size = min(self._max_words, max(_FIRST_ROWS, num_rows, 2 * len(self._vectors)))
            grown = np.empty((size, self._dim), dtype=np.float32)
            grown[: len(self._vectors)] = self._vectors
            self._vectors = grown


def _make_cache(dim: int, max_bytes: int) -> WordCache:
    return WordCache(dim, max_bytes=max_bytes)
