"""The layer that predicts words from states of either direction."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn.initialize import draw_normal


class WordSoftmax(nn.Module):
    """A full softmax over the vocabulary, shared by both directions."""

    def __init__(self, dim: int, num_words: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_words, dim))
        self.bias = nn.Parameter(torch.zeros(num_words))
        draw_normal(self.weight, dim**-0.5)

    def forward(self, states: Tensor) -> Tensor:
        """(..., D) -> log probabilities (..., V)."""
        return F.log_softmax(F.linear(states, self.weight, self.bias), dim=-1)
