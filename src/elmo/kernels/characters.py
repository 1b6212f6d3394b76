"""The character convolutions and highways of words in compiled loops.

A table has the products of every character with every place of every filter; a window is then a sum of its rows.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from elmo.kernels.library import CharTableStruct, Library, WordEncoderStruct
from elmo.kernels.matrix import PackedMatrix

# A larger table (alphabets of thousands of characters) would take longer to read than to multiply.
LARGEST_TABLE_BYTES = 2**25


def fits_table(num_characters: int, filters: Sequence[Tensor]) -> bool:
    """Whether a table of this alphabet and these filters (channels, d, width) is small enough to be worth it."""
    return 4 * num_characters * sum(weight[:, 0].numel() for weight in filters) <= LARGEST_TABLE_BYTES


def make_table(embedding: Tensor, filters: Sequence[Tensor]) -> Tensor:
    """Return the products of an alphabet (A, d) with filters (channels, d, width): one row per character."""
    columns = [weight.permute(1, 2, 0).flatten(start_dim=1) for weight in filters]  # (d, width·channels)
    return embedding @ torch.cat(columns, dim=1)


class CharTable:
    """A table laid out for the library, and the bias (F,) of its filters."""

    def __init__(self, library: Library, table: Tensor, bias: Tensor, filters: Sequence[Tensor]) -> None:
        self._library = library
        self.table, self.bias = table.contiguous(), bias.contiguous()
        self._widths = torch.tensor([weight.shape[2] for weight in filters])
        self._channels = torch.tensor([weight.shape[0] for weight in filters])

    def pool(self, char_ids: Tensor, num_starts: Tensor, starts: Tensor | None = None) -> Tensor:
        """Return each filter's maximum plus bias, (U, F), over the windows that start in a word's first places.

        `char_ids` (U, C), `num_starts` (U,); windows end at the last character. `starts` (U, F) receives where the
        largest windows start.
        """
        char_ids, num_starts = char_ids.contiguous(), num_starts.contiguous()
        if char_ids.numel():
            lowest, highest = map(int, char_ids.aminmax())
            if lowest < 0 or highest >= len(self.table):
                raise IndexError(f"character ids must lie between 0 and {len(self.table) - 1}")
        features = torch.empty(len(char_ids), len(self.bias))
        struct = self.describe(char_ids.shape[1])
        self._library.convolve(
            ctypes.addressof(struct), char_ids.data_ptr(), num_starts.data_ptr(), len(char_ids),
            features.data_ptr(), None if starts is None else starts.data_ptr(),
        )  # fmt: skip
        return features

    def pool_back(self, char_ids: Tensor, starts: Tensor, grad_features: Tensor) -> Tensor:
        """Return the gradient of the table, given where the largest windows started."""
        grad_table = torch.zeros_like(self.table)
        grad_features = grad_features.contiguous()
        struct = self.describe(char_ids.shape[1])
        self._library.convolve_back(
            ctypes.addressof(struct), char_ids.data_ptr(), len(char_ids),
            starts.data_ptr(), grad_features.data_ptr(), grad_table.data_ptr(),
        )  # fmt: skip
        return grad_table

    def describe(self, num_characters: int) -> CharTableStruct:
        """Return the struct for words of so many characters."""
        return CharTableStruct(
            len(self.bias), len(self._widths), num_characters, self._widths.data_ptr(),
            self._channels.data_ptr(), self.table.data_ptr(), self.table.shape[1], self.bias.data_ptr(),
        )  # fmt: skip


def pool_with_gradients(
    library: Library,
    embedding: Tensor,
    filters: Sequence[Tensor],
    bias: Tensor,
    char_ids: Tensor,
    num_starts: Tensor,
) -> Tensor:
    """Return what CharTable.pool does, with gradients of the embedding (A, d), the filters and the bias (F,)."""
    with torch.autocast("cpu", enabled=False):
        table = make_table(embedding, filters)
    features: Tensor = TablePooling.apply(table, bias, filters, library, char_ids, num_starts)  # type: ignore[no-untyped-call]
    return features


class TablePooling(torch.autograd.Function):
    """CharTable.pool with gradients of the table and the bias."""

    @staticmethod
    def forward(
        ctx: Any,
        table: Tensor,
        bias: Tensor,
        filters: Sequence[Tensor],
        library: Library,
        char_ids: Tensor,
        num_starts: Tensor,
    ) -> Tensor:
        """Return the features (U, F) before the activation."""
        ctx.table = made = CharTable(library, table, bias, filters)
        char_ids = char_ids.contiguous()
        starts = torch.empty(len(char_ids), len(bias))
        ctx.save_for_backward(char_ids, starts)
        return made.pool(char_ids, num_starts, starts)

    @staticmethod
    def backward(ctx: Any, grad_features: Tensor) -> Any:
        """Return the gradients of the table and the bias."""
        char_ids, starts = ctx.saved_tensors
        grad_table = ctx.table.pool_back(char_ids, starts, grad_features)
        return grad_table, grad_features.sum(dim=0), None, None, None, None


class CompiledWordEncoder:
    """Character ids (U, C) of words -> their vectors: table, activation, highways and projection in one call."""

    def __init__(
        self,
        library: Library,
        table: CharTable,
        *,
        is_tanh: bool,
        highways: Sequence[tuple[Tensor, Tensor]],
        projection: tuple[Tensor, Tensor] | None,
        int8: bool,
    ) -> None:
        """`highways` and `projection` are weights and biases; a highway's transform stands above its gate."""
        self._library, self._table = library, table
        self.has_helper = library.has_helper
        self._highways = [PackedMatrix(library, *each, int8=int8) for each in highways]
        self._projection = None if projection is None else PackedMatrix(library, *projection, int8=int8)
        self._is_tanh = is_tanh
        self.output_dim = len(table.bias) if self._projection is None else self._projection.num_outputs
        self._structs: dict[int, WordEncoderStruct] = {}  # by the number of characters per word

    def __call__(self, char_ids: Tensor, *, alone: bool = True) -> Tensor:
        """Return the vectors (U, D); unless `alone`, the helper thread makes half of them."""
        char_ids = char_ids.contiguous()
        num_words, num_characters = char_ids.shape
        struct = self._structs.get(num_characters)
        if struct is None:
            struct = self._structs[num_characters] = self._describe(num_characters)
        vectors = torch.empty(num_words, self.output_dim)
        library = self._library
        failed = library.run_with_scratch(
            library.encode, ctypes.addressof(struct), char_ids.data_ptr(), num_words, alone, vectors.data_ptr()
        )
        if failed:
            raise IndexError(f"character ids must lie between 0 and {len(self._table.table) - 1}")
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
