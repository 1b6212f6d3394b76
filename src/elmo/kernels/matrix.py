"""x Wᵀ + b with constant weights, in float32 or int8: packed for the library, or in NumPy.

In the library, the bits of a row's result do not depend on the other rows.
"""

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.kernels.int8 import quantize_rows
from elmo.kernels.library import KernelError, Library, MatrixStruct, address_of, find_library

Array = npt.NDArray[np.float32]
Multiply: TypeAlias = Callable[[Array], Array]  # (N, I) -> (N, O)

_BYTES_TOGETHER = 4  # the number of inputs that one instruction multiplies and sums


def pack_matrix(weight: Array, bias: Array | None = None, *, int8: bool = False) -> Multiply:
    """Pack `weight` (O, I) for the library, or for NumPy if there is no library."""
    library = find_library()
    if library is None:
        return NumpyMatrix(weight, bias, int8=int8)
    return PackedMatrix(library, weight, bias, int8=int8)


class NumpyMatrix:
    """x (N, I) -> x Wᵀ + b (N, O); in int8, weights and inputs are rounded and multiplied as float32."""

    def __init__(self, weight: Array, bias: Array | None = None, *, int8: bool = False) -> None:
        weight = np.asarray(weight, dtype=np.float32)
        self._scales: Array | None = None
        if int8:
            rounded, self._scales = quantize_rows(weight)
            weight = rounded.astype(np.float32)
        self._weight: Array = np.ascontiguousarray(weight.T)
        self._bias = None if bias is None else np.asarray(bias, dtype=np.float32)

    def __call__(self, inputs: Array) -> Array:
        """Multiply float32 rows (N, I) -> (N, O)."""
        if self._scales is None:
            product = inputs @ self._weight
        else:
            rounded, scales = quantize_rows(inputs)
            product = rounded.astype(np.float32) @ self._weight
            product *= scales[:, None] * self._scales
        if self._bias is not None:
            product += self._bias
        return product


class PackedMatrix:
    """x (N, I) -> x Wᵀ + b (N, O) in the library, with weights in panels."""

    def __init__(
        self,
        library: Library,
        weight: Array,
        bias: Array | None = None,
        *,
        num_groups: int = 1,
        int8: bool = False,
    ) -> None:
        """Pack `weight` (O, I); each of `num_groups` equal groups of outputs starts a new panel.

        With `int8`, each row of the weights and of the inputs has a scale.
        """
        self.num_outputs, self.num_inputs = weight.shape
        self._library = library
        self.bias = None if bias is None else np.ascontiguousarray(bias, dtype=np.float32)
        if self.bias is not None and self.bias.shape != (self.num_outputs,):
            raise KernelError(f"A bias of shape {self.bias.shape} does not fit {self.num_outputs} outputs.")
        self.bias_address = None if self.bias is None else self.bias.ctypes.data
        self.struct = MatrixStruct(self.num_inputs, self.num_outputs // num_groups, num_groups)
        self._kept: list[npt.NDArray[Any]] = []  # the arrays that the struct points to
        panels = _cut_panels(np.asarray(weight, dtype=np.float32), num_groups, library.panel)  # (P, panel, I)
        if int8:
            self._pack_bytes(panels)
        else:
            self._pack_floats(panels)

    def __call__(self, inputs: Array) -> Array:
        """Multiply float32 rows (N, I) -> (N, O)."""
        inputs = np.ascontiguousarray(inputs)
        num_rows = len(inputs)
        address = address_of(inputs, "inputs", np.float32, (num_rows, self.num_inputs))
        outputs = np.empty((num_rows, self.num_outputs), dtype=np.float32)
        library, struct = self._library, ctypes.addressof(self.struct)
        scratch, _ = library.scratch(library.multiply_scratch(struct, num_rows))
        library.multiply(struct, self.bias_address, address, num_rows, outputs.ctypes.data, scratch)
        return outputs

    def _pack_floats(self, panels: Array) -> None:
        packed = self._keep(panels.transpose(0, 2, 1))
        self.struct.float32 = packed.ctypes.data
        # Weights that are exact in float16 are also stored in it: single rows read half the bytes, for the same bits.
        with np.errstate(over="ignore"):
            half = packed.astype(np.float16)
        if np.array_equal(half, packed):
            self.struct.float16 = self._keep(half).ctypes.data

    def _pack_bytes(self, panels: Array) -> None:
        rounded, scales = quantize_rows(panels)  # (P, panel, I) and (P, panel)
        rounded = np.pad(rounded, ((0, 0), (0, 0), (0, -rounded.shape[2] % _BYTES_TOGETHER)))
        interleaved = rounded.reshape(*rounded.shape[:2], -1, _BYTES_TOGETHER).transpose(0, 2, 1, 3)
        sums = rounded.sum(axis=2, dtype=np.int32) * np.int32(self._library.input_levels + 1)
        self.struct.int8 = self._keep(interleaved).ctypes.data
        self.struct.scales = self._keep(scales).ctypes.data
        self.struct.sums = self._keep(sums).ctypes.data

    def _keep(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        self._kept.append(np.ascontiguousarray(array))
        return self._kept[-1]


def _cut_panels(weight: Array, num_groups: int, panel: int) -> Array:
    groups = weight.reshape(num_groups, -1, weight.shape[1])
    padded = np.pad(groups, ((0, 0), (0, -groups.shape[1] % panel), (0, 0)))
    return padded.reshape(-1, panel, weight.shape[1])
