"""Character ids of distinct words -> features: embedding, convolutions with max-pooling, highways."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh}


class Highway(nn.Module):
    """y = g · relu(transform(x)) + (1 - g) · x  with  g = sigmoid(gate(x))."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.transform = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, inputs: Tensor) -> Tensor:
        """(U, F) -> (U, F)."""
        gate = torch.sigmoid(self.gate(inputs))
        return torch.lerp(inputs, torch.relu(self.transform(inputs)), gate)


class CharCnn(nn.Module):
    """The features of a word from its characters alone."""

    def __init__(
        self,
        num_characters: int,
        embedding_dim: int,
        filters: Sequence[tuple[int, int]],
        *,
        activation: str,
        num_highways: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_characters, embedding_dim)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedding_dim, channels, width) for width, channels in filters)
        self.activation = ACTIVATIONS[activation]
        num_features = sum(channels for _, channels in filters)
        self.highways = nn.ModuleList(Highway(num_features) for _ in range(num_highways))

    def forward(self, char_ids: Tensor) -> Tensor:
        """(U, C) -> (U, F); the padding inside a word takes part, as in the original."""
        characters = self.embedding(char_ids).transpose(1, 2)  # (U, d, C)
        pooled = [convolution(characters).amax(dim=2) for convolution in self.convolutions]
        features = self.activation(torch.cat(pooled, dim=1))
        for highway in self.highways:
            features = highway(features)
        return features
