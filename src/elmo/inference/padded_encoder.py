"""Any direction of the language model, on any device, behind the seam that PackedLstm has."""

import numpy as np
import torch
from torch import Tensor

from elmo.inference.layers import LayerChoice
from elmo.inference.reading_order import Indices
from elmo.nn.bilm import Encoder
from elmo.nn.reading_state import ReadingState


class PaddedEncoder:
    """Pads packed rows, runs the module itself in float32, and packs its outputs."""

    uses_one_thread = False
    words_at_once = 2048

    def __init__(self, module: Encoder) -> None:
        self._module = module
        self.num_weights = sum(parameter.numel() for parameter in module.parameters())

    def read(
        self,
        words: Tensor,
        sources: Indices,
        targets: Indices,
        counts: Indices,
        state: ReadingState | None,
        choice: LayerChoice,
        result: Tensor,
    ) -> ReadingState:
        """Read packed rows; see PackedEncoder."""
        device = words.device
        inputs = words[torch.from_numpy(sources).to(device)]
        state = self._module.zero_state(int(counts[0])) if state is None else state
        steps = torch.from_numpy(np.repeat(np.arange(len(counts)), counts)).to(device)
        rows = torch.from_numpy(np.concatenate([np.arange(count) for count in counts])).to(device)
        padded = inputs.new_zeros(state.num_rows, len(counts), inputs.shape[1])
        padded[rows, steps] = inputs
        lengths = [int((counts > row).sum()) for row in range(state.num_rows)]
        outputs, state = self._module(padded, lengths, state)
        mixed = choice.mix([inputs, *(layer[rows, steps] for layer in outputs)])
        result[torch.from_numpy(targets).to(device)] = mixed
        return state
