"""Vectors of words that were encoded before, least recently used ones leaving first. Safe to share by threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

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
