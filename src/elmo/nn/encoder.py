"""The state of an encoder."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

StateT = TypeVar("StateT", bound="EncoderState")


class EncoderState:
    """The state of one direction's encoder: immutable tensors, whose second axis is the rows of a batch."""

    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.tensors[0].shape[1]

    def rows(self: StateT, index: Tensor | slice) -> StateT:
        """Return the rows with the given indices."""
        return self.map(lambda tensor: tensor[:, index])

    def join(self: StateT, other: StateT) -> StateT:
        """Return these rows followed by the rows of `other`."""
        pairs = zip(self.tensors, other.tensors, strict=True)
        return type(self)(*(torch.cat(pair, dim=1) for pair in pairs))

    def map(self: StateT, change: Callable[[Tensor], Tensor]) -> StateT:
        """Apply a function to each tensor."""
        return type(self)(*map(change, self.tensors))
