"""LSTM layers over packed rows: all layers and steps, and the mix of layers, of both directions in one call.

Also what an LSTM step of training does between its matrix multiplications, forward and backward.
"""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.kernels.library import DirectionStruct, Library, LstmStruct, ReadingStruct
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


@dataclass(frozen=True)
class Reading:
    """What one direction reads: packed rows `words[sources]` (N, D) in steps of `counts` rows, which never rise.

    Row i's mixes by `weights` (K, L+1) of its word and of each layer go to `result[targets[i]]`, (·, K, D).
    `state` is hidden (L, B, D) and cell (L, B, H), None for zero.
    """

    words: Tensor
    sources: Indices
    targets: Indices
    counts: Indices
    state: tuple[Tensor, Tensor] | None
    weights: npt.NDArray[np.float32]
    result: Tensor


class CompiledStack:
    """All layers of one direction."""

    def __init__(self, library: Library, layers: Sequence[LayerWeights], *, residual: bool, int8: bool) -> None:
        self.library, self.residual = library, residual
        self._kept: list[Any] = []  # what the structs point to
        self._structs = (LstmStruct * len(layers))(*(self._pack(layer, int8=int8) for layer in layers))
        self.address = ctypes.addressof(self._structs)
        self.num_layers = len(layers)
        self.cell_dim = layers[0].state_weight.shape[0] // 4
        self._output_dim = layers[0].state_weight.shape[1]

    def make_state(self, reading: Reading) -> tuple[Tensor, Tensor]:
        """Return memory with the state before reading, if there is one."""
        if reading.state is not None:
            hidden, cell = (part.clone(memory_format=torch.contiguous_format) for part in reading.state)
            return hidden, cell
        num_rows = int(reading.counts[0])
        return (
            torch.zeros(self.num_layers, num_rows, self._output_dim),
            torch.empty(self.num_layers, num_rows, self.cell_dim),
        )

    def describe(self, reading: Reading, state: tuple[Tensor, Tensor] | None) -> DirectionStruct:
        """Return what the library is to do; `state` receives the state after each row's last step, if wanted."""
        counts, sources, words, weights = reading.counts, reading.sources, reading.words, reading.weights
        assert words.is_contiguous()
        return DirectionStruct(
            self.address,
            self.num_layers,
            self.residual,
            ReadingStruct(
                len(counts),
                counts.ctypes.data,
                len(sources),
                words.data_ptr(),
                len(words),
                sources.ctypes.data,
                reading.targets.ctypes.data,
                int(counts[0]) if state is None else state[0].shape[1],
                reading.state is not None,
                None if state is None else state[0].data_ptr(),
                None if state is None else state[1].data_ptr(),
                len(weights),
                weights.ctypes.data,
                reading.result.data_ptr(),
                reading.result.stride(1),
            ),
        )

    def _pack(self, layer: LayerWeights, *, int8: bool) -> LstmStruct:
        from_inputs, from_state = (
            PackedMatrix(self.library, weight, num_groups=4, int8=int8)
            for weight in (layer.input_weight, layer.state_weight)
        )
        bias = layer.bias.detach().float().contiguous()
        struct = LstmStruct(from_inputs=from_inputs.struct, from_state=from_state.struct, bias=bias.data_ptr())
        struct.cell_clip = math.inf if layer.cell_clip is None else layer.cell_clip
        struct.projection_clip = math.inf if layer.projection_clip is None else layer.projection_clip
        self._kept += [from_inputs, from_state, bias]
        if layer.projection_weight is not None:
            projection = PackedMatrix(self.library, layer.projection_weight, int8=int8)
            struct.projection = projection.struct
            self._kept.append(projection)
        return struct


# Of one sentence every step has one row, the targets of left to right rise and those of right to left fall.
LONGEST_SENTENCE = 8192
_ONES = np.ones(LONGEST_SENTENCE, dtype=np.int64)
_RISING = np.arange(LONGEST_SENTENCE)
_FALLING = np.ascontiguousarray(_RISING[::-1])
_ONES_AT, _RISING_AT, _FALLING_END = _ONES.ctypes.data, _RISING.ctypes.data, _FALLING.ctypes.data + _FALLING.nbytes


def read_sentence(
    stacks: tuple[CompiledStack, CompiledStack],
    words: Tensor,
    places: Tensor,
    weights: npt.NDArray[np.float32],
    *,
    alone: bool,
) -> Tensor:
    """Read one sentence of the words `words[places]` from zero in both directions, with little Python: (T, K, 2D).

    It is what read_directions does, and it has the same bits.
    """
    num_words, num_vectors, dim = places.numel(), len(weights), words.shape[1]
    assert num_words <= LONGEST_SENTENCE and words.is_contiguous()
    result = torch.empty(num_words, num_vectors, 2 * dim)
    ahead = places.contiguous()
    back = ahead.view(-1).flip(0)
    sides = (
        (ahead.data_ptr(), _RISING_AT, result.data_ptr()),
        (back.data_ptr(), _FALLING_END - 8 * num_words, result.data_ptr() + 4 * dim),
    )
    directions = (DirectionStruct * 2)()
    for direction, stack, (sources, targets, to) in zip(directions, stacks, sides, strict=True):
        direction.layers, direction.num_layers, direction.residual = (
            stack.address,
            stack.num_layers,
            stack.residual,
        )
        direction.reading = ReadingStruct(
            num_words, _ONES_AT, num_words, words.data_ptr(), len(words), sources, targets,
            1, 0, None, None, num_vectors, weights.ctypes.data, to, 2 * dim,
        )  # fmt: skip
    library = stacks[0].library
    library.run_with_scratch(library.read, ctypes.addressof(directions), 2, alone)
    return result


def read_directions(
    stacks: Sequence[CompiledStack], readings: Sequence[Reading], *, alone: bool, keep_state: bool
) -> list[tuple[Tensor, Tensor]] | None:
    """Read with one stack, or with two at the same time unless `alone`; return the states at the end if wanted."""
    states = None
    if keep_state or any(reading.state is not None for reading in readings):
        states = [stack.make_state(reading) for stack, reading in zip(stacks, readings, strict=True)]
    structs = [
        stack.describe(reading, None if states is None else states[number])
        for number, (stack, reading) in enumerate(zip(stacks, readings, strict=True))
    ]
    directions = (DirectionStruct * len(structs))(*structs)
    library = stacks[0].library
    library.run_with_scratch(library.read, ctypes.addressof(directions), len(structs), alone)
    return states


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
