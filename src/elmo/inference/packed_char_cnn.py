"""Character ids of distinct words -> features, without gradients, with weights laid out for a precision.

All filters are one product: windows as wide as the widest, where narrower filters have zeros.
"""

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.inference.packed_linear import pack_linear
from elmo.inference.precision import Precision
from elmo.nn.char_cnn import CharCnn, Highway

# Values that are made at once: they should stay in the cache until they are used.
VALUES_AT_ONCE = 2**21


class PackedCharCnn:
    """What CharCnn gives, up to the rounding of the precision; the convolutions are made in float32."""

    def __init__(self, cnn: CharCnn, precision: Precision) -> None:
        convolutions = [module for module in cnn.convolutions if isinstance(module, nn.Conv1d)]
        self._embedding = cnn.embedding.weight.detach()
        self._activation = cnn.activation
        self._width = cnn.max_width
        self._channels = [(module.kernel_size[0], module.out_channels) for module in convolutions]
        weights = [F.pad(module.weight, (0, self._width - module.kernel_size[0])) for module in convolutions]
        weight = torch.cat(weights).transpose(1, 2).flatten(start_dim=1)  # (F, width·d)
        bias = torch.cat([module.bias for module in convolutions if module.bias is not None])
        self._num_features = len(bias)
        self._convolve = pack_linear(weight, bias, "float32")
        self._highways = [PackedHighway(layer, precision) for layer in cnn.highways if isinstance(layer, Highway)]

    def __call__(self, char_ids: Tensor) -> Tensor:
        """(U, C) -> (U, F)."""
        num_used = _count_before_padding(char_ids.numpy())
        features = torch.empty(len(char_ids), self._num_features)
        order = np.argsort(num_used, kind="stable")
        start = 0
        while start < len(order):
            rows = order[start : start + self._num_at_once(num_used[order[start]])]
            features[torch.from_numpy(rows)] = self._pool(char_ids[rows], int(num_used[rows[-1]]) + 1)
            start += len(rows)
        features = self._activation(features)
        for highway in self._highways:
            highway.change(features)
        return features

    def _num_at_once(self, num_used: int) -> int:
        return max(1, VALUES_AT_ONCE // (self._num_features * (int(num_used) + 2)))

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


def _count_before_padding(char_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(U,): how many ids of each row come before those at its end that are all the same."""
    differs = (char_ids != char_ids[:, -1:])[:, ::-1]
    return np.where(differs.any(axis=1), char_ids.shape[1] - differs.argmax(axis=1), 0)


class PackedHighway:
    """One highway; both of its products are made at once."""

    def __init__(self, highway: Highway, precision: Precision) -> None:
        weight = torch.cat([highway.transform.weight, highway.gate.weight])
        self._multiply = pack_linear(weight, torch.cat([highway.transform.bias, highway.gate.bias]), precision)

    def change(self, features: Tensor) -> None:
        """Send (U, F) through, in place."""
        dim = features.shape[1]
        for rows in torch.split(features, max(1, VALUES_AT_ONCE // (2 * dim))):
            transformed, gate = torch.split(self._multiply(rows), dim, dim=1)
            rows.lerp_(transformed.relu_(), gate.sigmoid_())
