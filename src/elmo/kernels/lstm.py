"""LSTM layers over packed rows: one call runs all layers and steps of both directions, and mixes the layers.

Packed rows are words ordered by step, without padding: the first words of all sentences, the second words, and so on.
"""

import ctypes
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.kernels.library import (
    DirectionStruct,
    KernelError,
    Library,
    LstmStruct,
    WindowStruct,
    address_of,
    find_library,
)
from elmo.kernels.matrix import Array, NumpyMatrix, PackedMatrix

Indices = npt.NDArray[np.int64]

# The first layer's gates for all distinct words of a window are kept while the window runs: at most 64 MB.
_FIRST_GATE_VALUES = 2**24
# NumPy computes fewer at once: they should stay in the cache until they are used.
_NUMPY_GATE_VALUES = 2**21


@dataclass(frozen=True)
class LayerWeights:
    """The weights of one layer, with gates in the order i, f, g, o; the bias includes the forget bias."""

    input_weight: Array  # (4H, D)
    state_weight: Array  # (4H, D)
    bias: Array  # (4H,)
    projection_weight: Array | None  # (D, H)
    cell_clip: float | None
    projection_clip: float | None


@dataclass(frozen=True)
class LstmState:
    """The LSTM states of one or both directions, one per layer and row: hidden (..., B, D) and cell (..., B, H)."""

    hidden: Array
    cell: Array

    @property
    def num_rows(self) -> int:
        """The number of rows, B."""
        return int(self.hidden.shape[-2])

    def rows(self, indices: slice | Indices) -> "LstmState":
        """Return the rows with the given indices, in that order."""
        return LstmState(self.hidden[..., indices, :], self.cell[..., indices, :])

    def join(self, other: "LstmState") -> "LstmState":
        """Return these rows followed by the rows of `other`."""
        return LstmState(
            np.concatenate([self.hidden, other.hidden], axis=-2), np.concatenate([self.cell, other.cell], axis=-2)
        )


@dataclass(frozen=True)
class Window:
    """The input and output of one direction: packed rows `words[sources]` (N, D), in steps of falling `counts`.

    The mixes of row i, its word vector and layers weighted by `weights` (K, L+1), go to `result[targets[i], :, side]`
    (K, D).
    """

    words: Array
    sources: Indices
    targets: Indices
    counts: Indices
    weights: Array
    result: Array  # (N, K, sides, D)
    side: int


def pack_stack(layers: Sequence[LayerWeights], *, residual: bool, int8: bool) -> "Stack":
    """Pack the weights of a direction for the library, or for NumPy if there is no library."""
    library = find_library()
    if library is None:
        return NumpyStack(layers, residual=residual, int8=int8)
    return CompiledStack(library, layers, residual=residual, int8=int8)


