"""The network between the words and the answer: vectors (B, T, D) -> h (B, T, dim), zero where padded."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.tasks.settings import NetworkSettings


class Between(nn.Module):
    """A brick that knows its output size and reads a mask."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    if TYPE_CHECKING:

        def __call__(self, inputs: Tensor, mask: Tensor) -> Tensor:
            """Read (B, T, D) with the mask (B, T)."""


class BiLstm(Between):
    """LSTMs in both directions, half of `dim` each."""

    def __init__(self, input_dim: int, dim: int, num_layers: int) -> None:
        super().__init__(dim)
        sizes = [input_dim, *[dim] * (num_layers - 1)]
        self.left_to_right = nn.ModuleList(nn.LSTM(size, dim // 2, batch_first=True) for size in sizes)
        self.right_to_left = nn.ModuleList(nn.LSTM(size, dim // 2, batch_first=True) for size in sizes)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Read each row up to its own end."""
        # Each row is reversed within its length, so that padding comes last in both directions and changes
        # nothing. Packed sequences would do the same, but on a CPU their way back takes up to five times as long.
        lengths, steps = mask.sum(dim=1, keepdim=True), torch.arange(mask.shape[1], device=mask.device)
        reversed_steps = torch.where(mask, lengths - 1 - steps, steps)[..., None]
        states = inputs
        for ahead, back in zip(self.left_to_right, self.right_to_left, strict=True):
            turned, _ = back(states.gather(1, reversed_steps.expand_as(states)))
            straight = turned.gather(1, reversed_steps.expand_as(turned))
            states = torch.cat([ahead(states)[0], straight], dim=-1) * mask[..., None]
        return states


class Cnn(Between):
    """Filters over `width` words, layer upon layer, each adding to the one below."""

    def __init__(self, input_dim: int, dim: int, num_layers: int, width: int) -> None:
        super().__init__(dim)
        self.filters = nn.ModuleList(
            nn.Conv1d(input_dim if layer == 0 else dim, dim, width, padding=width // 2)
            for layer in range(num_layers)
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Read the words and their neighbours."""
        real = mask[:, None]
        states = inputs.transpose(1, 2) * real
        for number, filters in enumerate(self.filters):
            new = F.relu(filters(states)) * real
            states = new if number == 0 else states + new
        return states.transpose(1, 2)


class Linear(Between):
    """Each word by itself."""

    def __init__(self, input_dim: int, dim: int) -> None:
        super().__init__(dim)
        self.projection = nn.Linear(input_dim, dim)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Project each word's vector."""
        projected: Tensor = self.projection(inputs)
        return projected * mask[..., None]


def build_between(settings: NetworkSettings, input_dim: int) -> Between:
    """Make the network that the settings ask for."""
    if settings.kind == "bilstm":
        return BiLstm(input_dim, settings.dim, settings.num_layers)
    if settings.kind == "cnn":
        return Cnn(input_dim, settings.dim, settings.num_layers, settings.width)
    return Linear(input_dim, settings.dim)
