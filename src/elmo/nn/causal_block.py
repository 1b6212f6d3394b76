"""One layer of a causal Transformer: attention over what was read, then a feed-forward network, both pre-norm.

What a word may see is decided by the caller; keys and values of earlier words are passed in and out.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn.initialize import draw_normal, make_linear

ROTARY_BASE = 10_000.0  # wave lengths of the rotary pairs: 2π to nearly 2π times this


class CausalBlock(nn.Module):
    """x' = x + attention(norm(x));  y = x' + contract(gelu(expand(norm(x')))).

    `depth` is the number of blocks of the stack: each adds twice to the stream, and starts the smaller for it.
    """

    def __init__(self, dim: int, num_heads: int, feed_forward_dim: int, *, depth: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention_norm = nn.LayerNorm(dim)
        self.query_key_value = make_linear(dim, 3 * dim)
        self.attention_output = make_linear(dim, dim)
        self.feed_forward_norm = nn.LayerNorm(dim)
        self.expand = make_linear(dim, feed_forward_dim)
        self.contract = make_linear(feed_forward_dim, dim)
        for linear in (self.attention_output, self.contract):
            draw_normal(linear.weight, (2 * depth * linear.in_features) ** -0.5)

    def forward(
        self, inputs: Tensor, keys: Tensor, values: Tensor, visible: Tensor, rotation: Tensor, dropout: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read (B, T, D) after K earlier positions' keys and values (B, K, D).

        `visible` (B, 1, T, K+T) tells which positions a word sees, `rotation` comes from make_rotation for K+T.
        Gives the outputs (B, T, D), and keys and values (B, K+T, D) of all positions, not yet rotated.
        """
        num_steps = inputs.shape[1]
        query, new_keys, new_values = self.query_key_value(self.attention_norm(inputs)).chunk(3, dim=2)
        keys = torch.cat([keys, new_keys.to(keys.dtype)], dim=1)
        values = torch.cat([values, new_values.to(values.dtype)], dim=1)
        attended = F.scaled_dot_product_attention(
            rotate(self._split(query.to(keys.dtype)), rotation[:, -num_steps:]),
            rotate(self._split(keys), rotation),
            self._split(values),
            attn_mask=visible,
        )
        attended = self.attention_output(attended.transpose(1, 2).flatten(2))
        inputs = inputs + F.dropout(attended, dropout, training=dropout > 0)
        fed = self.contract(F.gelu(self.expand(self.feed_forward_norm(inputs))))
        return inputs + F.dropout(fed, dropout, training=dropout > 0), keys, values

    def _split(self, inputs: Tensor) -> Tensor:
        """(B, S, D) -> (B, heads, S, D / heads)."""
        return inputs.reshape(*inputs.shape[:2], self.num_heads, -1).transpose(1, 2)


def make_rotation(num_positions: int, head_dim: int, like: Tensor) -> Tensor:
    """(2, S, head_dim / 2): the cosine and the sine by which each pair of values is turned at each position."""
    pairs = torch.arange(head_dim // 2, dtype=like.dtype, device=like.device)
    positions = torch.arange(num_positions, dtype=like.dtype, device=like.device)
    angles = positions[:, None] * ROTARY_BASE ** (-2 * pairs / head_dim)
    return torch.stack([angles.cos(), angles.sin()])


def rotate(inputs: Tensor, rotation: Tensor) -> Tensor:
    """Turn (B, heads, S, head_dim) by position: products of two then depend on their distance alone.

    Su et al. 2021, RoFormer, section 3.2; a pair is one value of each half.
    """
    cosine, sine = rotation
    first, second = inputs.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
