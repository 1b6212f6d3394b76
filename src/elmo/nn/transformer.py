"""One direction of the language model as a causal Transformer, behind the same seam as the LSTM.

State is passed in and out, never kept here: a text read in windows gives what it gives when read whole.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn.causal_block import CausalBlock, make_rotation
from elmo.nn.reading_state import ReadingState

# Long rows are read in windows of this many steps, which bounds the memory that attention takes.
STEPS_AT_ONCE = 256


class TransformerState(ReadingState):
    """Keys and values (L, B, K, D) of the last K <= context positions, the newest last, before rotation.

    Of row b the last num_kept[0, b] are real. Distances alone matter, so positions need not be counted.
    """

    def __init__(self, keys: Tensor, values: Tensor, num_kept: Tensor) -> None:
        super().__init__(keys, values, num_kept)
        self.keys, self.values, self.num_kept = keys, values, num_kept

    def join(self, other: "TransformerState") -> "TransformerState":
        """Give the rows of both, these first."""
        size = max(self.keys.shape[2], other.keys.shape[2])
        pairs = zip(self._lengthen(size), other._lengthen(size), strict=True)
        return TransformerState(*(torch.cat(pair, dim=1) for pair in pairs))

    def _lengthen(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        padding = (0, 0, size - self.keys.shape[2], 0)
        return F.pad(self.keys, padding), F.pad(self.values, padding), self.num_kept


class TransformerStack(nn.Module):
    """All layers of one direction; a word sees itself and `context` words before it in each layer.

    A layer's output is the sum that its block passes on, brought to one scale by the norm that all layers share:
    the language model learns that norm at the top, and no layer has weights that nothing trains.
    """

    def __init__(self, layers: list[CausalBlock], *, dim: int, context: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(dim)
        self.dim, self.context = dim, context

    @property
    def num_layers(self) -> int:
        """How many layers there are."""
        return len(self.layers)

    def zero_state(self, num_rows: int) -> TransformerState:
        """Give the state before anything was read."""
        nothing = self.norm.weight.new_zeros(self.num_layers, num_rows, 0, self.dim)
        return TransformerState(nothing, nothing, nothing.new_zeros(1, num_rows, dtype=torch.long))

    def forward(
        self, inputs: Tensor, lengths: list[int], state: TransformerState
    ) -> tuple[list[Tensor], TransformerState]:
        """(B, T, D), rows by falling length -> each layer's outputs (B, T, D) and the state at each row's end.

        Outputs are zero past a row's end; a row of length 0 keeps the state it came with.
        """
        num_rows, num_steps, _ = inputs.shape
        left = torch.tensor(lengths, device=inputs.device).clamp(min=0)
        past_end = (torch.arange(num_steps, device=inputs.device) >= left[:, None])[..., None]
        inputs = inputs.masked_fill(past_end, 0.0)
        windows: list[list[Tensor]] = []
        ended: list[TransformerState] = []
        longest = min(num_steps, max([*lengths, 0]))
        for start in range(0, longest, STEPS_AT_ONCE):
            num_active = sum(length > start for length in lengths)
            ended.append(state.rows(slice(num_active, None)))
            state = state.rows(slice(num_active))
            window = inputs[:num_active, start : min(longest, start + STEPS_AT_ONCE)]
            num_read = (left[:num_active] - start).clamp(max=window.shape[1])
            begin = (state.keys.shape[2] - state.num_kept[0])[:, None].expand(window.shape[:2])
            outputs, state = self._read(window, begin, num_read, state)
            windows.append([F.pad(output, (0, 0, 0, 0, 0, num_rows - num_active)) for output in outputs])
        for rest in reversed(ended):
            state = state.join(rest)
        unread = inputs.new_zeros(num_rows, num_steps - longest, self.dim)
        streams = [torch.cat([*parts, unread], dim=1) for parts in zip(*windows, strict=True)]
        streams = streams or [unread] * self.num_layers
        return [self.norm(stream).masked_fill(past_end, 0.0) for stream in streams], state

    def read_window(
        self,
        inputs: Tensor,
        keep: Tensor,
        state: ReadingState,
        *,
        dropout: float = 0.0,
        product_dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, TransformerState]:
        """Give the top layer of read_layers and the state."""
        layers, state = self.read_layers(inputs, keep, state, dropout=dropout, product_dtype=product_dtype)
        return layers[-1], state

    def read_layers(
        self,
        inputs: Tensor,
        keep: Tensor,
        state: ReadingState,
        *,
        dropout: float = 0.0,
        product_dtype: torch.dtype = torch.float32,
    ) -> tuple[list[Tensor], TransformerState]:
        """(T, B, D) of packed rows, `keep` (T, B) -> each layer's outputs (T, B, D) and the state, detached.

        Where `keep` is 0 a row starts anew and sees nothing before. Dropout is on the inputs and on what each
        block adds to them.
        """
        assert isinstance(state, TransformerState)
        num_steps, num_rows, _ = inputs.shape
        num_kept = state.keys.shape[2]
        steps = torch.arange(num_kept, num_kept + num_steps, device=inputs.device)
        starts = torch.where(keep.t() == 0, steps, num_kept - state.num_kept.t())  # (B, T)
        begin = starts.cummax(dim=1).values
        mixed = product_dtype != torch.float32
        with torch.autocast(inputs.device.type, product_dtype, enabled=mixed):
            inputs = F.dropout(inputs.transpose(0, 1), dropout, training=dropout > 0)
            num_read = steps.new_full((num_rows,), num_steps)
            outputs, state = self._read(inputs, begin, num_read, state, dropout)
            layers = [self.norm(output).transpose(0, 1) for output in outputs]
        return layers, state.detach()

    def _read(
        self, inputs: Tensor, begin: Tensor, num_read: Tensor, state: TransformerState, dropout: float = 0.0
    ) -> tuple[list[Tensor], TransformerState]:
        """Run all layers over (B, T, D), of which `num_read` (B,) are real, after the K positions of `state`.

        Of those K + T positions, a word sees none before `begin` (B, T). Outputs are not yet normed.
        """
        num_kept, num_steps = state.keys.shape[2], inputs.shape[1]
        first = cast(CausalBlock, self.layers[0])
        rotation = make_rotation(num_kept + num_steps, self.dim // first.num_heads, self.norm.weight)
        positions = torch.arange(num_kept + num_steps, device=inputs.device)
        own = positions[num_kept:]
        oldest = torch.maximum(begin, own - self.context)
        visible = (positions >= oldest[..., None]) & (positions <= own[:, None])
        size = min(self.context, num_kept + num_steps)
        kept = (num_kept - size + num_read[:, None] + positions[:size]).clamp(min=0)[..., None]
        outputs, all_keys, all_values = [], [], []
        for layer, keys, values in zip(self.layers, state.keys, state.values, strict=True):
            inputs, keys, values = layer(inputs, keys, values, visible[:, None], rotation, dropout)
            outputs.append(inputs)
            all_keys.append(keys.take_along_dim(kept, dim=1))
            all_values.append(values.take_along_dim(kept, dim=1))
        num_seen = (num_kept + num_read - begin[:, -1]).clamp(max=self.context)
        return outputs, TransformerState(torch.stack(all_keys), torch.stack(all_values), num_seen[None])
