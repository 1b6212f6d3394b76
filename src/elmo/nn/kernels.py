"""What training computes in the compiled library: the LSTM cell and the pooling of characters, with gradients.

An LSTM cell is everything between two matrix multiplications of a time step. Arrays that are multiplied are float32,
or bfloat16 as the uint16 of its bits.
"""

import ctypes
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.kernels.characters import CharTable, Ids, check_ids
from elmo.kernels.library import KernelError, Library, address_of

Array = npt.NDArray[np.float32]


def lstm_cell_forward(
    library: Library,
    from_inputs: npt.NDArray[Any],
    from_state: npt.NDArray[Any],
    bias: Array,
    previous: Array,
    keep: Array,
    cell_clip: float | None,
    gates: Array,
    cell: Array,
    tanh_c: Array,
    h: npt.NDArray[Any],
) -> None:
    """Write the gates' activations (B, 4H), the cell, its tanh and the output, all three (B, H).

    i, f, g, o = activations of from_inputs + from_state + bias; cell = clip(f · keep · previous + i · g),
    tanh_c = tanh(cell), h = o · tanh_c; `keep` (B,). from_inputs, from_state and h share one dtype, float32 or
    bfloat16; everything else is float32. `gates` may be the same memory as from_inputs.
    """
    num_rows, cell_dim = cell.shape
    one, four, dtype = (num_rows, cell_dim), (num_rows, 4 * cell_dim), h.dtype.type
    library.train_forward(
        num_rows, cell_dim, _is_narrow(h),
        address_of(from_inputs, "from_inputs", dtype, four), address_of(from_state, "from_state", dtype, four),
        address_of(bias, "bias", np.float32, four[1:]), address_of(previous, "previous", np.float32, one),
        address_of(keep, "keep", np.float32, one[:1]), math.inf if cell_clip is None else cell_clip,
        address_of(gates, "gates", np.float32, four), address_of(cell, "cell", np.float32, one),
        address_of(tanh_c, "tanh_c", np.float32, one), address_of(h, "h", dtype, one),
    )  # fmt: skip


def lstm_cell_backward(
    library: Library,
    gates: Array,
    previous: Array,
    keep: Array,
    cell: Array,
    tanh_c: Array,
    grad_h: npt.NDArray[Any],
    cell_clip: float | None,
    grad_cell: Array,
    grad_gates: npt.NDArray[Any],
    grad_bias: Array,
) -> None:
    """Write the gradient of the gates' sums (B, 4H), add it to the bias's, turn the cell's into `previous`'s.

    grad_h and grad_gates share one dtype, float32 or bfloat16; everything else is float32.
    """
    num_rows, cell_dim = cell.shape
    one, four, dtype = (num_rows, cell_dim), (num_rows, 4 * cell_dim), grad_gates.dtype.type
    library.train_backward(
        num_rows, cell_dim, _is_narrow(grad_gates), address_of(gates, "gates", np.float32, four),
        address_of(previous, "previous", np.float32, one), address_of(keep, "keep", np.float32, one[:1]),
        address_of(cell, "cell", np.float32, one), address_of(tanh_c, "tanh_c", np.float32, one),
        address_of(grad_h, "grad_h", dtype, one), math.inf if cell_clip is None else cell_clip,
        address_of(grad_cell, "grad_cell", np.float32, one), address_of(grad_gates, "grad_gates", dtype, four),
        address_of(grad_bias, "grad_bias", np.float32, four[1:]),
    )  # fmt: skip


def _is_narrow(array: npt.NDArray[Any]) -> bool:
    if array.dtype not in (np.float32, np.uint16):
        raise KernelError(f"A training kernel takes float32, or bfloat16 as uint16, not {array.dtype}.")
    return array.dtype == np.uint16


def pool_characters(library: Library, table: CharTable, char_ids: Ids, num_starts: Ids, starts: Array) -> Array:
    """Return each filter's maximum plus bias, (U, F), over the windows that start in a word's first places.

    `char_ids` (U, C), `num_starts` (U,); windows end at the last character. `starts` (U, F) receives where the
    largest windows start.
    """
    num_words, num_characters = char_ids.shape
    check_ids(char_ids, len(table.table))
    shape = (num_words, len(table.bias))
    features = np.empty(shape, dtype=np.float32)
    struct = table.describe(num_characters)
    library.convolve(
        ctypes.addressof(struct),
        address_of(char_ids, "char_ids", np.int64, (num_words, num_characters)),
        address_of(num_starts, "num_starts", np.int64, (num_words,)),
        num_words,
        features.ctypes.data,
        address_of(starts, "starts", np.float32, shape),
    )
    return features


def pool_characters_backward(
    library: Library, table: CharTable, char_ids: Ids, starts: Array, grad_features: Array
) -> Array:
    """Return the gradient of the table, given where the largest windows started."""
    num_words, num_characters = char_ids.shape
    check_ids(char_ids, len(table.table))
    shape = (num_words, len(table.bias))
    grad_table = np.zeros_like(table.table)
    struct = table.describe(num_characters)
    library.convolve_back(
        ctypes.addressof(struct),
        address_of(char_ids, "char_ids", np.int64, (num_words, num_characters)),
        num_words,
        address_of(starts, "starts", np.float32, shape),
        address_of(grad_features, "grad_features", np.float32, shape),
        grad_table.ctypes.data,
    )
    return grad_table
