"""Any direction of the language model, on any device, behind the seam that PackedLstm has."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from elmo.nn.bilm import Encoder
from elmo.nn.reading_state import ReadingState


class PaddedEncoder:
    """Pads packed rows, runs the module itself in float32, and packs what it gives."""

    def __init__(self, module: Encoder) -> None:
        self._module = module
        self.num_weights = sum(parameter.numel() for parameter in module.parameters())

    def read(
        self, words: Tensor, sources: Tensor, counts: Sequence[int], state: ReadingState | None
    ) -> tuple[list[Tensor], ReadingState]:
        """Read the packed rows `words[sources]`, (N, D): each layer's outputs (N, D), and all rows' end states."""
        inputs = words[sources]
        state = self._module.zero_state(counts[0]) if state is None else state
        num_active = np.array(counts)
        steps = torch.from_numpy(np.repeat(np.arange(len(counts)), num_active)).to(inputs.device)
        rows = torch.from_numpy(np.concatenate([np.arange(count) for count in counts])).to(inputs.device)
        padded = inputs.new_zeros(state.num_rows, len(counts), inputs.shape[1])
        padded[rows, steps] = inputs
        lengths = [int((num_active > row).sum()) for row in range(state.num_rows)]
        outputs, state = self._module(padded, lengths, state)
        return [layer[rows, steps] for layer in outputs], state
