"""One direction's LSTM layers over packed rows, without gradients, with weights laid out for a precision.

Packed rows are words in the order of reading.py: step by step, without padding. CompiledLstm runs in the compiled
kernel, PackedLstm is its twin in torch operations.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.inference.layers import LayerChoice
from elmo.inference.precision import (
    COMPILED_PRECISIONS,
    INT8_PRODUCT,
    Precision,
    has_onednn,
    multiplies_bytes_exactly,
)
from elmo.inference.reading import Indices, PackedEncoder, PaddedEncoder, Window, cut_steps
from elmo.kernels.library import Library, find_library
from elmo.kernels.lstm import CompiledStack, LayerWeights, Reading, read_directions, read_sentence
from elmo.kernels.matrix import PackedMatrix
from elmo.nn.bilm import Encoder
from elmo.nn.projected_lstm import LstmStack, LstmState, ProjectedLstm
from elmo.nn.reading_state import ReadingState

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


# The gates of this many values are made at once: they should stay in the cache until they are used.
GATE_VALUES_AT_ONCE = 2**21
# The first layer's gates of all distinct words of a window are kept while it is read: at most 64 MB.
FIRST_GATE_VALUES = 2**24


def can_pack(encoder: Encoder, device: torch.device) -> bool:
    """Return whether a direction's weights can be laid out for the multiplications of a precision."""
    return isinstance(encoder, LstmStack) and device.type == "cpu"


def pack_encoder(module: Encoder, precision: Precision) -> PackedEncoder:
    """Lay out the weights of a direction, or take the module as it is where that cannot be done."""
    device = next(module.parameters()).device
    if not isinstance(module, LstmStack) or not can_pack(module, device):
        return PaddedEncoder(module)
    library = find_library() if precision in COMPILED_PRECISIONS else None
    return PackedLstm(module, precision) if library is None else CompiledLstm(module, precision, library)


