"""One direction of the language model: projected LSTM layers with clipping and residual connections.

State is passed in and out, never kept here, so the same input always gives the same output.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn.initialize import draw_glorot
from elmo.nn.lstm_window import LstmWindow
from elmo.nn.reading_state import ReadingState

# Products of the inputs are made for many time steps at once; this bounds the memory they take.
MAX_GATE_VALUES = 2**26


class LstmState(ReadingState):
    """Where the layers of one direction stand: hidden (L, B, D) and cell (L, B, H)."""

    def __init__(self, hidden: Tensor, cell: Tensor) -> None:
        super().__init__(hidden, cell)
        self.hidden, self.cell = hidden, cell


class ProjectedLstm(nn.Module):
    """One layer, one direction.

    i, f, g, o = W x + V h + b;  c' = clip(σ(f + forget_bias)·c + σ(i)·tanh(g));  h' = clip(P (σ(o)·tanh(c')))
    """

    def __init__(
        self,
        input_dim: int,
        cell_dim: int,
        output_dim: int,
        *,
        projected: bool,
        cell_clip: float | None,
        projection_clip: float | None,
        forget_bias: float,
    ) -> None:
        super().__init__()
        self.cell_dim, self.output_dim = cell_dim, output_dim
        self.cell_clip, self.projection_clip, self.forget_bias = cell_clip, projection_clip, forget_bias
        self.input_weight = nn.Parameter(torch.empty(4 * cell_dim, input_dim))
        self.state_weight = nn.Parameter(torch.empty(4 * cell_dim, output_dim))
        self.bias = nn.Parameter(torch.zeros(4 * cell_dim))
        self.projection_weight = nn.Parameter(torch.empty(output_dim, cell_dim)) if projected else None
        for name, parameter in self.named_parameters():
            if name != "bias":
                draw_glorot(parameter)

    def forward(
        self, inputs: Tensor, lengths: list[int], hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run over (B, T, I), rows by falling length, from hidden (B, D) and cell (B, H).

        Gives the outputs (B, T, D), zero past a row's end, and each row's state at its end; a row of length 0
        keeps the state it came with.
        """
        num_rows, num_steps, _ = inputs.shape
        bias = self._whole_bias()
        steps_at_once = max(1, MAX_GATE_VALUES // max(1, num_rows * 4 * self.cell_dim))
        outputs: list[Tensor] = []
        ended: list[tuple[Tensor, Tensor]] = []
        num_active = num_rows
        for start in range(0, num_steps, steps_at_once):
            window = inputs[:, start : start + steps_at_once].transpose(0, 1)  # (t, B, I)
            from_inputs = F.linear(window, self.input_weight, bias)
            for offset, step_gates in enumerate(from_inputs):
                while num_active and lengths[num_active - 1] <= start + offset:
                    num_active -= 1
                if num_active < hidden.shape[0]:
                    ended.append((hidden[num_active:], cell[num_active:]))
                    hidden, cell = hidden[:num_active], cell[:num_active]
                hidden, cell = self._step(step_gates[:num_active], hidden, cell)
                outputs.append(F.pad(hidden, (0, 0, 0, num_rows - num_active)))
        ended.append((hidden, cell))
        final_hidden, final_cell = (torch.cat(parts[::-1]) for parts in zip(*ended, strict=True))
        return torch.stack(outputs, dim=1), final_hidden, final_cell

    def read_window(
        self, inputs: Tensor, keep: Tensor, hidden: Tensor, cell: Tensor, *, product_dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run over (T, B, I) for training; `keep` (T, B) is 0 where a row starts from zero.

        Gives the outputs (T, B, D) and the state at the window's end.
        """
        outputs, hidden, cell = LstmWindow.apply(  # type: ignore[no-untyped-call]
            inputs, keep, hidden, cell, self.input_weight, self.state_weight, self._whole_bias(),
            self.projection_weight, self.cell_clip, self.projection_clip, product_dtype,
        )  # fmt: skip
        return outputs, hidden, cell

    def _whole_bias(self) -> Tensor:
        if not self.forget_bias:
            return self.bias
        unlearned = self.bias.new_full((self.cell_dim,), self.forget_bias)
        return self.bias + F.pad(unlearned, (self.cell_dim, 2 * self.cell_dim))

    def _step(self, from_inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        gates = torch.addmm(from_inputs, hidden, self.state_weight.t())
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
        cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
        if self.cell_clip is not None:
            cell = cell.clamp(-self.cell_clip, self.cell_clip)
        hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
        if self.projection_weight is not None:
            hidden = hidden @ self.projection_weight.t()
            if self.projection_clip is not None:
                hidden = hidden.clamp(-self.projection_clip, self.projection_clip)
        return hidden, cell


class LstmStack(nn.Module):
    """All layers of one direction, reading in the direction it is given."""

    def __init__(self, layers: list[ProjectedLstm], *, residual: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.residual = residual

    @property
    def num_layers(self) -> int:
        """How many layers there are."""
        return len(self.layers)

    def zero_state(self, num_rows: int) -> LstmState:
        """Give the state before anything was read."""
        first = self.layers[0]
        assert isinstance(first, ProjectedLstm)
        zeros = first.bias.new_zeros
        return LstmState(
            hidden=zeros(self.num_layers, num_rows, first.output_dim),
            cell=zeros(self.num_layers, num_rows, first.cell_dim),
        )

    def forward(self, inputs: Tensor, lengths: list[int], state: LstmState) -> tuple[list[Tensor], LstmState]:
        """(B, T, D), rows by falling length -> each layer's outputs (B, T, D) and the state at the end."""
        outputs: list[Tensor] = []
        hiddens, cells = [], []
        for number, layer in enumerate(self.layers):
            result, hidden, cell = layer(inputs, lengths, state.hidden[number], state.cell[number])
            # The recurrent state never contains the residual; only what is passed on does.
            inputs = result + inputs if self.residual and number > 0 else result
            outputs.append(inputs)
            hiddens.append(hidden)
            cells.append(cell)
        return outputs, LstmState(torch.stack(hiddens), torch.stack(cells))

    def read_window(
        self,
        inputs: Tensor,
        keep: Tensor,
        state: ReadingState,
        *,
        dropout: float = 0.0,
        product_dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, LstmState]:
        """Give the top layer of read_layers and the state."""
        layers, state = self.read_layers(inputs, keep, state, dropout=dropout, product_dtype=product_dtype)
        return layers[-1], state

    def read_layers(
        self,
        inputs: Tensor,
        keep: Tensor,
        state: ReadingState,
        *,
        dropout: float = 0.0,
        product_dtype: torch.dtype = torch.float32,
    ) -> tuple[list[Tensor], LstmState]:
        """(T, B, D) of packed rows, `keep` (T, B) -> each layer's outputs (T, B, D) and the state, detached.

        Each layer's input is dropped out, and the residual adds what was left, as bilm-tf trains.
        """
        assert isinstance(state, LstmState)
        layers, hiddens, cells = [], [], []
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, ProjectedLstm)
            inputs = F.dropout(inputs, dropout, training=dropout > 0)
            outputs, hidden, cell = layer.read_window(
                inputs, keep, state.hidden[number], state.cell[number], product_dtype=product_dtype
            )
            inputs = outputs + inputs if self.residual and number > 0 else outputs
            layers.append(inputs)
            hiddens.append(hidden.detach())
            cells.append(cell.detach())
        return layers, LstmState(torch.stack(hiddens), torch.stack(cells))
