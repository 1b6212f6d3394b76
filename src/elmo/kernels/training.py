"""What an LSTM step does between its matrix multiplications, forward and backward, each in one compiled pass."""

import math

import torch
from torch import Tensor

from elmo.kernels.library import Library


def move_cells(
    library: Library,
    gates: Tensor,
    previous: Tensor,
    keep: Tensor,
    cell_clip: float | None,
    cell: Tensor,
    squashed: Tensor,
    exposed: Tensor,
) -> None:
    """Turn the sums of the gates (B, 4H) into activations, in place, and write the cell and what it exposes.

    cell = clip(f · keep · previous + i · g), squashed = tanh(cell), exposed = o · squashed, all (B, H); `keep`
    (B,). All tensors are contiguous float32 on the CPU.
    """
    library.train_forward(
        len(cell),
        cell.shape[1],
        _address(gates),
        _address(previous),
        _address(keep),
        math.inf if cell_clip is None else cell_clip,
        _address(cell),
        _address(squashed),
        _address(exposed),
    )


def move_cells_back(
    library: Library,
    gates: Tensor,
    previous: Tensor,
    keep: Tensor,
    cell: Tensor,
    squashed: Tensor,
    grad_exposed: Tensor,
    cell_clip: float | None,
    grad_cell: Tensor,
    grad_gates: Tensor,
) -> None:
    """Write the gradient of the gates' sums (B, 4H), and turn that of the cell into that of `previous`."""
    library.train_backward(
        len(cell),
        cell.shape[1],
        _address(gates),
        _address(previous),
        _address(keep),
        _address(cell),
        _address(squashed),
        _address(grad_exposed),
        math.inf if cell_clip is None else cell_clip,
        _address(grad_cell),
        _address(grad_gates),
    )


def _address(tensor: Tensor) -> int:
    assert tensor.is_contiguous() and tensor.dtype == torch.float32
    return tensor.data_ptr()