class CompiledLstm:
    """All layers of one direction in the compiled kernel, in float32 or 8 bits."""

    uses_one_thread = True

    def __init__(self, stack: LstmStack, precision: Precision, library: Library) -> None:
        layers = [
            LayerWeights(
                layer.input_weight,
                layer.state_weight,
                _whole_bias(layer),
                layer.projection_weight,
                layer.cell_clip,
                layer.projection_clip,
            )
            for layer in _list_layers(stack)
        ]
        self.has_helper = library.has_helper
        self._stack = CompiledStack(library, layers, residual=stack.residual, int8=precision == "int8")
        self.words_at_once = max(1, FIRST_GATE_VALUES // (4 * self._stack.cell_dim))
        self.num_weights = sum(parameter.numel() for parameter in stack.parameters())

    def read(self, window: Window, state: ReadingState | None, choice: LayerChoice, result: Tensor) -> LstmState:
        """Read packed rows; see PackedEncoder."""
        readings = [_describe(window, state, choice, result)]
        states = read_directions([self._stack], readings, alone=True, keep_state=True)
        assert states is not None
        return LstmState(*states[0])

    def read_sentence_beside(
        self, other: PackedEncoder, words: Tensor, places: Tensor, choice: LayerChoice, *, alone: bool
    ) -> Tensor:
        """Read one sentence with both directions; see CompiledEncoder."""
        assert isinstance(other, CompiledLstm)
        return read_sentence((self._stack, other._stack), words, places, choice.matrix, alone=alone)

    def read_beside(
        self,
        other: PackedEncoder,
        windows: Sequence[Window],
        states: Sequence[ReadingState | None],
        choice: LayerChoice,
        results: Sequence[Tensor],
        *,
        alone: bool,
        keep_state: bool,
    ) -> list[LstmState] | None:
        """Read with both directions in one call; see CompiledEncoder."""
        assert isinstance(other, CompiledLstm)
        readings = [
            _describe(window, state, choice, result)
            for window, state, result in zip(windows, states, results, strict=True)
        ]
        read = read_directions([self._stack, other._stack], readings, alone=alone, keep_state=keep_state)
        return None if read is None else [LstmState(*each) for each in read]


class PackedLstm:
    """All layers of one direction in torch operations; what LstmStack computes, up to the precision's rounding."""

    uses_one_thread = False
    words_at_once = 2048

    def __init__(self, stack: LstmStack, precision: Precision) -> None:
        self._layers = [PackedLayer(layer, precision) for layer in _list_layers(stack)]
        self._residual = stack.residual
        self.num_weights = sum(parameter.numel() for parameter in stack.parameters())

    def read(self, window: Window, state: ReadingState | None, choice: LayerChoice, result: Tensor) -> LstmState:
        """Read packed rows; see PackedEncoder."""
        assert state is None or isinstance(state, LstmState)
        words, counts = window.words, window.counts
        steps, places = counts.tolist(), torch.from_numpy(window.sources)
        # Words come again and again: the first layer multiplies each distinct one once.
        make_gates: Callable[[slice], Tensor] = partial(_take_rows, self._layers[0].from_inputs(words), places)
        outputs: list[Tensor] = []
        hiddens, cells = [], []
        ends = _last_rows(counts)
        for number, layer in enumerate(self._layers):
            before = None if state is None else (state.hidden[number], state.cell[number])
            if number > 0:
                make_gates = partial(_multiply_rows, layer.from_inputs, outputs[-1])
            output, cell = layer.read(make_gates, steps, before)
            # The recurrent state never contains the residual; only what is passed on does.
            outputs.append(output + outputs[-1] if self._residual and number > 0 else output)
            hidden = output[ends]
            hiddens.append(hidden if before is None else torch.cat([hidden, before[0][len(hidden) :]]))
            cells.append(cell)
        result[torch.from_numpy(window.targets)] = choice.mix([words[places], *outputs])
        return LstmState(torch.stack(hiddens), torch.stack(cells))


class PackedLayer:
    """One layer in torch operations; see ProjectedLstm for its equations.

    tanh(x) is 2σ(2x) - 1, because σ is faster by far. The factors are put where they cost nothing: into the
    weights of the candidate and of the projection, and into the cell, which is kept doubled. Powers of 2 round
    nothing.
    """

    def __init__(self, layer: ProjectedLstm, precision: Precision) -> None:
        self._cell_dim, self._output_dim = layer.cell_dim, layer.output_dim
        self._cell_clip, self._projection_clip = layer.cell_clip, layer.projection_clip
        bias = _double_candidate(_whole_bias(layer))
        self.from_inputs = pack_torch_linear(_double_candidate(layer.input_weight), bias, precision)
        self._from_state = pack_torch_linear(_double_candidate(layer.state_weight), None, precision)
        weight = layer.projection_weight
        self._project = None if weight is None else pack_torch_linear(2 * weight, None, precision)

    def read(
        self, make_gates: Callable[[slice], Tensor], counts: Sequence[int], state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs (N, D) of all rows, and each row's cell (B, H) at its end.

        `make_gates` returns what the inputs of some rows add to their gates, (n, 4H), for this layer to change;
        `state` is hidden (B, D) and cell before the first step.
        """
        doubled_cell = torch.zeros(counts[0], self._cell_dim) if state is None else 2 * state[1]
        outputs = torch.empty(sum(counts), self._output_dim)
        hidden = None if state is None else state[0]
        for rows, window in cut_steps(counts, GATE_VALUES_AT_ONCE // (4 * self._cell_dim)):
            gates = make_gates(rows)
            parts = (gates, *gates.chunk(4, dim=1), outputs[rows])
            for step, *step_gates, output in zip(*(torch.split(part, window) for part in parts), strict=True):
                if hidden is not None:
                    self._from_state.add_to(step, hidden[: len(step)])
                step.sigmoid_()
                self._step(step_gates, doubled_cell[: len(step)], output)
                hidden = output
        return outputs, doubled_cell / 2

    def _step(self, gates: Sequence[Tensor], doubled_cell: Tensor, output: Tensor) -> None:
        """Move the cell on and write the output; of the candidate, its σ is given."""
        input_gate, forget_gate, candidate, output_gate = gates
        doubled_cell.mul_(forget_gate).addcmul_(input_gate, candidate, value=4).sub_(input_gate, alpha=2)
        if self._cell_clip is not None:
            doubled_cell.clamp_(-2 * self._cell_clip, 2 * self._cell_clip)
        exposed = doubled_cell.sigmoid().sub_(0.5).mul_(output_gate)  # half of σ(o)·tanh(c)
        if self._project is None:
            torch.mul(exposed, 2, out=output)
        elif self._projection_clip is None:
            output.copy_(self._project(exposed))
        else:
            torch.clamp(self._project(exposed), -self._projection_clip, self._projection_clip, out=output)


def _describe(window: Window, state: ReadingState | None, choice: LayerChoice, result: Tensor) -> Reading:
    assert state is None or isinstance(state, LstmState)
    before = None if state is None else (state.hidden, state.cell)
    return Reading(window.words, window.sources, window.targets, window.counts, before, choice.matrix, result)


def _take_rows(made: Tensor, places: Tensor, rows: slice) -> Tensor:
    return made[places[rows]]


def _multiply_rows(multiply: TorchLinear, inputs: Tensor, rows: slice) -> Tensor:
    return multiply(inputs[rows])


def _whole_bias(layer: ProjectedLstm) -> Tensor:
    bias = layer.bias.detach().clone()
    bias[layer.cell_dim : 2 * layer.cell_dim] += layer.forget_bias
    return bias


def _double_candidate(weight: Tensor) -> Tensor:
    doubled = weight.detach().clone()
    doubled.chunk(4)[2].mul_(2)
    return doubled


def _last_rows(counts: Indices) -> Tensor:
    """Return where the last output of each row stands among the packed rows, (B,)."""
    lengths = (counts[:, None] > np.arange(counts[0])).sum(axis=0)  # of each row, in steps
    starts = np.cumsum(counts) - counts
    return torch.from_numpy(starts[lengths - 1] + np.arange(counts[0]))


def _list_layers(stack: LstmStack) -> list[ProjectedLstm]:
    return [layer for layer in stack.layers if isinstance(layer, ProjectedLstm)]
