"""A weight matrix in the panels of the compiled library: packed once, multiplied with any number of rows.

A row's result has the same bits whatever rows are multiplied with it.
"""

import ctypes

import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.kernels.library import Library, MatrixStruct

_SMALLEST_SCALE = 1e-30
_BYTES_TOGETHER = 4  # inputs that one instruction multiplies and adds up


class PackedMatrix:
    """x (N, I) -> x Wᵀ + b (N, O), in float32 or with weights and inputs rounded to 8 bits."""

    def __init__(
        self,
        library: Library,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        num_groups: int = 1,
        int8: bool = False,
    ) -> None:
        """Pack `weight` (O, I); each of `num_groups` equal groups of outputs starts a panel of its own.

        In 8 bits each row of the weights and each row of the inputs has a scale of its own.
        """
        num_outputs, self.num_inputs = weight.shape
        self.num_outputs = num_outputs
        self._library = library
        self._bias = None if bias is None else bias.detach().float().contiguous()
        self.bias_address = None if self._bias is None else self._bias.data_ptr()
        self.struct = MatrixStruct(self.num_inputs, num_outputs // num_groups, num_groups)
        self._kept: list[Tensor] = []  # what the struct points to
        panels = _cut_panels(weight.detach().float(), num_groups, library.panel)  # (P, panel, I)
        if int8:
            self._pack_bytes(panels)
        else:
            self._pack_floats(panels)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Multiply float32 rows (N, I) -> (N, O)."""
        inputs = inputs.contiguous()
        outputs = torch.empty(len(inputs), self.num_outputs)
        library, struct = self._library, ctypes.addressof(self.struct)
        library.multiply(
            struct,
            self.bias_address,
            inputs.data_ptr(),
            len(inputs),
            outputs.data_ptr(),
            library.scratch(library.multiply_scratch(struct, len(inputs))),
        )
        return outputs

    def _pack_floats(self, panels: Tensor) -> None:
        packed = self._keep(panels.transpose(1, 2))
        self.struct.float32 = packed.data_ptr()
        # Models stored in 16 bits are exact in them: single rows then read half as many bytes, for the same bits.
        half = packed.half()
        if torch.equal(half.float(), packed):
            self.struct.float16 = self._keep(half).data_ptr()

    def _pack_bytes(self, panels: Tensor) -> None:
        scales = panels.abs().amax(dim=2).clamp_(min=_SMALLEST_SCALE) / 127  # (P, panel)
        rounded = (panels / scales[..., None]).round_().to(torch.int8)
        rounded = F.pad(rounded, (0, -rounded.shape[2] % _BYTES_TOGETHER))
        together = rounded.view(*rounded.shape[:2], -1, _BYTES_TOGETHER).transpose(1, 2)
        sums = rounded.sum(dim=2, dtype=torch.int32) * (self._library.input_levels + 1)
        self.struct.int8 = self._keep(together).data_ptr()
        self.struct.scales = self._keep(scales).data_ptr()
        self.struct.sums = self._keep(sums).data_ptr()

    def _keep(self, tensor: Tensor) -> Tensor:
        self._kept.append(tensor.contiguous())
        return self._kept[-1]


def _cut_panels(weight: Tensor, num_groups: int, panel: int) -> Tensor:
    groups = weight.reshape(num_groups, -1, weight.shape[1])
    filled = F.pad(groups, (0, 0, 0, -groups.shape[1] % panel))
    return filled.reshape(-1, panel, weight.shape[1])
