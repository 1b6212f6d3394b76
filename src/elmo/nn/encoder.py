"""The state of one direction's encoder, whose second axis is the rows of a batch, and the options of training."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

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

    def rows(self: StateT, which: Tensor | slice) -> StateT:
        """Return some rows, in the order asked for."""
        if isinstance(which, Tensor):
            index = which.to(self.tensors[0].device)
            return self.map(lambda tensor: tensor.index_select(1, index))
        return self.map(lambda tensor: tensor[:, which])

    def join(self: StateT, other: StateT) -> StateT:
        """Return the rows of both, these first."""
        pairs = zip(self.tensors, other.tensors, strict=True)
        return type(self)(*(torch.cat(pair, dim=1) for pair in pairs))

    def detach(self: StateT) -> StateT:
        """Return the same state, through which no gradient flows."""
        return self.map(Tensor.detach)

    def clone(self: StateT) -> StateT:
        """Return a copy."""
        return self.map(Tensor.clone)

    def to(self: StateT, device: torch.device | str) -> StateT:
        """Return the same state on another device."""
        return self.map(lambda tensor: tensor.to(device))

    def map(self: StateT, change: Callable[[Tensor], Tensor]) -> StateT:
        """Return the state with each tensor changed."""
        return type(self)(*map(change, self.tensors))


class TrainingOptions(NamedTuple):
    """How a window is read in training."""

    dropout: float = 0.0
    product_dtype: torch.dtype = torch.float32  # of matrix multiplications


PLAIN = TrainingOptions()
