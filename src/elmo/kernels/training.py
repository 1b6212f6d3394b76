"""What an LSTM step does between its matrix multiplications, forward and backward, each in one compiled pass."""

import math

import torch
from torch import Tensor

from elmo.kernels.library import Library


def move_cells(
    library: Library,
    from_inputs: Tensor,
    from_state: Tensor,
    bias: Tensor,
    previous: Tensor,
    keep: Tensor,
    cell_clip: float | None,
    gates: Tensor,
    cell: Tensor,
    squashed: Tensor,
    exposed: Tensor,
) -> None:
    """Write the gates' activations (B, 4H), the cell, its tanh and what it exposes, all three (B, H).

    i, f, g, o = activations of from_inputs + from_state + bias; cell = clip(f · keep · previous + i · g),
    squashed = tanh(cell), exposed = o · squashed; `keep` (B,). from_inputs, from_state and exposed share one
    dtype, float32 or bfloat16; everything else is float32, and everything is contiguous on the CPU. `gates` may be
    the same memory as from_inputs.
    """
    assert from_inputs.dtype == from_state.dtype == exposed.dtype
    library.train_forward(
        *cell.shape, _is_narrow(exposed), from_inputs.data_ptr(), from_state.data_ptr(), bias.data_ptr(),
        previous.data_ptr(), keep.data_ptr(), math.inf if cell_clip is None else cell_clip,
        gates.data_ptr(), cell.data_ptr(), squashed.data_ptr(), exposed.data_ptr(),
    )  # fmt: skip


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
    grad_bias: Tensor,
) -> None:
    """Write the gradient of the gates' sums (B, 4H), add it to the bias's, turn the cell's into `previous`'s.

    grad_exposed and grad_gates share one dtype, float32 or bfloat16; everything else is float32.
    """
    assert grad_exposed.dtype == grad_gates.dtype and grad_exposed.is_contiguous()
    library.train_backward(
        *cell.shape, _is_narrow(grad_gates), gates.data_ptr(), previous.data_ptr(), keep.data_ptr(),
        cell.data_ptr(), squashed.data_ptr(), grad_exposed.data_ptr(),
        math.inf if cell_clip is None else cell_clip,
        grad_cell.data_ptr(), grad_gates.data_ptr(), grad_bias.data_ptr(),
    )  # fmt: skip


def _is_narrow(tensor: Tensor) -> bool:
    assert tensor.dtype in (torch.float32, torch.bfloat16)
    return tensor.dtype == torch.bfloat16
