"""Layers and static vectors of words -> one vector per sentence: attention, maximum and weighted sum.

inference/sentence.py is the equivalent in NumPy.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn import draw_normal

RARITY_FLOOR = 1e-3  # added to the words' weights before their logarithm


class SentenceHead(nn.Module):
    """A linear map of a scalar mix of the layers, pooled by attention queries and by the maximum, and a static sum."""

    def __init__(
        self, *, num_layers: int, input_dim: int, static_dim: int, output_dim: int, num_heads: int = 4
    ) -> None:
        """Build a head for `num_layers` layers (including the word vectors) of `input_dim` values per word."""
        super().__init__()
        self.is_trained = False  # whether it has the weights of a model
        self.layer_weights = nn.Parameter(torch.zeros(num_layers))
        self.queries = nn.Parameter(torch.empty(num_heads, input_dim))
        self.rarity = nn.Parameter(torch.ones(num_heads))  # initially a mean in which rare words have more weight
        self.projection = nn.Parameter(torch.empty(output_dim, (num_heads + 1) * input_dim + static_dim))
        self.bias = nn.Parameter(torch.zeros(output_dim))
        draw_normal(self.queries, 0.1 * input_dim**-0.5)
        nn.init.xavier_uniform_(self.projection)

    def forward(self, layers: Tensor, static: Tensor, weights: Tensor, lengths: Tensor) -> Tensor:
        """Return vectors (S, output_dim) of length 1 for S non-empty sentences; see `features`."""
        features = self.features(layers, static, weights, lengths)
        return F.normalize(F.linear(features, self.projection, self.bias), dim=1)

    def features(self, layers: Tensor, static: Tensor, weights: Tensor, lengths: Tensor) -> Tensor:
        """Return the input of the projection: the pooled vectors, the maximum and the static sum, concatenated.

        `layers` (L+1, N, 2D), `static` (N, d) and `weights` (N,) are those of the words of all sentences, whose lengths
        are `lengths` (S,).
        """
        shares = torch.softmax(self.layer_weights, dim=0)
        mixed = torch.einsum("l,lnd->nd", shares, layers)  # (N, 2D)
        scores = mixed @ self.queries.t() + self.rarity * torch.log(weights + RARITY_FLOOR)[:, None]  # (N, K)
        owner = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        longest = int(lengths.max())
        starts = torch.cumsum(lengths, 0) - lengths
        column = torch.arange(len(owner), device=owner.device) - starts[owner]
        padded = mixed.new_zeros(len(lengths), longest, mixed.shape[1]).index_put((owner, column), mixed)
        low = torch.finfo(mixed.dtype).min
        padded_scores = scores.new_full((len(lengths), longest, scores.shape[1]), low)
        padded_scores = padded_scores.index_put((owner, column), scores)
        attention = torch.softmax(padded_scores, dim=1)  # (S, T, K)
        pooled = (attention.transpose(1, 2) @ padded).flatten(1)  # (S, K·2D)
        is_word = torch.arange(longest, device=lengths.device) < lengths[:, None]
        maximum = padded.masked_fill(~is_word[..., None], low).amax(dim=1)
        summed = static.new_zeros(len(lengths), static.shape[1]).index_add(0, owner, static * weights[:, None])
        return torch.cat([pooled, maximum, F.normalize(summed, dim=1)], dim=1)
