"""The state of one direction's encoder, whose second axis is the rows of a batch."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

StateT = TypeVar("StateT", bound="EncoderState")


class EncoderState:
    """The state of one direction's encoder, row by row; immutable."""

    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self.tensors[0].shape[1]

    def rows(self: StateT, index: Tensor | slice) -> StateT:
        """Return some rows, in the order asked for."""
        return self.map(lambda tensor: tensor[:, index])

    def join(self: StateT, other: StateT) -> StateT:
        """Return the rows of both, these first."""
        pairs = zip(self.tensors, other.tensors, strict=True)
        return type(self)(*(torch.cat(pair, dim=1) for pair in pairs))

    def map(self: StateT, change: Callable[[Tensor], Tensor]) -> StateT:
        """Return the state with each tensor changed."""
        return type(self)(*map(change, self.tensors))