class CompiledStack:
    """All layers of one direction in the library; to bound memory, run over at most `words_at_once` words."""

    def __init__(self, library: Library, layers: Sequence[LayerWeights], *, residual: bool, int8: bool) -> None:
        self.library, self.residual = library, residual
        self.num_layers = len(layers)
        self.cell_dim, self.output_dim = layers[0].state_weight.shape[0] // 4, layers[0].state_weight.shape[1]
        self.words_at_once = max(1, _FIRST_GATE_VALUES // (4 * self.cell_dim))
        self._kept: list[Any] = []  # the arrays that the structs point to
        self._structs = (LstmStruct * len(layers))(*(self._pack(layer, int8=int8) for layer in layers))
        self.address = ctypes.addressof(self._structs)

    def forward(self, window: Window, state: LstmState | None) -> LstmState:
        """Write the result of a window and return the final state of each row; a `state` of None is zero.

        The state has at least as many rows as the first step.
        """
        return forward_directions([self], [window], [state], single_threaded=True)[0]

    def make_state(self, window: Window, state: LstmState | None) -> LstmState:
        """Return memory for the state after a window, with a copy of the state before it, if any."""
        if state is not None:
            return LstmState(np.array(state.hidden, order="C"), np.array(state.cell, order="C"))
        sizes = self.num_layers, int(window.counts[0])
        return LstmState(np.empty((*sizes, self.output_dim), np.float32), np.empty((*sizes, self.cell_dim), np.float32))

    def describe(self, window: Window, state: LstmState, *, has_state: bool) -> DirectionStruct:
        """Return the struct for a call of the library; `state` receives the final state of each row."""
        num_rows, num_vectors, result, dim = len(window.sources), len(window.weights), window.result, self.output_dim
        num_sides = result.shape[2]
        result_at = address_of(result, "result", np.float32, (len(result), num_vectors, num_sides, dim))
        if num_rows and not 0 <= window.targets.min() <= window.targets.max() < len(result):
            raise KernelError(f"The targets of a window must lie between 0 and {len(result) - 1}.")
        sizes = self.num_layers, state.num_rows
        return DirectionStruct(
            self.address, self.num_layers, self.residual,
            WindowStruct(
                len(window.counts),
                address_of(window.counts, "counts", np.int64, window.counts.shape),
                num_rows,
                address_of(window.words, "words", np.float32, (len(window.words), dim)),
                len(window.words),
                address_of(window.sources, "sources", np.int64, (num_rows,)),
                address_of(window.targets, "targets", np.int64, (num_rows,)),
                state.num_rows, has_state,
                address_of(state.hidden, "hidden", np.float32, (*sizes, dim)),
                address_of(state.cell, "cell", np.float32, (*sizes, self.cell_dim)),
                num_vectors,
                address_of(window.weights, "weights", np.float32, (num_vectors, self.num_layers + 1)),
                result_at + 4 * dim * window.side, num_sides * dim,
            ),
        )  # fmt: skip

    def _pack(self, layer: LayerWeights, *, int8: bool) -> LstmStruct:
        from_inputs, from_state = (
            PackedMatrix(self.library, weight, num_groups=4, int8=int8)
            for weight in (layer.input_weight, layer.state_weight)
        )
        bias = np.ascontiguousarray(layer.bias, dtype=np.float32)
        address = address_of(bias, "bias", np.float32, (4 * self.cell_dim,))
        struct = LstmStruct(from_inputs=from_inputs.struct, from_state=from_state.struct, bias=address)
        struct.cell_clip = math.inf if layer.cell_clip is None else layer.cell_clip
        struct.projection_clip = math.inf if layer.projection_clip is None else layer.projection_clip
        self._kept += [from_inputs, from_state, bias]
        if layer.projection_weight is not None:
            projection = PackedMatrix(self.library, layer.projection_weight, int8=int8)
            struct.projection = projection.struct
            self._kept.append(projection)
        return struct


# Arrays for a single sentence: each step has one row, and targets rise from left to right and fall from right to left.
LONGEST_SENTENCE = 8192
_ONES = np.ones(LONGEST_SENTENCE, dtype=np.int64)
_RISING = np.arange(LONGEST_SENTENCE, dtype=np.int64)
_FALLING = np.ascontiguousarray(_RISING[::-1])
_ONES_AT, _RISING_AT, _FALLING_END = _ONES.ctypes.data, _RISING.ctypes.data, _FALLING.ctypes.data + _FALLING.nbytes


def forward_sentence(
    stacks: tuple[CompiledStack, CompiledStack],
    words: Array,
    places: Indices,
    weights: Array,
    *,
    single_threaded: bool,
) -> Array:
    """Run both directions from the zero state over one sentence `words[places]`, with little Python: (T, K, 2D).

    The result has the same bits as that of forward_directions.
    """
    num_words, num_vectors, dim = places.size, len(weights), stacks[0].output_dim
    if not 0 < num_words <= LONGEST_SENTENCE:
        raise KernelError(f"A sentence has {num_words} words; at most {LONGEST_SENTENCE} can be run at once.")
    words_at = address_of(words, "words", np.float32, (len(words), dim))
    weights_at = address_of(weights, "weights", np.float32, (num_vectors, stacks[0].num_layers + 1))
    result = np.empty((num_words, num_vectors, 2 * dim), dtype=np.float32)
    rising = np.ascontiguousarray(places, dtype=np.int64)
    falling = np.ascontiguousarray(rising[::-1])
    result_at = result.ctypes.data
    addresses = (
        (rising.ctypes.data, _RISING_AT, result_at),
        (falling.ctypes.data, _FALLING_END - 8 * num_words, result_at + 4 * dim),
    )
    directions = (DirectionStruct * 2)()
    for direction, stack, (sources, targets, output) in zip(directions, stacks, addresses, strict=True):
        direction.layers, direction.num_layers = stack.address, stack.num_layers
        direction.residual = stack.residual
        direction.window = WindowStruct(
            num_words, _ONES_AT, num_words, words_at, len(words), sources, targets,
            1, 0, None, None, num_vectors, weights_at, output, 2 * dim,
        )  # fmt: skip
    library = stacks[0].library
    if library.run_with_scratch(library.forward, ctypes.addressof(directions), 2, single_threaded):
        raise KernelError(f"The words of a sentence must lie between 0 and {len(words) - 1}.")
    return result


def forward_directions(
    stacks: Sequence[CompiledStack],
    windows: Sequence[Window],
    states: Sequence[LstmState | None],
    *,
    single_threaded: bool,
) -> list[LstmState]:
    """Run one stack, or two in parallel unless `single_threaded`, over a window each; return the final states."""
    after = [stack.make_state(window, state) for stack, window, state in zip(stacks, windows, states, strict=True)]
    directions = (DirectionStruct * len(stacks))()
    for number, stack in enumerate(stacks):
        directions[number] = stack.describe(windows[number], after[number], has_state=states[number] is not None)
    library = stacks[0].library
    if library.run_with_scratch(library.forward, ctypes.addressof(directions), len(stacks), single_threaded):
        raise KernelError("The counts or the sources of a window are out of range.")
    return after


class NumpyStack:
    """All layers of one direction in NumPy, with the methods of CompiledStack."""

    def __init__(self, layers: Sequence[LayerWeights], *, residual: bool, int8: bool) -> None:
        self._layers = [_NumpyLayer(layer, int8=int8) for layer in layers]
        self.num_layers, self._residual = len(layers), residual
        self.cell_dim, self.output_dim = layers[0].state_weight.shape[0] // 4, layers[0].state_weight.shape[1]
        self.words_at_once = max(1, _NUMPY_GATE_VALUES // (4 * self.cell_dim))

    def forward(self, window: Window, state: LstmState | None) -> LstmState:
        """Run over a window; see CompiledStack."""
        outputs: list[Array] = [window.words[window.sources]]
        states: list[tuple[Array, Array]] = []
        for number, layer in enumerate(self._layers):
            # Words are repeated, so the first layer multiplies each distinct word once.
            gates = layer.from_inputs(window.words)[window.sources] if number == 0 else layer.from_inputs(outputs[-1])
            initial = None if state is None else (state.hidden[number], state.cell[number])
            output, after = layer.forward(gates, window.counts.tolist(), initial)
            states.append(after)
            # The residual is added to the output only, never to the recurrent state.
            outputs.append(output + outputs[-1] if self._residual and number > 0 else output)
        for vector, weights in enumerate(window.weights):
            mixed = np.zeros_like(outputs[0])
            for weight, output in zip(weights, outputs, strict=True):
                if weight:
                    mixed += weight * output
            window.result[window.targets, vector, window.side] = mixed
        hidden, cell = map(np.stack, zip(*states, strict=True))
        return LstmState(hidden, cell)


Stack: TypeAlias = CompiledStack | NumpyStack


class _NumpyLayer:
    """One layer: i, f, g, o = W x + V h + b;  c' = clip(σ(f)·c + σ(i)·tanh(g));  h' = clip(P (σ(o)·tanh(c')))."""

    def __init__(self, layer: LayerWeights, *, int8: bool) -> None:
        self.from_inputs = NumpyMatrix(layer.input_weight, layer.bias, int8=int8)  # W x + b
        self._from_state = NumpyMatrix(layer.state_weight, int8=int8)
        weight = layer.projection_weight
        self._project = None if weight is None else NumpyMatrix(weight, int8=int8)
        self._cell_clip, self._projection_clip = layer.cell_clip, layer.projection_clip
        self._cell_dim, self._output_dim = layer.state_weight.shape[0] // 4, layer.state_weight.shape[1]

    def forward(
        self, gates: Array, counts: Sequence[int], state: tuple[Array, Array] | None
    ) -> tuple[Array, tuple[Array, Array]]:
        """Return the outputs (N, D) of all rows, and the final hidden (B, D) and cell (B, H), given W x + b."""
        if state is None:
            hidden, cell = (np.zeros((counts[0], dim), np.float32) for dim in (self._output_dim, self._cell_dim))
        else:
            hidden, cell = (array.copy() for array in state)
        outputs = np.empty((len(gates), self._output_dim), dtype=np.float32)
        start = 0
        for count in counts:
            rows = slice(start, start + count)
            if start or state is not None:
                gates[rows] += self._from_state(hidden[:count])
            hidden[:count] = outputs[rows] = self._step(gates[rows], cell[:count])
            start += count
        return outputs, (hidden, cell)

    def _step(self, gates: Array, cell: Array) -> Array:
        """Update the cell (B, H) in place and return the outputs (B, D)."""
        size = self._cell_dim
        candidate = np.tanh(gates[:, 2 * size : 3 * size])
        with np.errstate(over="ignore"):
            np.negative(gates, out=gates)
            np.exp(gates, out=gates)
        gates += 1
        np.reciprocal(gates, out=gates)
        cell *= gates[:, size : 2 * size]
        candidate *= gates[:, :size]
        cell += candidate
        if self._cell_clip is not None:
            np.clip(cell, -self._cell_clip, self._cell_clip, out=cell)
        h = np.tanh(cell)
        h *= gates[:, 3 * size :]
        if self._project is None:
            return h
        projected = self._project(h)
        if self._projection_clip is not None:
            np.clip(projected, -self._projection_clip, self._projection_clip, out=projected)
        return projected


def cut_steps(counts: Sequence[int], words_at_once: int) -> Iterator[tuple[slice, list[int]]]:
    """Cut steps of `counts` words into windows of at most `words_at_once` words, but at least one step."""
    start = num_words = 0
    window: list[int] = []
    for count in counts:
        if window and num_words + count > words_at_once:
            yield slice(start, start + num_words), window
            start, num_words, window = start + num_words, 0, []
        window.append(count)
        num_words += count
    if window:
        yield slice(start, start + num_words), window
