"""What training computes in the compiled library: the LSTM cell and the pooling of characters, with gradients.

An LSTM cell is everything between two matrix multiplications of a time step. Tensors that are multiplied are float32 or
bfloat16, all others float32.
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
    """Write the gates' activations (B, 4H), the cell, its tanh and the output, all three (B, H).

    i, f, g, o = activations of from_inputs + from_state + bias; cell = clip(f · keep · previous + i · g),
    tanh_c = tanh(cell), h = o · tanh_c; `keep` (B,). from_inputs, from_state and h share one dtype. `gates` may be the
    same memory as from_inputs.
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
    """Write the gradient of the gates' sums (B, 4H), add it to the bias's, turn the cell's into `previous`'s.

    grad_h and grad_gates share one dtype.
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
    """Return each filter's maximum plus bias, (U, F), over the windows that start in a word's first places.

    `char_ids` (U, C), `num_starts` (U,); windows end at the last character. Also return where the largest windows
    start, (U, F).
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
    """Return the gradient of the table, given where the largest windows started."""
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
    """Return the address of a tensor after checking what the library relies on."""
    if tensor.dtype != dtype or tensor.shape != shape or tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise KernelError(
            f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}; a contiguous tensor of {dtype} and shape "
            f"{tuple(shape)} on the CPU is needed."
        )
    return tensor.data_ptr()
