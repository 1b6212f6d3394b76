"""One direction of the language model as a causal Transformer, with the same interface as the LSTM.

Modules do not store the state: it is an input and an output. A text in windows has the same outputs as in one pass.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn import draw_normal, make_linear
from elmo.nn.encoder import EncoderState

ROTARY_BASE = 10_000.0  # the wavelengths of the rotary pairs are from 2π to nearly 2π times this


class CausalBlock(nn.Module):
    """x' = x + attention(norm(x));  y = x' + contract(gelu(expand(norm(x')))).

    `depth` is the number of blocks of the stack: each adds to the residual stream twice, so the initial weights of
    these additions are smaller in deeper stacks.
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
        """Run over (B, T, D), given the keys and values (B, K, D) of K earlier positions.

        `visible` (B, 1, T, K+T) is the attention mask, and `rotation` is that of K+T positions (make_rotation).
        Returns the outputs (B, T, D), and the keys and values (B, K+T, D) of all positions before rotation.
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


class TransformerState(EncoderState):
    """Keys and values (L, B, K, D) of the last K <= context positions before rotation, the most recent last.

    In row b, the last num_kept[0, b] are real. Attention depends on distances only, so no position is stored.
    """

    def __init__(self, keys: Tensor, values: Tensor, num_kept: Tensor) -> None:
        super().__init__(keys, values, num_kept)
        self.keys, self.values, self.num_kept = keys, values, num_kept

    def join(self, other: "TransformerState") -> "TransformerState":
        """Return these rows followed by the rows of `other`."""
        size = max(self.keys.shape[2], other.keys.shape[2])
        pairs = zip(self._lengthen(size), other._lengthen(size), strict=True)
        return TransformerState(*(torch.cat(pair, dim=1) for pair in pairs))

    def _lengthen(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        padding = (0, 0, size - self.keys.shape[2], 0)
        return F.pad(self.keys, padding), F.pad(self.values, padding), self.num_kept


class TransformerStack(nn.Module):
    """All layers of one direction; a word attends to itself and to `context` words before it in each layer.

    The output of a layer is the residual stream after its block, normalized by a LayerNorm that all layers share: the
    language model trains it at the top, so no layer has untrained weights.
    """

    def __init__(self, layers: list[CausalBlock], *, dim: int, context: int) -> None:
        super().__init__()
        self.layers, self.num_layers = nn.ModuleList(layers), len(layers)
        self.norm = nn.LayerNorm(dim)
        self.dim, self.context = dim, context

    def zero_state(self, num_rows: int) -> TransformerState:
        """Return the state at the start of a text."""
        empty = self.norm.weight.new_zeros(self.num_layers, num_rows, 0, self.dim)
        return TransformerState(empty, empty, empty.new_zeros(1, num_rows, dtype=torch.long))

    def forward(
        self,
        inputs: Tensor,
        state: TransformerState,
        *,
        lengths: Tensor | None = None,
        keep: Tensor | None = None,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], TransformerState]:
        """(B, T, D) -> the output of each layer (B, T, D) and the state at the end of each row.

        Rows have T words, or the given lengths (B,): then outputs are zero beyond the end of a row, and a row of length
        0 keeps its state. From a position where `keep` (B, T) is 0, a row does not attend to earlier positions. Dropout
        is applied to the inputs and to what each block adds to the residual stream.
        """
        num_rows, num_steps, _ = inputs.shape
        num_kept = state.keys.shape[2]
        first = cast(CausalBlock, self.layers[0])
        rotation = make_rotation(num_kept + num_steps, self.dim // first.num_heads, self.norm.weight)
        positions = torch.arange(num_kept + num_steps, device=inputs.device)
        queries = positions[num_kept:]
        begin = (num_kept - state.num_kept.t()).expand(num_rows, num_steps)  # the first visible position
        if keep is not None:
            begin = torch.where(keep == 0, queries, begin).cummax(dim=1).values
        oldest = torch.maximum(begin, queries - self.context)
        visible = (positions >= oldest[..., None]) & (positions <= queries[:, None])
        num_read = queries.new_full((num_rows,), num_steps) if lengths is None else lengths.to(inputs.device)
        size = min(self.context, num_kept + num_steps)
        kept = (num_kept - size + num_read[:, None] + positions[:size]).clamp(min=0)[..., None]
        outputs, all_keys, all_values = [], [], []
        inputs = F.dropout(inputs, dropout, training=dropout > 0)
        for layer, keys, values in zip(self.layers, state.keys, state.values, strict=True):
            inputs, keys, values = layer(inputs, keys, values, visible[:, None], rotation, dropout)
            outputs.append(inputs)
            all_keys.append(keys.take_along_dim(kept, dim=1))
            all_values.append(values.take_along_dim(kept, dim=1))
        outputs = [self.norm(output) for output in outputs]
        if lengths is not None:
            past_end = (queries - num_kept >= num_read[:, None])[..., None]
            outputs = [output.masked_fill(past_end, 0.0) for output in outputs]
        num_seen = (num_kept + num_read - begin[:, -1]).clamp(max=self.context)
        return outputs, TransformerState(torch.stack(all_keys), torch.stack(all_values), num_seen[None])


def make_rotation(num_positions: int, head_dim: int, like: Tensor) -> Tensor:
    """Return the cosine and the sine of the angle of each pair of values at each position, (2, S, head_dim / 2)."""
    pairs = torch.arange(head_dim // 2, dtype=like.dtype, device=like.device)
    positions = torch.arange(num_positions, dtype=like.dtype, device=like.device)
    angles = positions[:, None] * ROTARY_BASE ** (-2 * pairs / head_dim)
    return torch.stack([angles.cos(), angles.sin()])


def rotate(inputs: Tensor, rotation: Tensor) -> Tensor:
    """Rotate (B, heads, S, head_dim) by position, so that dot products depend only on distances.

    Su et al. 2021, RoFormer, section 3.2; a pair consists of one value of each half.
    """
    cosine, sine = rotation
    first, second = inputs.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
