"""Distinct words -> vectors that do not depend on context: layer 0 of the model."""

import torch
from torch import Tensor, nn

from elmo.nn.char_cnn import CharCnn


class TokenEncoder(nn.Module):
    """A word's embedding and its character features, whichever the model has, projected to D values."""

    def __init__(
        self, words: nn.Embedding | None, characters: CharCnn | None, projection: nn.Linear | None
    ) -> None:
        super().__init__()
        self.words = words
        self.characters = characters
        self.projection = projection

    def forward(self, char_ids: Tensor | None, word_ids: Tensor | None) -> Tensor:
        """(U, C) and (U,) -> (U, D)."""
        parts = []
        if self.words is not None:
            parts.append(self.words(word_ids))
        if self.characters is not None:
            parts.append(self.characters(char_ids))
        features = torch.cat(parts, dim=1)
        return features if self.projection is None else self.projection(features)
