"""x (N, I) -> x Wᵀ + b (N, O), with the weights laid out once for the kernel of a precision. No gradients.

A row's result depends on that row alone, up to the rounding of the precision.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.inference.precision import (
    COMPILED_PRECISIONS,
    INT8_PRODUCT,
    Precision,
    has_onednn,
    multiplies_bytes_exactly,
)
from elmo.kernels.library import find_library
from elmo.kernels.matrix import PackedMatrix

_TYPICAL_ROWS = 64  # what oneDNN chooses the order of the weights by; any number of rows may come
# From this many rows on, packing the weights costs little beside the multiplication, and plain ones are as fast.
_PLAIN_FROM_ROWS = 512
_SMALLEST_SCALE = 1e-30
_ROWS_QUANTIZED_AT_ONCE = 1024


class TorchLinear(ABC):
    """A multiplication with weights that do not change, by torch."""

    @abstractmethod
    def __init__(self, weight: Tensor, bias: Tensor | None) -> None: ...

    @abstractmethod
    def __call__(self, inputs: Tensor) -> Tensor:
        """Return x Wᵀ + b, in float32."""

    @abstractmethod
    def add_to(self, total: Tensor, inputs: Tensor) -> None:
        """Add x Wᵀ to `total`; the bias is left out."""


def pack_linear(weight: Tensor, bias: Tensor | None, precision: Precision) -> Callable[[Tensor], Tensor]:
    """Lay out the weights (O, I) of a multiplication for a precision that this machine supports."""
    library = find_library() if precision in COMPILED_PRECISIONS else None
    if library is not None:
        return PackedMatrix(library, weight, bias, int8=precision == "int8")
    return pack_torch_linear(weight, bias, precision)


def pack_torch_linear(weight: Tensor, bias: Tensor | None, precision: Precision) -> TorchLinear:
    """Lay out the weights for torch's own multiplication."""
    kinds: dict[Precision, type[TorchLinear]] = {
        "float32": Float32Linear,
        "bfloat16": BFloat16Linear,
        "int8": Int8Linear,
    }
    return kinds[precision](weight.detach(), None if bias is None else bias.detach())


class Float32Linear(TorchLinear):
    """By oneDNN with reordered weights, where torch was built with it.

    For a single row the weights are read once and little else happens; that is fastest when they are transposed.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._plain, self._bias = weight, bias
        self._transposed: Tensor | None = None  # made when the first single row comes
        self._reordered: Tensor | None = None
        if has_onednn():
            self._reordered = torch.ops.mkldnn._reorder_linear_weight(weight, _TYPICAL_ROWS)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        return self._multiply(inputs, self._bias)

    def add_to(self, total: Tensor, inputs: Tensor) -> None:
        """Add x Wᵀ."""
        total += self._multiply(inputs, None)

    def _multiply(self, inputs: Tensor, bias: Tensor | None) -> Tensor:
        if len(inputs) == 1:
            if self._transposed is None:
                self._transposed = self._plain.t().contiguous()
            return inputs @ self._transposed if bias is None else torch.addmm(bias, inputs, self._transposed)
        if self._reordered is None or len(inputs) >= _PLAIN_FROM_ROWS:
            return F.linear(inputs, self._plain, bias)
        return _multiply_reordered(inputs, self._reordered, bias)


class BFloat16Linear(TorchLinear):
    """By oneDNN, both factors rounded to bfloat16."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._bias = bias
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), _TYPICAL_ROWS)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        product = self._multiply(inputs).float()
        return product if self._bias is None else product.add_(self._bias)

    def add_to(self, total: Tensor, inputs: Tensor) -> None:
        """Add x Wᵀ."""
        total += self._multiply(inputs)

    def _multiply(self, inputs: Tensor) -> Tensor:
        return _multiply_reordered(inputs.bfloat16(), self._weight, None)


def _multiply_reordered(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply by oneDNN, which keeps a kernel for each number of rows it has met: let those be few."""
    num_rows = len(inputs)
    step = 2 ** max(0, num_rows.bit_length() - 5)
    num_missing = -num_rows % step
    if num_missing:
        inputs = F.pad(inputs, (0, 0, 0, num_missing))
    product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
    return product[:num_rows]


class Int8Linear(TorchLinear):
    """By FBGEMM: a scale for each row of the weights and for each row of the input, so no row changes another.

    Where sums of two products of 8 bits could overflow, the input has 7 bits.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        scales = torch.empty(len(weight))
        rounded = torch.empty(weight.shape, dtype=torch.int8)
        for start in range(0, len(weight), _ROWS_QUANTIZED_AT_ONCE):
            window = slice(start, start + _ROWS_QUANTIZED_AT_ONCE)
            scales[window] = weight[window].abs().amax(dim=1).clamp_(min=_SMALLEST_SCALE) / 127
            rounded[window] = (weight[window] / scales[window, None]).round_()
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        with warnings.catch_warnings():
            # torch means to give up tensors of quantized types; the kernel takes its weights as one.
            warnings.simplefilter("ignore", UserWarning)
            quantized = torch._make_per_channel_quantized_tensor(rounded, scales.double(), zeros, 0)
            self._weight = _prepack(quantized)
        self._bias = torch.zeros(len(weight)) if bias is None else bias
        self._kernel = getattr(torch.ops.quantized, INT8_PRODUCT)
        self._num_levels = 127 if multiplies_bytes_exactly() else 63

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        product, scales = self._multiply(inputs)
        return torch.addcmul(self._bias, product, scales, out=product)

    def add_to(self, total: Tensor, inputs: Tensor) -> None:
        """Add x Wᵀ."""
        product, scales = self._multiply(inputs)
        total.addcmul_(product, scales)

    def _multiply(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        scales = inputs.abs().amax(dim=1, keepdim=True).clamp_(min=_SMALLEST_SCALE)
        product = self._kernel(inputs / scales, 1 / self._num_levels, self._num_levels + 1, self._weight)
        return product, scales


def _prepack(quantized: Tensor) -> object:
    engine = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        return torch.ops.quantized.linear_prepack(quantized, None)
    finally:
        torch.backends.quantized.engine = engine
