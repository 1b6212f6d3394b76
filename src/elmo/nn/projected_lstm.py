"""One direction of the language model: projected LSTM layers with clipping and residual connections.

State is passed in and out, never kept here, so the same input always gives the same output.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn.initialize import draw_glorot
from elmo.nn.lstm_window import LstmWindow
from elmo.nn.reading_state import ReadingState


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
        """Run over (B, T, I), rows of the given lengths, from hidden (B, D) and cell (B, H).

        Returns the outputs (B, T, D), zero past a row's end, and each row's state at its end; a row of length 0
        keeps the state it came with.
        """
        steps = torch.arange(inputs.shape[1], device=inputs.device)
        ends = torch.tensor(lengths, device=inputs.device)
        keep = inputs.new_ones(inputs.shape[1], len(inputs))
        outputs, cells = self._read(inputs.transpose(0, 1), keep, hidden, cell, inputs.dtype)
        outputs, cells = outputs.transpose(0, 1), cells.transpose(0, 1)
        rows, last = torch.arange(len(inputs), device=inputs.device), (ends - 1).clamp(min=0)
        was_read = (ends > 0)[:, None]
        return (
            outputs * (steps < ends[:, None])[..., None],
            torch.where(was_read, outputs[rows, last], hidden),
            torch.where(was_read, cells[rows, last], cell),
        )

    def read_window(
        self, inputs: Tensor, keep: Tensor, hidden: Tensor, cell: Tensor, *, product_dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run over (T, B, I) for training; `keep` (T, B) is 0 where a row starts from zero.

        Returns the outputs (T, B, D) and the state at the window's end.
        """
        outputs, cells = self._read(inputs, keep, hidden, cell, product_dtype)
        return outputs, outputs[-1], cells[-1]

    def _read(
        self, inputs: Tensor, keep: Tensor, hidden: Tensor, cell: Tensor, product_dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        outputs, cells = LstmWindow.apply(  # type: ignore[no-untyped-call]
            inputs, keep, hidden, cell, self.input_weight, self.state_weight, self._whole_bias(),
            self.projection_weight, self.cell_clip, self.projection_clip, product_dtype,
        )  # fmt: skip
        return outputs, cells

    def _whole_bias(self) -> Tensor:
        if not self.forget_bias:
            return self.bias
        unlearned = self.bias.new_full((self.cell_dim,), self.forget_bias)
        return self.bias + F.pad(unlearned, (self.cell_dim, 2 * self.cell_dim))


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
        """Return the state before anything was read."""
        first = self.layers[0]
        assert isinstance(first, ProjectedLstm)
        zeros = first.bias.new_zeros
        return LstmState(
            hidden=zeros(self.num_layers, num_rows, first.output_dim),
            cell=zeros(self.num_layers, num_rows, first.cell_dim),
        )

    def forward(self, inputs: Tensor, lengths: list[int], state: LstmState) -> tuple[list[Tensor], LstmState]:
        """(B, T, D) of rows of the given lengths -> each layer's outputs (B, T, D) and the state at the end."""
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
        """Return the top layer of read_layers and the state."""
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
