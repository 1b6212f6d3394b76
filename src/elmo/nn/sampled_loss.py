"""The loss among a target and sampled words: one autograd step that never holds all its logits.

States are taken some rows at a time, so that their logits stay in the processor's cache, and the gradient is made
on the way: it needs the same logits.
"""

from typing import Any

import torch
from torch import Tensor

LOGITS_AT_ONCE = {"cpu": 2**22, "cuda": 2**26}


class SampledLoss(torch.autograd.Function):
    """Sum over N states (N, D) of -log p(target) among the S samples and the target.

    `weight` (S + N, D) and `offset` (S + N,) belong to the samples, then to the target of each state. `hits` are
    the rows and columns where a sample is the target itself, which is left out. Products are made in the states'
    dtype.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, offset: Tensor, hits: tuple[Tensor, Tensor], num_samples: int
    ) -> Tensor:
        """Give the sum, and keep the gradients where they will be asked for."""
        needs_gradient = any(ctx.needs_input_grad)
        sample_weight = weight[:num_samples].to(states.dtype)
        target_weight = weight[num_samples:]
        sample_offset, target_offset = offset[:num_samples], offset[num_samples:]
        target_logits = (states.float() * target_weight).sum(dim=1) + target_offset
        hit_rows, hit_columns = hits
        rows_at_once = max(1, LOGITS_AT_ONCE[states.device.type] // num_samples)
        buffer = offset.new_empty(min(rows_at_once, len(states)), num_samples)
        grad_states, grad_target_logits = torch.empty_like(states), torch.empty_like(target_logits)
        grad_weight, grad_offset = torch.zeros_like(weight), torch.zeros_like(offset)
        losses = []
        for start in range(0, len(states), rows_at_once):
            rows = slice(start, start + rows_at_once)
            some, targets = states[rows], target_logits[rows]
            logits = buffer[: len(some)]
            if states.dtype == torch.float32:
                torch.addmm(sample_offset, some, sample_weight.t(), out=logits)
            else:
                torch.add(some @ sample_weight.t(), sample_offset, out=logits)
            here = (hit_rows >= start) & (hit_rows < start + rows_at_once)
            logits[hit_rows[here] - start, hit_columns[here]] = float("-inf")
            peak = torch.maximum(logits.amax(dim=1), targets)
            odds, target_odds = logits.sub_(peak[:, None]).exp_(), (targets - peak).exp_()
            total = odds.sum(dim=1).add_(target_odds)
            losses.append((total.log() + peak - targets).sum())
            if needs_gradient:
                share = total.reciprocal()[:, None]
                products = odds.to(states.dtype)
                torch.mul(products @ sample_weight, share, out=grad_states[rows])
                grad_weight[:num_samples] += products.t() @ (some * share).to(states.dtype)
                grad_offset[:num_samples] += (odds.t() @ share)[:, 0]
                torch.sub(target_odds * share[:, 0], 1, out=grad_target_logits[rows])
        if needs_gradient:
            grad_states += (grad_target_logits[:, None] * target_weight).to(states.dtype)
            torch.mul(grad_target_logits[:, None], states, out=grad_weight[num_samples:])
            grad_offset[num_samples:] = grad_target_logits
            ctx.save_for_backward(grad_states, grad_weight, grad_offset)
        return torch.stack(losses).sum()

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor) -> Any:
        """Scale what the way forward made."""
        grad_states, grad_weight, grad_offset = ctx.saved_tensors
        return (
            grad_states * grad_loss.to(grad_states.dtype),
            grad_weight * grad_loss,
            grad_offset * grad_loss,
            None,
            None,
        )
