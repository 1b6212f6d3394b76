"""What is minimised: the loss of predicting the next word and the previous one, over a window of packed rows.

The losses of a teacher and of the context objective stand beside it. Sums leave; loop.py weighs them.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn.bilm import BiLM, BiLMState
from elmo.nn.softmax import NegativeSamples
from elmo.pretrain.context import ContextHead
from elmo.pretrain.distillation import TeacherHeads
from elmo.pretrain.stream import ContextTargets, Lesson, LMBatch


@dataclass(frozen=True)
class WindowLoss:
    """Losses summed over the predictions of a window and its lesson, per direction, and the state after it."""

    left_to_right: Tensor
    right_to_left: Tensor
    state: BiLMState
    teacher: Tensor | None = None  # 1 - cosine, summed over the words of a lesson; None without a teacher
    relations: Tensor | None = None  # the loss on their relations, summed; None without a lesson
    context: Tensor | None = None  # 1 - cosine, summed over the words with a target; None without the objective


class Objective(nn.Module):
    """The biLM with its training loss; dropout only while training."""

    def __init__(
        self,
        bilm: BiLM,
        *,
        dropout: float,
        product_dtype: torch.dtype = torch.float32,
        heads: TeacherHeads | None = None,
        relates: bool = False,
        context_head: ContextHead | None = None,
    ) -> None:
        """`product_dtype` is that of matrix multiplications; `relates` adds the relations of a lesson's words."""
        super().__init__()
        self.bilm = bilm
        self.heads = heads
        self.context_head = context_head
        self.relates = relates
        self.dropout = dropout
        self.product_dtype = product_dtype

    def forward(self, batch: LMBatch, state: BiLMState, samples: NegativeSamples | None) -> WindowLoss:
        """Return the losses of a window, against sampled words or, without samples, the whole vocabulary."""
        mixed = self.product_dtype != torch.float32
        with torch.autocast(batch.word_index.device.type, self.product_dtype, enabled=mixed):
            distinct = self.bilm.tokens(batch.char_ids, batch.word_ids).float()
        tops, states = [], []
        stacks = (self.bilm.left_to_right, self.bilm.right_to_left)
        starts = (state.left_to_right, state.right_to_left)
        for stack, start, index in zip(stacks, starts, batch.word_index, strict=True):
            words = F.embedding(index, distinct)  # (T, B, D)
            top, end = stack.read_window(
                words, batch.keep, start, dropout=self._dropout, product_dtype=self.product_dtype
            )
            tops.append(top.flatten(0, 1))
            states.append(end)
        context = None
        if self.context_head is not None:
            context = self._predict_context(self.context_head, tops, batch.context)
        targets = [*batch.targets.flatten(1)]
        taught = relations = None
        if self.heads is not None and batch.lesson is None:
            taught = zero_loss(self.heads)
        elif self.heads is not None and batch.lesson is not None:
            layers = self._read(batch.lesson, distinct)
            taught, relations = self._teach(self.heads, batch.lesson, layers)
            if batch.lesson.num_predicted:
                for direction, places in enumerate(batch.lesson.predicting):
                    tops[direction] = torch.cat([tops[direction], layers[direction][-1, places]])
                    targets[direction] = torch.cat([targets[direction], batch.lesson.targets[direction]])
        losses = self._predict(tops, targets, samples)
        return WindowLoss(losses[0], losses[1], BiLMState(states[0], states[1]), taught, relations, context)

    @property
    def _dropout(self) -> float:
        return self.dropout if self.training else 0.0

    def _predict(self, tops: list[Tensor], targets: list[Tensor], samples: NegativeSamples | None) -> list[Tensor]:
        """Return the loss of each direction, summed over its states (N, D)."""
        softmaxes = self.bilm.softmaxes
        assert softmaxes is not None
        losses = []
        for softmax, top, wanted in zip(softmaxes, tops, targets, strict=True):
            states = F.dropout(top, self._dropout, training=self._dropout > 0)
            losses.append(
                softmax.loss(states, wanted)
                if samples is None
                else softmax.sampled_loss(states.to(self.product_dtype), wanted, samples)
            )
        return losses

    def _predict_context(self, head: ContextHead, tops: list[Tensor], targets: ContextTargets | None) -> Tensor:
        """Return 1 - cosine with what surrounds the words, summed over those with a target."""
        if targets is None or not len(targets.vectors):
            return zero_loss(head)
        states = torch.cat([top[places] for top, places in zip(tops, targets.places, strict=True)], dim=-1)
        cosine: Tensor = head(states.float(), targets.vectors)
        return (1 - cosine).sum()

    def _read(self, lesson: Lesson, distinct: Tensor) -> list[Tensor]:
        """Return all layers of a lesson's rows, (L+1, T·B, D) per direction."""
        start = self.bilm.zero_state(lesson.keep.shape[1])
        stacks = (self.bilm.left_to_right, self.bilm.right_to_left)
        starts = (start.left_to_right, start.right_to_left)
        sides = []
        for stack, state, index in zip(stacks, starts, lesson.word_index, strict=True):
            words = F.embedding(index, distinct)  # (T, B, D)
            layers, _ = stack.read_layers(
                words, lesson.keep, state, dropout=self._dropout, product_dtype=self.product_dtype
            )
            sides.append(torch.stack([words, *layers]).flatten(1, 2))
        return sides

    def _teach(self, heads: TeacherHeads, lesson: Lesson, layers: list[Tensor]) -> tuple[Tensor, Tensor | None]:
        """Return 1 - cosine with the teacher and, if asked for, the relations, summed over a lesson's words."""
        assert lesson.vectors is not None
        sides = [side[:, places] for side, places in zip(layers, lesson.places, strict=True)]
        read = torch.cat(sides, dim=-1)
        cosine: Tensor = heads(read, lesson.vectors)
        words = lesson.word_index[0].flatten()[lesson.places[0]]
        relations = heads.relate(read, lesson.vectors, words).sum() if self.relates else None
        return (1 - cosine).sum(), relations


def zero_loss(module: nn.Module) -> Tensor:
    """Return 0 as a function of every weight of a module: DistributedDataParallel waits for all gradients."""
    return sum((parameter.sum() * 0 for parameter in module.parameters()), start=torch.zeros(()))
