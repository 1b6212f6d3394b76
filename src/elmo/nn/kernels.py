"""The compiled kernels for training: the LSTM cell and the pooling of characters, forward and backward.

The LSTM cell is the elementwise part of a time step, between two matrix multiplications. Inputs and outputs of matrix
multiplications are float32 or bfloat16, all others float32.
"""

import ctypes
import math

import torch
from torch import Tensor

from elmo.kernels.characters import CharTable, check_ids
from elmo.kernels.library import KernelError, Library


def lstm_cell_forward(
    library: Library,
    from_inputs: Tensor,
    from_state: Tensor,
    bias: Tensor,
    previous: Tensor,
    keep: Tensor,
    cell_clip: float | None,
    gates: Tensor,
    cell: Tensor,
    tanh_c: Tensor,
    h: Tensor,
) -> None:
    """Write the activations of the gates (B, 4H), the cell, its tanh and the output (B, H each).

    i, f, g, o = activations of from_inputs + from_state + bias; cell = clip(f · keep · previous + i · g),
    tanh_c = tanh(cell), h = o · tanh_c; `keep` (B,). from_inputs, from_state and h have the same dtype. `gates` may
    share the memory of from_inputs.
    """
    num_rows, cell_dim = cell.shape
    cell_shape, gate_shape = (num_rows, cell_dim), (num_rows, 4 * cell_dim)
    library.train_forward(
        num_rows, cell_dim, _is_narrow(h),
        _address(from_inputs, "from_inputs", gate_shape, h.dtype),
        _address(from_state, "from_state", gate_shape, h.dtype),
        _address(bias, "bias", gate_shape[1:]), _address(previous, "previous", cell_shape),
        _address(keep, "keep", cell_shape[:1]), math.inf if cell_clip is None else cell_clip,
        _address(gates, "gates", gate_shape), _address(cell, "cell", cell_shape),
        _address(tanh_c, "tanh_c", cell_shape), _address(h, "h", cell_shape, h.dtype),
    )  # fmt: skip


def lstm_cell_backward(
    library: Library,
    gates: Tensor,
    previous: Tensor,
    keep: Tensor,
    cell: Tensor,
    tanh_c: Tensor,
    grad_h: Tensor,
    cell_clip: float | None,
    grad_cell: Tensor,
    grad_gates: Tensor,
    grad_bias: Tensor,
) -> None:
    """Compute the backward pass of lstm_cell_forward; grad_h and grad_gates have the same dtype.

    Write the gradient of the gates before activation to grad_gates (B, 4H), add it to grad_bias, and replace the
    gradient of the cell in grad_cell by that of the previous cell.
    """
    num_rows, cell_dim = cell.shape
    cell_shape, gate_shape, dtype = (num_rows, cell_dim), (num_rows, 4 * cell_dim), grad_gates.dtype
    library.train_backward(
        num_rows, cell_dim, _is_narrow(grad_gates),
        _address(gates, "gates", gate_shape), _address(previous, "previous", cell_shape),
        _address(keep, "keep", cell_shape[:1]), _address(cell, "cell", cell_shape),
        _address(tanh_c, "tanh_c", cell_shape), _address(grad_h, "grad_h", cell_shape, dtype),
        math.inf if cell_clip is None else cell_clip, _address(grad_cell, "grad_cell", cell_shape),
        _address(grad_gates, "grad_gates", gate_shape, dtype), _address(grad_bias, "grad_bias", gate_shape[1:]),
    )  # fmt: skip


def pool_characters(library: Library, table: CharTable, char_ids: Tensor, num_starts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maximum of each filter plus its bias, and where the maximal windows start, (U, F) each.

    Windows start at the first `num_starts` (U,) positions of a word, and end within its `char_ids` (U, C).
    """
    num_words, num_characters = char_ids.shape
    check_ids(char_ids.numpy(), len(table.table))
    features = torch.empty(num_words, len(table.bias))
    starts = torch.empty_like(features)
    struct = table.describe(num_characters)
    library.convolve(
        ctypes.addressof(struct), _address(char_ids, "char_ids", char_ids.shape, torch.int64),
        _address(num_starts, "num_starts", (num_words,), torch.int64), num_words,
        features.data_ptr(), starts.data_ptr(),
    )  # fmt: skip
    return features, starts


def pool_characters_backward(
    library: Library, table: CharTable, char_ids: Tensor, starts: Tensor, grad_features: Tensor
) -> Tensor:
    """Return the gradient of the table, given the starts of the maximal windows."""
    num_words, num_characters = char_ids.shape
    shape = (num_words, len(table.bias))
    grad_table = torch.zeros(table.table.shape)
    struct = table.describe(num_characters)
    library.convolve_back(
        ctypes.addressof(struct), _address(char_ids, "char_ids", char_ids.shape, torch.int64), num_words,
        _address(starts, "starts", shape), _address(grad_features, "grad_features", shape), grad_table.data_ptr(),
    )  # fmt: skip
    return grad_table


def _is_narrow(tensor: Tensor) -> bool:
    if tensor.dtype not in (torch.float32, torch.bfloat16):
        raise KernelError(f"A training kernel takes float32 or bfloat16, not {tensor.dtype}.")
    return tensor.dtype == torch.bfloat16


def _address(tensor: Tensor, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """Return the address of a tensor after checking its type, shape, device and layout."""
    if tensor.dtype != dtype or tensor.shape != shape or tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise KernelError(
            f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}; a contiguous tensor of {dtype} and shape "
            f"{tuple(shape)} on the CPU is needed."
        )
    return tensor.data_ptr()
