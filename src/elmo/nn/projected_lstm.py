"""One direction of the language model: projected LSTM layers with clipping and residual connections.

Modules do not store the state: it is an input and an output. With the compiled kernels, all time steps of a layer are
one autograd step, and the products with the inputs and the weight gradients are one matrix multiplication each.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.kernels.library import Library, find_library
from elmo.nn.encoder import EncoderState
from elmo.nn.kernels import lstm_cell_backward, lstm_cell_forward


class LstmState(EncoderState):
    """The state of all layers of one direction: hidden (L, B, D) and cell (L, B, H)."""

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
                nn.init.xavier_uniform_(parameter)

    def forward(self, inputs: Tensor, keep: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Run over (T, B, I) from hidden (B, D) and cell (B, H); `keep` (T, B) is 0 where a row is reset to zero.

        Returns the outputs (T, B, D) and the cells (T, B, H). torch.autocast determines the dtype of the matrix
        multiplications.
        """
        is_float32 = inputs.device.type == "cpu" and self.bias.dtype == torch.float32
        library = find_library() if is_float32 else None
        if library is None:
            return self._forward_steps(inputs, keep, hidden, cell)
        autocasts = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            outputs, cells = LstmWindow.apply(  # type: ignore[no-untyped-call]
                library, inputs, keep, hidden, cell, self.input_weight, self.state_weight, self._whole_bias(),
                self.projection_weight, self.cell_clip, self.projection_clip,
                torch.bfloat16 if autocasts else torch.float32,
            )  # fmt: skip
        return outputs, cells

    def _forward_steps(self, inputs: Tensor, keep: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Do the same with torch operations: on a GPU, or without compiled kernels."""
        bias = self._whole_bias()
        from_inputs = F.linear(inputs, self.input_weight).to(bias.dtype)
        outputs, cells = [], []
        for step_inputs, step_keep in zip(from_inputs, keep[..., None], strict=True):
            gates = step_inputs + F.linear(hidden * step_keep, self.state_weight) + bias
            input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
            cell = forget_gate.sigmoid() * (cell * step_keep) + input_gate.sigmoid() * candidate.tanh()
            cell = _clip(cell, self.cell_clip)
            hidden = output_gate.sigmoid() * cell.tanh()
            if self.projection_weight is not None:
                hidden = _clip(F.linear(hidden, self.projection_weight).to(bias.dtype), self.projection_clip)
            outputs.append(hidden)
            cells.append(cell)
        return torch.stack(outputs), torch.stack(cells)

    def _whole_bias(self) -> Tensor:
        if not self.forget_bias:
            return self.bias
        unlearned = self.bias.new_full((self.cell_dim,), self.forget_bias)
        return self.bias + F.pad(unlearned, (self.cell_dim, 2 * self.cell_dim))


def _clip(values: Tensor, limit: float | None) -> Tensor:
    return values if limit is None else values.clamp(-limit, limit)


class LstmStack(nn.Module):
    """All layers of one direction; the caller reverses the input of the right-to-left direction."""

    def __init__(self, layers: list[ProjectedLstm], *, residual: bool) -> None:
        super().__init__()
        self.layers, self.num_layers = nn.ModuleList(layers), len(layers)
        self.residual = residual

    def zero_state(self, num_rows: int) -> LstmState:
        """Return the state at the start of a text."""
        first = self.layers[0]
        assert isinstance(first, ProjectedLstm)
        shape, zeros = (self.num_layers, num_rows), first.bias.new_zeros
        return LstmState(zeros(*shape, first.output_dim), zeros(*shape, first.cell_dim))

    def forward(
        self,
        inputs: Tensor,
        state: LstmState,
        *,
        lengths: Tensor | None = None,
        keep: Tensor | None = None,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], LstmState]:
        """(B, T, D) -> the output of each layer, residual included, (B, T, D), and the state at the end of each row.

        Rows have T words, or the given lengths (B,): then outputs are zero beyond the end of a row, and a row of length
        0 keeps its state. Where `keep` (B, T) is 0, the state of a row is reset to zero. Dropout is applied to the
        input of each layer, which the residual connection adds after dropout, as in bilm-tf.
        """
        num_rows, num_steps, _ = inputs.shape
        keep = state.hidden.new_ones(num_steps, num_rows) if keep is None else keep.t()
        layers, hiddens, all_cells = [inputs.transpose(0, 1)], list[Tensor](), list[Tensor]()
        for layer, hidden, cell in zip(self.layers, state.hidden, state.cell, strict=True):
            below = F.dropout(layers[-1], dropout, training=dropout > 0)
            outputs, cells = layer(below, keep, hidden, cell)
            # The recurrent state does not include the residual.
            layers.append(outputs + below if self.residual and hiddens else outputs)
            hiddens.append(outputs)
            all_cells.append(cells)
        layers = [outputs.transpose(0, 1) for outputs in layers[1:]]
        if lengths is None:
            hidden, cell = (torch.stack([steps[-1] for steps in values]) for values in (hiddens, all_cells))
            return layers, LstmState(hidden, cell)
        lengths, rows = lengths.to(inputs.device), torch.arange(num_rows, device=inputs.device)
        last, is_nonempty = (lengths - 1).clamp(min=0), (lengths > 0)[:, None]
        hidden, cell = (torch.stack([steps[last, rows] for steps in values]) for values in (hiddens, all_cells))
        end = LstmState(torch.where(is_nonempty, hidden, state.hidden), torch.where(is_nonempty, cell, state.cell))
        mask = (torch.arange(num_steps, device=inputs.device) < lengths[:, None])[..., None]
        return [layer * mask for layer in layers], end


class LstmWindow(torch.autograd.Function):
    """Outputs (T, B, D) and cells (T, B, H) from inputs (T, B, I) and the state before them, on the CPU in float32.

    Compiled kernels compute the LSTM cells; matrix multiplications are in `product_dtype`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        library: Library,
        inputs: Tensor,
        keep: Tensor,
        hidden: Tensor,
        cell: Tensor,
        input_weight: Tensor,
        state_weight: Tensor,
        bias: Tensor,
        projection_weight: Tensor | None,
        cell_clip: float | None,
        projection_clip: float | None,
        product_dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """Run all time steps, and save the tensors that the backward pass needs."""
        num_steps, num_rows, _ = inputs.shape
        inputs = inputs.to(product_dtype)
        input_weight, state_weight = input_weight.to(product_dtype), state_weight.to(product_dtype)
        from_inputs = F.linear(inputs.flatten(0, 1), input_weight).view(num_steps, num_rows, -1)
        from_state = torch.empty_like(from_inputs[0])
        gates = from_inputs if product_dtype == torch.float32 else torch.empty_like(from_inputs, dtype=torch.float32)
        if projection_weight is not None:
            projection_weight = projection_weight.to(product_dtype)
        first_cell, keep = cell.contiguous(), keep.contiguous()
        before_hidden = inputs.new_empty((num_steps, *hidden.shape))
        cells = gates.new_empty((num_steps, *cell.shape))
        tanh_c, h = torch.empty_like(cells), torch.empty_like(cells, dtype=product_dtype)
        outputs = gates.new_empty((num_steps, *hidden.shape))
        for step in range(num_steps):
            torch.mul(hidden, keep[step, :, None], out=before_hidden[step])
            torch.mm(before_hidden[step], state_weight.t(), out=from_state)
            previous = cells[step - 1] if step else first_cell
            lstm_cell_forward(
                library, from_inputs[step], from_state, bias, previous, keep[step],
                cell_clip, gates[step], cells[step], tanh_c[step], h[step],
            )  # fmt: skip
            hidden = h[step] if projection_weight is None else h[step] @ projection_weight.t()
            if projection_weight is not None and projection_clip is not None:
                hidden.clamp_(-projection_clip, projection_clip)
            outputs[step] = hidden
            hidden = outputs[step]
        ctx.save_for_backward(
            inputs, keep, input_weight, state_weight, projection_weight,
            gates, before_hidden, first_cell, cells, tanh_c, h, outputs,
        )  # fmt: skip
        ctx.library, ctx.cell_clip, ctx.projection_clip = library, cell_clip, projection_clip
        ctx.set_materialize_grads(False)
        return outputs, cells

    @staticmethod
    def backward(ctx: Any, grad_outputs: Tensor | None, grad_cells: Tensor | None) -> Any:
        """Run the time steps in reverse; then compute the gradient of each weight in one multiplication."""
        (
            inputs, keep, input_weight, state_weight, projection_weight,
            gates, before_hidden, first_cell, cells, tanh_c, h, outputs,
        ) = ctx.saved_tensors  # fmt: skip
        num_steps, dtype = len(inputs), inputs.dtype
        grad_gates = torch.empty_like(gates, dtype=dtype)
        grad_bias = gates.new_zeros(gates.shape[2])
        grad_projected = torch.empty_like(outputs, dtype=dtype)
        grad_cell, grad_hidden = torch.zeros_like(cells[0]), torch.zeros_like(outputs[0])
        for step in reversed(range(num_steps)):
            grad_output = grad_hidden.clone() if grad_outputs is None else grad_outputs[step] + grad_hidden
            if grad_cells is not None:
                grad_cell += grad_cells[step]
            if projection_weight is not None and ctx.projection_clip is not None:  # none where it was clipped
                limits = (-ctx.projection_clip, ctx.projection_clip)
                torch.ops.aten.hardtanh_backward(grad_output, outputs[step], *limits, grad_input=grad_output)
            grad_h = grad_projected[step] = grad_output.to(dtype)
            if projection_weight is not None:
                grad_h = grad_h @ projection_weight
            previous = cells[step - 1] if step else first_cell
            lstm_cell_backward(
                ctx.library, gates[step], previous, keep[step], cells[step], tanh_c[step],
                grad_h, ctx.cell_clip, grad_cell, grad_gates[step], grad_bias,
            )  # fmt: skip
            grad_hidden = (grad_gates[step] @ state_weight) * keep[step, :, None]
        flat = grad_gates.flatten(0, 1)
        grad_projection = None
        if projection_weight is not None:
            grad_projection = (grad_projected.flatten(0, 1).t() @ h.flatten(0, 1)).to(gates.dtype)
        return (
            None,
            (flat @ input_weight).to(gates.dtype).view(inputs.shape),
            None,
            grad_hidden,
            grad_cell,
            (flat.t() @ inputs.flatten(0, 1)).to(gates.dtype),
            (flat.t() @ before_hidden.flatten(0, 1)).to(gates.dtype),
            grad_bias,
            grad_projection,
            None,
            None,
            None,
        )
