"""The layer that predicts words from states of either direction: over the whole vocabulary, or by samples."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn.initialize import draw_normal


class WordSoftmax(nn.Module):
    """A weight row and a bias for each word of the vocabulary."""

    def __init__(self, dim: int, num_words: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_words, dim))
        self.bias = nn.Parameter(torch.zeros(num_words))
        draw_normal(self.weight, dim**-0.5)

    def forward(self, states: Tensor) -> Tensor:
        """(..., D) -> log probabilities (..., V)."""
        return F.log_softmax(F.linear(states, self.weight, self.bias), dim=-1)

    def loss(self, states: Tensor, targets: Tensor) -> Tensor:
        """Sum of -log p(target) over (N, D) states and (N,) targets, over the whole vocabulary."""
        return F.cross_entropy(F.linear(states, self.weight, self.bias), targets, reduction="sum")

    def sampled_loss(self, states: Tensor, targets: Tensor, samples: "NegativeSamples") -> Tensor:
        """The same among each target and the sampled words alone, corrected for how likely they were drawn.

        A sampled word that is the target itself is left out for that state.
        """
        rows = torch.cat([samples.words, targets])
        weight, bias = self.weight[rows], self.bias[rows]
        num_samples = len(samples.words)
        corrected = bias[:num_samples] - samples.log_expected_counts
        from_samples = F.linear(states, weight[:num_samples].to(states.dtype), corrected.to(states.dtype))
        hits = targets[:, None] == samples.words[None]
        from_samples = from_samples.float().masked_fill(hits, float("-inf"))
        from_targets = (states.float() * weight[num_samples:]).sum(dim=1) + bias[num_samples:]
        from_targets = from_targets - samples.log_expected_count(targets)
        total = torch.logaddexp(from_targets, from_samples.logsumexp(dim=1))
        return (total - from_targets).sum()


class NegativeSamples:
    """Distinct words drawn log-uniformly by rank: rare words rarely, so the vocabulary goes by frequency.

    P(rank) = log((rank + 2) / (rank + 1)) / log(V + 1). A word's expected count is the chance to be among the
    distinct ones after the number of draws it took to get them.
    """

    def __init__(self, num_samples: int, num_words: int, generator: torch.Generator) -> None:
        self.num_words = num_words
        num_samples = min(num_samples, num_words)
        found: dict[int, None] = {}
        num_draws = 0
        while len(found) < num_samples:
            uniform = torch.rand(2 * num_samples, generator=generator, dtype=torch.float64)
            ranks = (uniform * torch.log(torch.tensor(num_words + 1.0, dtype=torch.float64))).exp() - 1
            for rank in ranks.long().clamp(max=num_words - 1).tolist():
                num_draws += 1
                found[rank] = None
                if len(found) == num_samples:
                    break
        self.num_draws = num_draws
        self.words = torch.tensor(list(found))
        self.log_expected_counts = self.log_expected_count(self.words)

    def log_expected_count(self, words: Tensor) -> Tensor:
        """log of how often each word is expected among the samples, shape as `words`."""
        ranks = words.double()
        probability = torch.log((ranks + 2) / (ranks + 1)) / torch.log(ranks.new_tensor(self.num_words + 1.0))
        return torch.log(-torch.expm1(self.num_draws * torch.log1p(-probability))).float()

    def to(self, device: torch.device | str) -> "NegativeSamples":
        """Move the drawn words to a device."""
        self.words = self.words.to(device)
        self.log_expected_counts = self.log_expected_counts.to(device)
        return self
