"""Many vectors -> one, over real positions alone; and attention of one sequence over another."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
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


def pool_ranges(states: Tensor, rows: Tensor, spans: Sequence[tuple[int, int]]) -> Tensor:
    """Max and mean of N half-open ranges of rows of (B, T, D): (N, 2D); long ones cost no more than short ones."""
    starts, ends = torch.tensor(spans, dtype=torch.int64).view(-1, 2).unbind(dim=1)
    lengths = (ends - starts).clamp(min=1)
    # One table holds the best of 1, 2, 4, … words from each word on; any range is two of these that overlap.
    tables, width = [states], 1
    while 2 * width <= int(lengths.max()):
        wider = torch.maximum(tables[-1][:, :-width], tables[-1][:, width:])
        tables.append(torch.cat([wider, tables[-1][:, -width:]], dim=1))
        width *= 2
    level = lengths.log2().floor().to(torch.int64)
    flat, (num_rows, num_words, dim) = torch.stack(tables).view(-1, states.shape[-1]), states.shape
    at = (level * num_rows + rows) * num_words
    last = starts + lengths - 2**level
    best = torch.maximum(flat.index_select(0, at + starts), flat.index_select(0, at + last))
    sums = F.pad(states.cumsum(dim=1), (0, 0, 1, 0)).reshape(-1, dim)
    at = rows * (num_words + 1)
    total = sums.index_select(0, at + ends) - sums.index_select(0, at + starts)
    return torch.cat([best, total / lengths[:, None]], dim=-1)


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
