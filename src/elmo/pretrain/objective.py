"""What is minimised: the loss of predicting the next word and the previous one, over a window of packed rows."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn.bilm import BiLM, BiLMState
from elmo.nn.softmax import NegativeSamples
from elmo.pretrain.stream import LMBatch


@dataclass(frozen=True)
class WindowLoss:
    """Losses summed over the positions of a window, one a direction, and the state after it."""

    left_to_right: Tensor
    right_to_left: Tensor
    state: BiLMState


class Objective(nn.Module):
    """The biLM with its training loss; dropout only while training."""

    def __init__(self, bilm: BiLM, *, dropout: float, product_dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.bilm = bilm
        self.dropout = dropout
        self.product_dtype = product_dtype

    def forward(self, batch: LMBatch, state: BiLMState, samples: NegativeSamples | None) -> WindowLoss:
        """Give the losses of a window, against sampled words or, without samples, the whole vocabulary."""
        dropout = self.dropout if self.training else 0.0
        mixed = self.product_dtype != torch.float32
        with torch.autocast(batch.word_index.device.type, self.product_dtype, enabled=mixed):
            distinct = self.bilm.tokens(batch.char_ids, batch.word_ids).float()
        tops, states = [], []
        for direction, (stack, start) in enumerate(
            (
                (self.bilm.left_to_right, state.left_to_right),
                (self.bilm.right_to_left, state.right_to_left),
            )
        ):
            words = F.embedding(batch.word_index[direction], distinct)  # (T, B, D)
            top, end = stack.read_window(
                words, batch.keep, start, dropout=dropout, product_dtype=self.product_dtype
            )
            tops.append(F.dropout(top, dropout, training=dropout > 0).flatten(0, 1))
            states.append(end)
        softmaxes = self.bilm.softmaxes
        assert softmaxes is not None
        losses = []
        for softmax, top, targets in zip(softmaxes, tops, batch.targets.flatten(1), strict=True):
            losses.append(
                softmax.loss(top, targets)
                if samples is None
                else softmax.sampled_loss(top.to(self.product_dtype), targets, samples)
            )
        return WindowLoss(losses[0], losses[1], BiLMState(states[0], states[1]))
