"""One direction's LSTM layers over packed rows, without gradients, with weights laid out for a precision.

Packed rows are words in the order of reading_order.py: step by step, without padding.
"""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from elmo.inference.packed_linear import PackedLinear, pack_linear
from elmo.inference.precision import Precision
from elmo.inference.reading_order import cut_steps
from elmo.nn.projected_lstm import LstmStack, LstmState, ProjectedLstm

# The gates of this many values are made at once: they should stay in the cache until they are used.
GATE_VALUES_AT_ONCE = 2**21


class PackedLstm:
    """All layers of one direction; what LstmStack gives, up to the rounding of the precision."""

    def __init__(self, stack: LstmStack, precision: Precision) -> None:
        layers = [layer for layer in stack.layers if isinstance(layer, ProjectedLstm)]
        self._layers = [PackedLayer(layer, precision) for layer in layers]
        self._residual = stack.residual
        self.num_weights = sum(parameter.numel() for parameter in stack.parameters())

    def read(
        self, words: Tensor, sources: Tensor, counts: Sequence[int], state: LstmState | None
    ) -> tuple[list[Tensor], LstmState]:
        """Read the packed rows `words[sources]`, (N, D): each layer's outputs (N, D), and all rows' end states.

        The state has at least as many rows as the first step; None starts from zero.
        """
        # Words come again and again: the first layer's product is made once for each.
        distinct, places = torch.unique(sources, return_inverse=True)
        make_gates = functools.partial(_take_rows, self._layers[0].from_inputs(words[distinct]), places)
        outputs: list[Tensor] = []
        hiddens, cells = [], []
        for number, layer in enumerate(self._layers):
            before = None if state is None else (state.hidden[number], state.cell[number])
            if number > 0:
                make_gates = functools.partial(_multiply_rows, layer.from_inputs, outputs[-1])
            result, hidden, cell = layer.read(make_gates, counts, before)
            # The recurrent state never contains the residual; only what is passed on does.
            outputs.append(result + outputs[-1] if self._residual and number > 0 else result)
            hiddens.append(hidden)
            cells.append(cell)
        return outputs, LstmState(torch.stack(hiddens), torch.stack(cells))


class PackedLayer:
    """One layer; see ProjectedLstm for its equations.

    tanh(x) is 2σ(2x) - 1, for σ is faster by far. The factors are put where they cost nothing: into the weights
    of the candidate and of the projection, and into the cell, which is kept doubled. Powers of 2 round nothing.
    """

    def __init__(self, layer: ProjectedLstm, precision: Precision) -> None:
        self._cell_dim, self._output_dim = layer.cell_dim, layer.output_dim
        self._cell_clip, self._projection_clip = layer.cell_clip, layer.projection_clip
        bias = layer.bias.detach().clone()
        bias[layer.cell_dim : 2 * layer.cell_dim] += layer.forget_bias
        self.from_inputs = pack_linear(_double_candidate(layer.input_weight), _double_candidate(bias), precision)
        self._from_state = pack_linear(_double_candidate(layer.state_weight), None, precision)
        weight = layer.projection_weight
        self._project = None if weight is None else pack_linear(2 * weight, None, precision)

    def read(
        self, make_gates: Callable[[slice], Tensor], counts: Sequence[int], state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Give the outputs (N, D) of all rows, and each row's hidden (B, D) and cell (B, H) at its end.

        `make_gates` gives what the inputs of some rows add to their gates, (n, 4H), for this layer to change.
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
        return outputs, _last_rows(outputs, counts, None if state is None else state[0]), doubled_cell / 2

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


def _take_rows(made: Tensor, places: Tensor, rows: slice) -> Tensor:
    return made[places[rows]]


def _multiply_rows(multiply: PackedLinear, inputs: Tensor, rows: slice) -> Tensor:
    return multiply(inputs[rows])


def _double_candidate(weight: Tensor) -> Tensor:
    doubled = weight.detach().clone()
    doubled.chunk(4)[2].mul_(2)
    return doubled


def _last_rows(outputs: Tensor, counts: Sequence[int], before: Tensor | None) -> Tensor:
    """Give the output at each row's last step; rows that were not read keep what was before."""
    hidden = outputs.new_zeros(counts[0], outputs.shape[1]) if before is None else before.clone()
    end = len(outputs)
    done = 0
    for count in reversed(counts):
        if count > done:
            hidden[done:count] = outputs[end - count + done : end]
            done = count
        end -= count
    return hidden
