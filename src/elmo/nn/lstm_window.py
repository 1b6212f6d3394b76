"""The projected LSTM over a window of packed rows, for training: one autograd step for all its time steps.

Rows are streams of sentences; `keep` is 0 where a sentence starts, so that it starts from a zero state.
The products over all steps (inputs, weight gradients) are one matrix product each.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class LstmWindow(torch.autograd.Function):
    """outputs (T, B, D), hidden (B, D), cell (B, H) from inputs (T, B, I) and the state before them.

    Products are made in `product_dtype`, everything else in float32.
    """

    @staticmethod
    def forward(
        ctx: Any,
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
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run all steps, keeping what the way back needs."""
        num_steps, num_rows, _ = inputs.shape
        cell_dim = cell.shape[1]
        inputs = inputs.to(product_dtype)
        input_weight, state_weight = input_weight.to(product_dtype), state_weight.to(product_dtype)
        gates = F.linear(inputs.flatten(0, 1), input_weight).view(num_steps, num_rows, -1).float()
        gates += bias
        if projection_weight is not None:
            projection_weight = projection_weight.to(product_dtype)
        before_hidden = inputs.new_empty((num_steps, *hidden.shape))
        before_cell = gates.new_empty((num_steps, *cell.shape))
        squashed, exposed = torch.empty_like(before_cell), inputs.new_empty(before_cell.shape)
        outputs = gates.new_empty((num_steps, *hidden.shape))
        within = torch.ones_like(before_cell, dtype=torch.bool) if cell_clip is not None else None
        for step in range(num_steps):
            before_hidden[step] = hidden * keep[step, :, None]
            torch.mul(cell, keep[step, :, None], out=before_cell[step])
            gates[step] += before_hidden[step] @ state_weight.t()
            gates[step, :, : 2 * cell_dim].sigmoid_()
            gates[step, :, 2 * cell_dim : 3 * cell_dim].tanh_()
            gates[step, :, 3 * cell_dim :].sigmoid_()
            input_gate, forget_gate, candidate, output_gate = gates[step].chunk(4, dim=1)
            cell = (forget_gate * before_cell[step]).addcmul_(input_gate, candidate)
            if cell_clip is not None and within is not None:
                torch.lt(cell.abs(), cell_clip, out=within[step])
                cell.clamp_(-cell_clip, cell_clip)
            torch.tanh(cell, out=squashed[step])
            exposed[step] = output_gate * squashed[step]
            if projection_weight is None:
                outputs[step] = exposed[step]
            else:
                outputs[step] = exposed[step] @ projection_weight.t()
                if projection_clip is not None:
                    outputs[step].clamp_(-projection_clip, projection_clip)
            hidden = outputs[step]
        ctx.save_for_backward(
            inputs, keep, input_weight, state_weight, projection_weight,
            gates, before_hidden, before_cell, squashed, exposed, outputs, within,
        )  # fmt: skip
        ctx.projection_clip = projection_clip if projection_weight is not None else None
        return outputs, hidden.clone(), cell

    @staticmethod
    def backward(ctx: Any, grad_outputs: Tensor, grad_hidden: Tensor, grad_cell: Tensor) -> Any:
        """Go through the steps once more, last to first, then make each weight's gradient in one product."""
        (
            inputs, keep, input_weight, state_weight, projection_weight,
            gates, before_hidden, before_cell, squashed, exposed, outputs, within,
        ) = ctx.saved_tensors  # fmt: skip
        num_steps = len(inputs)
        grad_gates = torch.empty_like(gates)
        grad_projected = outputs.new_empty(outputs.shape)
        for step in reversed(range(num_steps)):
            torch.add(grad_outputs[step], grad_hidden, out=grad_projected[step])
            grad_exposed = grad_projected[step]
            if projection_weight is not None:
                if ctx.projection_clip is not None:
                    grad_projected[step] *= outputs[step].abs() < ctx.projection_clip
                grad_exposed = (grad_projected[step].to(inputs.dtype) @ projection_weight).float()
            input_gate, forget_gate, candidate, output_gate = gates[step].chunk(4, dim=1)
            to_input, to_forget, to_candidate, to_output = grad_gates[step].chunk(4, dim=1)
            _sigmoid_gradient(grad_exposed * squashed[step], output_gate, to_output)
            grad_cell = grad_cell + (grad_exposed * output_gate) * (1 - squashed[step].square())
            if within is not None:
                grad_cell *= within[step]
            _sigmoid_gradient(grad_cell * candidate, input_gate, to_input)
            _sigmoid_gradient(grad_cell * before_cell[step], forget_gate, to_forget)
            torch.mul(grad_cell * input_gate, 1 - candidate.square(), out=to_candidate)
            grad_hidden = (grad_gates[step].to(inputs.dtype) @ state_weight).float() * keep[step, :, None]
            grad_cell = grad_cell * forget_gate * keep[step, :, None]
        flat = grad_gates.flatten(0, 1)
        flat_products = flat.to(inputs.dtype)
        grad_projection = None
        if projection_weight is not None:
            grad_projection = grad_projected.flatten(0, 1).to(inputs.dtype).t() @ exposed.flatten(0, 1)
        return (
            (flat_products @ input_weight).float().view(num_steps, *inputs.shape[1:]),
            None,
            grad_hidden,
            grad_cell,
            (flat_products.t() @ inputs.flatten(0, 1)).float(),
            (flat_products.t() @ before_hidden.flatten(0, 1)).float(),
            flat.sum(dim=0),
            None if grad_projection is None else grad_projection.float(),
            None,
            None,
            None,
        )


def _sigmoid_gradient(gradient: Tensor, value: Tensor, out: Tensor) -> None:
    """out = gradient · value · (1 - value)."""
    torch.mul(gradient, value, out=out)
    out.addcmul_(out, value, value=-1)
