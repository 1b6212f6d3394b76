"""The softmax that predicts words from the states of either direction: over the vocabulary, or sampled."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn import draw_normal

LOGITS_AT_ONCE, LOGITS_AT_ONCE_GPU = 2**22, 2**26


class WordSoftmax(nn.Module):
    """A weight row and a bias for each word of the vocabulary."""

    def __init__(self, dim: int, num_words: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_words, dim))
        self.bias = nn.Parameter(torch.zeros(num_words))
        draw_normal(self.weight, dim**-0.5)
        # Whether the weight gets a sparse gradient, with only the sampled rows, from sampled losses.
        self.sparse_gradient = False

    def loss(self, states: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of -log p(target) for (N, D) states and (N,) targets, over the whole vocabulary."""
        return F.cross_entropy(F.linear(states, self.weight, self.bias), targets, reduction="sum")

    def sampled_loss(self, states: Tensor, targets: Tensor, samples: "NegativeSamples") -> Tensor:
        """Return the same over each target and the sampled words only, corrected for their sampling probability.

        For each state, a sampled word that is the target itself is excluded.
        """
        rows = torch.cat([samples.words, targets])
        weight = F.embedding(rows, self.weight, sparse=self.sparse_gradient)
        offset = self.bias[rows] - samples.log_expected_count(rows)
        loss: Tensor = SampledLoss.apply(states, weight, offset, samples.hits(targets), len(samples.words))  # type: ignore[no-untyped-call]
        return loss


class NegativeSamples:
    """Distinct words sampled log-uniformly by rank; the vocabulary is sorted by decreasing frequency.

    P(rank) = log((rank + 2) / (rank + 1)) / log(V + 1). The expected count of a word is the probability that it is
    among the samples after as many draws as were needed.
    """

    def __init__(self, num_samples: int, num_words: int, generator: torch.Generator) -> None:
        self.num_words = num_words
        num_samples = min(num_samples, num_words)
        drawn = np.empty(0, dtype=np.int64)
        first = np.empty(0, dtype=np.int64)  # position of the first draw of each distinct word
        while len(first) < num_samples:
            uniform = torch.rand(2 * num_samples, generator=generator, dtype=torch.float64).numpy()
            ranks = np.exp(uniform * math.log(num_words + 1)) - 1
            drawn = np.concatenate([drawn, np.minimum(ranks.astype(np.int64), num_words - 1)])
            first = np.sort(np.unique(drawn, return_index=True)[1])
        first = first[:num_samples]
        self.num_draws = int(first[-1]) + 1
        self.words = torch.from_numpy(drawn[first])
        self._columns = torch.full((num_words,), -1)
        self._columns[self.words] = torch.arange(num_samples)

    def log_expected_count(self, words: Tensor) -> Tensor:
        """Return the log of the expected count of each word among the samples, shape as `words`."""
        ranks = words.double()
        probability = torch.log((ranks + 2) / (ranks + 1)) / math.log(self.num_words + 1)
        return torch.log(-torch.expm1(self.num_draws * torch.log1p(-probability))).float()

    def hits(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the targets (N,) that are samples too: their indices, and those of the samples."""
        columns = self._columns[targets]
        rows = (columns >= 0).nonzero()[:, 0]
        return rows, columns[rows]

    def to(self, device: torch.device | str) -> "NegativeSamples":
        """Move the drawn words to a device."""
        self.words, self._columns = self.words.to(device), self._columns.to(device)
        return self


class SampledLoss(torch.autograd.Function):
    """The sum over N states (N, D) of -log p(target) over the S samples and the target.

    `weight` (S + N, D) and `offset` (S + N,) are those of the samples, then of the target of each state. `hits` are the
    rows and columns where a sample is the target itself, which is excluded. The dtype of the multiplications is that of
    the states.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, offset: Tensor, hits: tuple[Tensor, Tensor], num_samples: int
    ) -> Tensor:
        """Return the sum; if gradients are needed, compute them here."""
        needs_gradient = any(ctx.needs_input_grad)
        sample_weight = weight[:num_samples].to(states.dtype)
        target_weight = weight[num_samples:]
        sample_offset, target_offset = offset[:num_samples], offset[num_samples:]
        target_logits = (states.float() * target_weight).sum(dim=1) + target_offset
        hit_rows, hit_columns = hits
        logits_at_once = LOGITS_AT_ONCE if states.device.type == "cpu" else LOGITS_AT_ONCE_GPU
        rows_at_once = max(1, logits_at_once // num_samples)
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
        """Scale the gradients computed in the forward pass."""
        grad_states, grad_weight, grad_offset = ctx.saved_tensors
        return (
            grad_states * grad_loss.to(grad_states.dtype),
            grad_weight * grad_loss,
            grad_offset * grad_loss,
            None,
            None,
        )
