"""The character convolutions and highways of a few words in compiled loops."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from elmo.kernels.library import CharTableStruct, Library


class CharTable:
    """The products of every character with every place of every filter; a window is then a sum of rows."""

    def __init__(self, library: Library, embedding: Tensor, filters: Sequence[Tensor], bias: Tensor) -> None:
        """Make the table of an alphabet (A, d), filters (channels, d, width) and their biases (F,)."""
        self._library = library
        embedding = embedding.detach().double()  # so that no number of threads changes a bit of the table
        # (channels, d, width) -> (A, width, channels): one row per character.
        parts = [torch.einsum("cdw,ad->awc", weight.detach().double(), embedding) for weight in filters]
        self._table = torch.cat([part.flatten(start_dim=1) for part in parts], dim=1).float().contiguous()
        self._bias = bias.detach().float().contiguous()
        self._widths = torch.tensor([weight.shape[2] for weight in filters])
        self._channels = torch.tensor([weight.shape[0] for weight in filters])

    def pool(self, char_ids: Tensor, num_starts: Tensor) -> Tensor:
        """Return each filter's maximum and bias, (U, F), over the windows that start in a word's first places.

        `char_ids` (U, C), `num_starts` (U,); windows end at the last character.
        """
        char_ids, num_starts = char_ids.contiguous(), num_starts.contiguous()
        if char_ids.numel():
            lowest, highest = map(int, char_ids.aminmax())
            if lowest < 0 or highest >= len(self._table):
                raise IndexError(f"character ids must lie between 0 and {len(self._table) - 1}")
        features = torch.empty(len(char_ids), len(self._bias))
        struct = CharTableStruct(
            len(self._bias),
            len(self._widths),
            char_ids.shape[1],
            self._widths.data_ptr(),
            self._channels.data_ptr(),
            self._table.data_ptr(),
            self._table.shape[1],
            self._bias.data_ptr(),
        )
        self._library.convolve(
            ctypes.addressof(struct),
            char_ids.data_ptr(),
            num_starts.data_ptr(),
            len(char_ids),
            features.data_ptr(),
        )
        return features


def run_highway(library: Library, products: Tensor, features: Tensor) -> None:
    """Change features (U, F) in place, given the products (U, 2F): the transform, then the gate, of each."""
    library.highway(len(features), features.shape[1], products.data_ptr(), features.data_ptr())
