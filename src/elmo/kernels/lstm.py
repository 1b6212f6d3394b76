"""One direction's LSTM layers over packed rows: all layers and time steps, and the mix of layers, in one call."""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.kernels.library import Library, LstmStruct, ReadingStruct
from elmo.kernels.matrix import PackedMatrix

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LayerWeights:
    """One layer: gates in the order i, f, g, o; the bias contains all that is added to the gates."""

    input_weight: Tensor  # (4H, D)
    state_weight: Tensor  # (4H, D)
    bias: Tensor  # (4H,)
    projection_weight: Tensor | None  # (D, H)
    cell_clip: float | None
    projection_clip: float | None


class CompiledStack:
    """All layers of one direction."""

    def __init__(self, library: Library, layers: Sequence[LayerWeights], *, residual: bool, int8: bool) -> None:
        self._library, self._residual = library, residual
        self._kept: list[Any] = []  # what the structs point to
        self._structs = (LstmStruct * len(layers))(*(self._pack(layer, int8=int8) for layer in layers))
        self.num_layers = len(layers)
        self.cell_dim = layers[0].state_weight.shape[0] // 4
        self.output_dim = layers[0].state_weight.shape[1]

    def read(
        self,
        words: Tensor,
        sources: Indices,
        targets: Indices,
        counts: Indices,
        state: tuple[Tensor, Tensor] | None,
        weights: npt.NDArray[np.float32],
        result: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Read the packed rows `words[sources]` (N, D) in steps of `counts` rows, which never rise.

        Row i's mixes by `weights` (K, L+1) of its word and of each layer go to `result[targets[i]]`, (·, K, D).
        `state` is hidden (L, B, D) and cell (L, B, H), None for zero.
        Returns the state after each row's last step.
        """
        words = words.contiguous()
        num_rows = int(counts[0]) if state is None else state[0].shape[1]
        if state is None:
            hidden = torch.zeros(self.num_layers, num_rows, self.output_dim)
            cell = torch.empty(self.num_layers, num_rows, self.cell_dim)
        else:
            hidden, cell = (part.clone(memory_format=torch.contiguous_format) for part in state)
        reading = ReadingStruct(
            num_steps=len(counts),
            counts=counts.ctypes.data,
            num_rows=len(sources),
            words=words.data_ptr(),
            num_words=len(words),
            sources=sources.ctypes.data,
            targets=targets.ctypes.data,
            num_state_rows=num_rows,
            has_state=state is not None,
            hidden=hidden.data_ptr(),
            cell=cell.data_ptr(),
            num_vectors=len(weights),
            weights=weights.ctypes.data,
            result=result.data_ptr(),
            result_stride=result.stride(1),
        )
        library, layers = self._library, ctypes.addressof(self._structs)
        num_bytes = library.read_scratch(layers, self.num_layers, ctypes.addressof(reading))
        library.read(
            layers, self.num_layers, self._residual, ctypes.addressof(reading), library.scratch(num_bytes)
        )
        return hidden, cell

    def _pack(self, layer: LayerWeights, *, int8: bool) -> LstmStruct:
        from_inputs, from_state = (
            PackedMatrix(self._library, weight, num_groups=4, int8=int8)
            for weight in (layer.input_weight, layer.state_weight)
        )
        bias = layer.bias.detach().float().contiguous()
        struct = LstmStruct(from_inputs=from_inputs.struct, from_state=from_state.struct, bias=bias.data_ptr())
        struct.cell_clip = math.inf if layer.cell_clip is None else layer.cell_clip
        struct.projection_clip = math.inf if layer.projection_clip is None else layer.projection_clip
        self._kept += [from_inputs, from_state, bias]
        if layer.projection_weight is not None:
            projection = PackedMatrix(self._library, layer.projection_weight, int8=int8)
            struct.projection = projection.struct
            self._kept.append(projection)
        return struct
