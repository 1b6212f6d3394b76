"""The projected LSTM over a window of packed rows, for training: one autograd step for all its time steps.

Rows are streams of sentences; `keep` is 0 where a sentence starts, so that it starts from a zero state.
The products over all steps (inputs, weight gradients) are one matrix product each.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

sigmoid_backward = torch.ops.aten.sigmoid_backward
tanh_backward = torch.ops.aten.tanh_backward


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
        cells, squashed = torch.empty_like(before_cell), torch.empty_like(before_cell)
        exposed = inputs.new_empty(before_cell.shape)
        outputs = gates.new_empty((num_steps, *hidden.shape))
        for step in range(num_steps):
            torch.mul(hidden, keep[step, :, None], out=before_hidden[step])
            torch.mul(cell, keep[step, :, None], out=before_cell[step])
            _add_product(gates[step], before_hidden[step], state_weight.t())
            gates[step, :, : 2 * cell_dim].sigmoid_()
            gates[step, :, 2 * cell_dim : 3 * cell_dim].tanh_()
            gates[step, :, 3 * cell_dim :].sigmoid_()
            input_gate, forget_gate, candidate, output_gate = gates[step].chunk(4, dim=1)
            cell = torch.mul(forget_gate, before_cell[step], out=cells[step])
            cell.addcmul_(input_gate, candidate)
            if cell_clip is not None:
                cell.clamp_(-cell_clip, cell_clip)
            torch.tanh(cell, out=squashed[step])
            torch.mul(output_gate, squashed[step], out=exposed[step])
            if projection_weight is None:
                outputs[step] = exposed[step]
            else:
                _put_product(outputs[step], exposed[step], projection_weight.t())
                if projection_clip is not None:
                    outputs[step].clamp_(-projection_clip, projection_clip)
            hidden = outputs[step]
        ctx.save_for_backward(
            inputs, keep, input_weight, state_weight, projection_weight,
            gates, before_hidden, before_cell, cells, squashed, exposed, outputs,
        )  # fmt: skip
        ctx.cell_clip, ctx.projection_clip = cell_clip, projection_clip
        return outputs, hidden.clone(), cell.clone()

    @staticmethod
    def backward(ctx: Any, grad_outputs: Tensor, grad_hidden: Tensor, grad_cell: Tensor) -> Any:
        """Go through the steps once more, last to first, then make each weight's gradient in one product."""
        (
            inputs, keep, input_weight, state_weight, projection_weight,
            gates, before_hidden, before_cell, cells, squashed, exposed, outputs,
        ) = ctx.saved_tensors  # fmt: skip
        num_steps = len(inputs)
        grad_gates = torch.empty_like(gates)
        grad_projected = outputs.new_empty(outputs.shape)
        for step in reversed(range(num_steps)):
            torch.add(grad_outputs[step], grad_hidden, out=grad_projected[step])
            grad_exposed = grad_projected[step]
            if projection_weight is not None:
                if ctx.projection_clip is not None:
                    _stop_where_clipped(grad_projected[step], outputs[step], ctx.projection_clip)
                grad_exposed = (grad_projected[step].to(inputs.dtype) @ projection_weight).float()
            input_gate, forget_gate, candidate, output_gate = gates[step].chunk(4, dim=1)
            to_input, to_forget, to_candidate, to_output = grad_gates[step].chunk(4, dim=1)
            sigmoid_backward(grad_exposed * squashed[step], output_gate, grad_input=to_output)
            grad_cell = grad_cell + tanh_backward(grad_exposed * output_gate, squashed[step])
            if ctx.cell_clip is not None:
                _stop_where_clipped(grad_cell, cells[step], ctx.cell_clip)
            sigmoid_backward(grad_cell * candidate, input_gate, grad_input=to_input)
            sigmoid_backward(grad_cell * before_cell[step], forget_gate, grad_input=to_forget)
            tanh_backward(grad_cell * input_gate, candidate, grad_input=to_candidate)
            grad_hidden = (grad_gates[step].to(inputs.dtype) @ state_weight).float() * keep[step, :, None]
            grad_cell *= forget_gate
            grad_cell *= keep[step, :, None]
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


def _stop_where_clipped(gradient: Tensor, clipped: Tensor, clip: float) -> None:
    """Set the gradient to zero where its value was clipped, in place."""
    torch.ops.aten.hardtanh_backward(gradient, clipped, -clip, clip, grad_input=gradient)


def _put_product(out: Tensor, left: Tensor, right: Tensor) -> None:
    """out = left · right, where `out` is float32 and the others may be narrower."""
    if left.dtype == out.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(left @ right)


def _add_product(out: Tensor, left: Tensor, right: Tensor) -> None:
    """out += left · right, likewise."""
    if left.dtype == out.dtype:
        out.addmm_(left, right)
    else:
        out += left @ right
