"""Character ids of words -> their features or vectors: convolutions with max-pooling, highways, projection.

The library looks up the products of every character and filter position in a table, and adds them for each window.
Without it, or if the alphabet is too large for a table, windows of character vectors are multiplied.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.kernels.library import (
    MAX_HIGHWAYS,
    CharTableStruct,
    KernelError,
    Library,
    WordEncoderStruct,
    address_of,
    find_library,
)
from elmo.kernels.matrix import Array, PackedMatrix, pack_matrix

Ids = npt.NDArray[np.int64]
Linear: TypeAlias = tuple[Array, Array]  # weight (O, I) and bias (O,)

# Reading a larger table (alphabets of thousands of characters) would take longer than multiplying.
LARGEST_TABLE_BYTES = 2**25
# Values that NumPy computes at once: they should stay in the cache until they are used.
VALUES_AT_ONCE = 2**21


@dataclass(frozen=True)
class CharWeights:
    """The weights of a character network with A characters, and F features from all filters."""

    embedding: Array  # (A, d)
    filters: Sequence[Array]  # (channels, d, width) each
    bias: Array  # (F,)
    is_tanh: bool
    highways: Sequence[Linear]  # the rows of a highway's transform, then of its gate: (2F, F) and (2F,)
    projection: Linear | None  # (D, F) and (D,)


# (char_ids (U, C), single_threaded) -> (U, D); if single-threaded, the library's helper thread is not used.
EncodeCharacters: TypeAlias = Callable[[Ids, bool], Array]


def pack_characters(weights: CharWeights, *, int8: bool) -> EncodeCharacters:
    """Pack a character network for the library if it supports the network, else for NumPy."""
    library = find_library()
    sizes = [weight.shape for weight in weights.filters]
    if library is None or len(weights.highways) > MAX_HIGHWAYS or not fits_table(len(weights.embedding), sizes):
        return CharNetwork(weights, int8=int8)
    return CompiledCharNetwork(library, weights, int8=int8)


def fits_table(num_characters: int, filters: Sequence[Sequence[int]]) -> bool:
    """Return whether the table of an alphabet and filters of shape (channels, d, width) is small enough to be fast."""
    return 4 * num_characters * sum(channels * width for channels, _, width in filters) <= LARGEST_TABLE_BYTES


def count_before_padding(char_ids: Ids) -> Ids:
    """Return the number of ids of each word (U, C) before the run of equal ids at its end, (U,)."""
    differs = (char_ids != char_ids[:, -1:])[:, ::-1]
    positions = char_ids.shape[1] - differs.argmax(axis=1)
    return np.where(differs.any(axis=1), positions, 0)


class CharNetwork:
    """A character network in NumPy; if there is a library, it computes the matrix products."""

    def __init__(self, weights: CharWeights, *, int8: bool) -> None:
        self._embedding, self._is_tanh = weights.embedding, weights.is_tanh
        self._shapes = [(weight.shape[2], weight.shape[0]) for weight in weights.filters]  # widths and channels
        self._width = max(width for width, _ in self._shapes)
        padded = [np.pad(weight, ((0, 0), (0, 0), (0, self._width - weight.shape[2]))) for weight in weights.filters]
        joined = np.concatenate(padded).transpose(0, 2, 1).reshape(len(weights.bias), -1)  # (F, width·d)
        self._convolve = pack_matrix(joined, weights.bias)
        self._highways = [pack_matrix(*highway, int8=int8) for highway in weights.highways]
        self._project = None if weights.projection is None else pack_matrix(*weights.projection, int8=int8)
        self._num_features = len(weights.bias)

    def __call__(self, char_ids: Ids, single_threaded: bool = True) -> Array:
        """Encode words: character ids (U, C) -> vectors (U, D)."""
        check_ids(char_ids, len(self._embedding))
        features = self._pool(char_ids)
        features = np.tanh(features) if self._is_tanh else np.maximum(features, 0)
        rows_at_once = max(1, VALUES_AT_ONCE // (2 * self._num_features))
        for highway in self._highways:
            for start in range(0, len(features), rows_at_once):
                _pass_highway(highway, features[start : start + rows_at_once])
        return features if self._project is None else self._project(features)

    def _pool(self, char_ids: Ids) -> Array:
        """Return the maximum of each filter over a word, (U, F); words of similar length are computed together."""
        num_used = count_before_padding(char_ids)
        features = np.empty((len(char_ids), self._num_features), dtype=np.float32)
        order = np.argsort(num_used, kind="stable")
        start = 0
        while start < len(order):
            words_at_once = max(1, VALUES_AT_ONCE // (self._num_features * (int(num_used[order[start]]) + 2)))
            rows = order[start : start + words_at_once]
            features[rows] = self._pool_windows(char_ids[rows], int(num_used[rows[-1]]) + 1)
            start += len(rows)
        return features

    def _pool_windows(self, char_ids: Ids, num_starts: int) -> Array:
        """Return the maximum over windows at the first `num_starts` positions; later windows equal the last one."""
        num_words, num_characters = char_ids.shape
        num_starts = min(num_starts, num_characters)
        ids = np.pad(char_ids, ((0, 0), (0, self._width)))[:, : num_starts + self._width - 1]
        windows = np.lib.stride_tricks.sliding_window_view(self._embedding[ids], self._width, axis=1)
        windows = windows.transpose(0, 1, 3, 2).reshape(num_words * num_starts, -1)  # (U·P, width·d)
        values = self._convolve(windows).reshape(num_words, num_starts, -1)
        first = 0
        for width, channels in self._shapes:
            # Exclude windows that extend beyond the end of the ids.
            values[:, num_characters - width + 1 :, first : first + channels] = -np.inf
            first += channels
        pooled: Array = values.max(axis=1)
        return pooled


def _pass_highway(multiply: Callable[[Array], Array], rows: Array) -> None:
    """Compute y = g · relu(transform) + (1 - g) · x in place, for rows (U, F)."""
    product = multiply(rows)
    transformed, gate = product[:, : rows.shape[1]], product[:, rows.shape[1] :]
    np.maximum(transformed, 0, out=transformed)
    with np.errstate(over="ignore"):
        gate = np.float32(1) / (np.float32(1) + np.exp(-gate))
    transformed -= rows
    transformed *= gate
    rows += transformed


def check_ids(char_ids: Ids, alphabet_size: int) -> None:
    """Raise KernelError if an id is outside the alphabet."""
    if char_ids.size and not 0 <= char_ids.min() <= char_ids.max() < alphabet_size:
        raise KernelError(f"Character ids must lie between 0 and {alphabet_size - 1}.")


def make_table(embedding: Array, filters: Sequence[Array]) -> Array:
    """Return the products of an alphabet (A, d) with filters (channels, d, width): one row per character."""
    columns = [weight.transpose(1, 2, 0).reshape(weight.shape[1], -1) for weight in filters]  # (d, width·channels)
    # In float64, so that the bits of the table do not depend on the number of threads.
    table = embedding.astype(np.float64) @ np.concatenate(columns, axis=1).astype(np.float64)
    return table.astype(np.float32)


class CharTable:
    """A table in the library's layout, and the bias (F,) of its filters of shape (channels, d, width)."""

    def __init__(self, table: Array, bias: Array, filters: Sequence[Sequence[int]]) -> None:
        self.table, self.bias = np.ascontiguousarray(table), np.ascontiguousarray(bias)
        self._widths = np.array([width for _, _, width in filters], dtype=np.int64)
        self._channels = np.array([channels for channels, _, _ in filters], dtype=np.int64)
        row_size = int((self._widths * self._channels).sum())
        address_of(self.table, "table", np.float32, (len(table), row_size))
        address_of(self.bias, "bias", np.float32, (int(self._channels.sum()),))

    def describe(self, num_characters: int) -> CharTableStruct:
        """Return the struct for words of `num_characters` ids."""
        if num_characters < self._widths.max():
            raise KernelError(f"{num_characters} ids per word are fewer than the widest filter needs.")
        return CharTableStruct(
            len(self.bias), len(self._widths), num_characters, self._widths.ctypes.data,
            self._channels.ctypes.data, self.table.ctypes.data, self.table.shape[1], self.bias.ctypes.data,
        )  # fmt: skip


