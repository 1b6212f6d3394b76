"""The bricks of task networks, tensors in and out: sequence encoders, pooling and attention.

Masks (B, T) are True for real words; padded positions are zero and change nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.tasks.settings import NetworkSettings

VERY_LOW = -1e9


class SequenceEncoder(nn.Module):
    """Vectors (B, T, D) and their mask -> h (B, T, dim)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    if TYPE_CHECKING:

        def __call__(self, inputs: Tensor, mask: Tensor) -> Tensor:
            """Encode (B, T, D) with the mask (B, T)."""


def build_sequence_encoder(settings: NetworkSettings, input_dim: int) -> SequenceEncoder:
    """Build the network that the settings name."""
    if settings.kind == "bilstm":
        return _BiLstm(input_dim, settings.dim, settings.num_layers)
    if settings.kind == "cnn":
        return _Cnn(input_dim, settings.dim, settings.num_layers, settings.width)
    return _Linear(input_dim, settings.dim)


class _BiLstm(SequenceEncoder):
    """LSTMs in both directions, half of `dim` each."""

    def __init__(self, input_dim: int, dim: int, num_layers: int) -> None:
        super().__init__(dim)
        sizes = [input_dim, *[dim] * (num_layers - 1)]
        self.left_to_right = nn.ModuleList(nn.LSTM(size, dim // 2, batch_first=True) for size in sizes)
        self.right_to_left = nn.ModuleList(nn.LSTM(size, dim // 2, batch_first=True) for size in sizes)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        # Each row is reversed within its length, so that padding comes last in both directions and changes
        # nothing. Packed sequences would do the same, but on a CPU their backward pass is up to five times slower.
        lengths, steps = mask.sum(dim=1, keepdim=True), torch.arange(mask.shape[1], device=mask.device)
        reversed_steps = torch.where(mask, lengths - 1 - steps, steps)[..., None]
        states = inputs
        for ahead, back in zip(self.left_to_right, self.right_to_left, strict=True):
            turned, _ = back(states.gather(1, reversed_steps.expand_as(states)))
            straight = turned.gather(1, reversed_steps.expand_as(turned))
            states = torch.cat([ahead(states)[0], straight], dim=-1) * mask[..., None]
        return states


class _Cnn(SequenceEncoder):
    """Layers of filters over `width` words, each added to the one below."""

    def __init__(self, input_dim: int, dim: int, num_layers: int, width: int) -> None:
        super().__init__(dim)
        self.filters = nn.ModuleList(
            nn.Conv1d(input_dim if layer == 0 else dim, dim, width, padding=width // 2)
            for layer in range(num_layers)
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        real = mask[:, None]
        states = inputs.transpose(1, 2) * real
        for number, filters in enumerate(self.filters):
            new = F.relu(filters(states)) * real
            states = new if number == 0 else states + new
        return states.transpose(1, 2)


class _Linear(SequenceEncoder):
    """A linear map of each word's vector."""

    def __init__(self, input_dim: int, dim: int) -> None:
        super().__init__(dim)
        self.projection = nn.Linear(input_dim, dim)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        projected: Tensor = self.projection(inputs)
        return projected * mask[..., None]


def pool_max(states: Tensor, mask: Tensor) -> Tensor:
    """(…, T, D) and (…, T) -> (…, D); zeros where nothing is real."""
    best = states.masked_fill(~mask[..., None], VERY_LOW).amax(dim=-2)
    return best * mask.any(dim=-1, keepdim=True)


def pool_mean(states: Tensor, mask: Tensor) -> Tensor:
    """(…, T, D) and (…, T) -> (…, D); zeros where nothing is real."""
    real = mask[..., None].to(states.dtype)
    return (states * real).sum(dim=-2) / real.sum(dim=-2).clamp(min=1)


def pool_ranges(states: Tensor, rows: Tensor, spans: Sequence[tuple[int, int]]) -> Tensor:
    """Return max and mean (N, 2D) of N half-open ranges in rows of (B, T, D); long ones cost no more."""
    starts, ends = torch.tensor(spans, dtype=torch.int64).view(-1, 2).unbind(dim=1)
    lengths = (ends - starts).clamp(min=1)
    # One table holds the maximum of 1, 2, 4, … words from each word on; any range is two of these that overlap.
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


def span_mask(spans: Sequence[tuple[int, int]], length: int) -> Tensor:
    """Return (N, length): True inside each half-open range."""
    positions, bounds = torch.arange(length), torch.tensor(spans).view(-1, 2)
    return (positions >= bounds[:, :1]) & (positions < bounds[:, 1:])


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax over the last dimension; zeros where nothing is real."""
    return torch.softmax(scores.masked_fill(~mask, VERY_LOW), dim=-1) * mask


def attend(queries: Tensor, keys: Tensor, key_mask: Tensor) -> Tensor:
    """(B, T, D) over (B, S, D) -> (B, T, D): the keys, weighted by their similarity to each query."""
    return masked_softmax(queries @ keys.transpose(1, 2), key_mask[:, None]) @ keys


class AttentionPooling(nn.Module):
    """(…, T, D) and (…, T) -> (…, D): a mean with a learned weight for each position."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(dim, dim // 2 or 1)
        self.weight = nn.Linear(dim // 2 or 1, 1)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Pool the real positions."""
        weights = masked_softmax(self.weight(self.hidden(states).tanh())[..., 0], mask)
        return (weights[..., None] * states).sum(dim=-2)
