"""Character ids of distinct words -> features, without gradients, with weights laid out for a precision.

Compiled: a table has every character's products with every place of every filter; a window is a sum of its rows.
In torch: all filters are one multiplication over windows as wide as the widest; narrower filters have zeros.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.inference.packed_linear import pack_linear, pack_torch_linear
from elmo.inference.precision import Precision
from elmo.kernels.characters import CharTable, fits_table, make_table, run_highway
from elmo.kernels.library import Library, find_library
from elmo.nn.char_cnn import CharCnn, Highway, count_before_padding

# Values that are made at once: they should stay in the cache until they are used.
VALUES_AT_ONCE = 2**21


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