class CompiledCharNetwork:
    """A character network that runs in a single library call."""

    def __init__(self, library: Library, weights: CharWeights, *, int8: bool) -> None:
        self._library = library
        table = make_table(weights.embedding, weights.filters)
        self._table = CharTable(table, weights.bias, [weight.shape for weight in weights.filters])
        self._highways = [PackedMatrix(library, *highway, int8=int8) for highway in weights.highways]
        self._projection = None if weights.projection is None else PackedMatrix(library, *weights.projection, int8=int8)
        self._is_tanh = weights.is_tanh
        self._output_dim = len(weights.bias) if self._projection is None else self._projection.num_outputs
        self._structs: dict[int, WordEncoderStruct] = {}  # by the number of characters per word

    def __call__(self, char_ids: Ids, single_threaded: bool = True) -> Array:
        """Encode words: character ids (U, C) -> vectors (U, D)."""
        num_words, num_characters = char_ids.shape
        address = address_of(char_ids, "char_ids", np.int64, (num_words, num_characters))
        struct = self._structs.get(num_characters)
        if struct is None:
            struct = self._structs[num_characters] = self._describe(num_characters)
        vectors = np.empty((num_words, self._output_dim), dtype=np.float32)
        library = self._library
        failed = library.run_with_scratch(
            library.encode, ctypes.addressof(struct), address, num_words, single_threaded, vectors.ctypes.data
        )
        if failed:
            raise KernelError(f"Character ids must lie between 0 and {len(self._table.table) - 1}.")
        return vectors

    def _describe(self, num_characters: int) -> WordEncoderStruct:
        struct = WordEncoderStruct(
            table=self._table.describe(num_characters),
            alphabet_size=len(self._table.table),
            activation=self._is_tanh,
            num_highways=len(self._highways),
        )
        for number, highway in enumerate(self._highways):
            struct.highways[number], struct.highway_biases[number] = highway.struct, highway.bias_address
        if self._projection is not None:
            struct.projection, struct.projection_bias = self._projection.struct, self._projection.bias_address
        return struct
