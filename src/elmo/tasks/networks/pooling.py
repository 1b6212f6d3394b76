"""Many vectors -> one, over real positions alone; and attention of one sequence over another."""

import torch
from torch import Tensor, nn

_VERY_LOW = -1e9


def pool_max(states: Tensor, mask: Tensor) -> Tensor:
    """(…, T, D) and (…, T) -> (…, D); zeros where nothing is real."""
    best = states.masked_fill(~mask[..., None], _VERY_LOW).amax(dim=-2)
    return best * mask.any(dim=-1, keepdim=True)


def pool_mean(states: Tensor, mask: Tensor) -> Tensor:
    """(…, T, D) and (…, T) -> (…, D); zeros where nothing is real."""
    real = mask[..., None].to(states.dtype)
    return (states * real).sum(dim=-2) / real.sum(dim=-2).clamp(min=1)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension; zeros where nothing is real."""
    return torch.softmax(scores.masked_fill(~mask, _VERY_LOW), dim=-1) * mask


def attend(queries: Tensor, keys: Tensor, key_mask: Tensor) -> Tensor:
    """(B, T, D) over (B, S, D) -> (B, T, D): what of the other sequence belongs to each position."""
    weights = masked_softmax(queries @ keys.transpose(1, 2), key_mask[:, None])
    return weights @ keys


class AttentionPooling(nn.Module):
    """A learned weight for each position."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(dim, dim // 2 or 1)
        self.weight = nn.Linear(dim // 2 or 1, 1)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(…, T, D) and (…, T) -> (…, D)."""
        weights = masked_softmax(self.weight(self.hidden(states).tanh())[..., 0], mask)
        return (weights[..., None] * states).sum(dim=-2)


def span_mask(spans: list[tuple[int, int]], length: int) -> Tensor:
    """(N, length): True inside each half-open range."""
    positions = torch.arange(length)
    bounds = torch.tensor(spans).view(-1, 2)
    return (positions >= bounds[:, :1]) & (positions < bounds[:, 1:])
