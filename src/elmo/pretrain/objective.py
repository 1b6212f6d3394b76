"""What is minimised: the loss of predicting the next word and the previous one, over a window of packed rows."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn.bilm import BiLM, BiLMState
from elmo.nn.softmax import NegativeSamples
from elmo.pretrain.lessons import Lesson
from elmo.pretrain.stream import LMBatch
from elmo.pretrain.teacher_heads import TeacherHeads


@dataclass(frozen=True)
class WindowLoss:
    """Losses summed over the positions of a window, one a direction, and the state after it."""

    left_to_right: Tensor
    right_to_left: Tensor
    state: BiLMState
    teacher: Tensor | None = None  # 1 - cosine, summed over the words of a lesson; None without a teacher


class Objective(nn.Module):
    """The biLM with its training loss; dropout only while training."""

    def __init__(
        self,
        bilm: BiLM,
        *,
        dropout: float,
        product_dtype: torch.dtype = torch.float32,
        heads: TeacherHeads | None = None,
    ) -> None:
        super().__init__()
        self.bilm = bilm
        self.heads = heads
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
        taught = None if self.heads is None else self._teach(self.heads, batch.lesson, distinct, dropout)
        return WindowLoss(losses[0], losses[1], BiLMState(states[0], states[1]), taught)

    def _teach(self, heads: TeacherHeads, lesson: Lesson | None, distinct: Tensor, dropout: float) -> Tensor:
        if lesson is None:
            return heads.no_loss()
        assert lesson.vectors is not None
        start = self.bilm.zero_state(lesson.keep.shape[1])
        sides = []
        for direction, (stack, state) in enumerate(
            (
                (self.bilm.left_to_right, start.left_to_right),
                (self.bilm.right_to_left, start.right_to_left),
            )
        ):
            words = F.embedding(lesson.word_index[direction], distinct)  # (T, B, D)
            layers, _ = stack.read_layers(
                words, lesson.keep, state, dropout=dropout, product_dtype=self.product_dtype
            )
            read = torch.stack([words, *layers]).flatten(1, 2)
            sides.append(read[:, lesson.places[direction]])
        cosine: Tensor = heads(torch.cat(sides, dim=-1), lesson.vectors)
        return (1 - cosine).sum()
