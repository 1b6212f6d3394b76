"""Auxiliary objectives: what a run learns beside the language model, on batches of whole sentences.

All objectives share one pass of the network over a batch. Their weights are trained, saved and resumed with the run.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.corpus.prepared import BOS_ID
from elmo.inference.context import StaticTable as ContextTable
from elmo.pretrain.stream import Ids, TokenReader

_RIDGE = 1e-3  # of the mean square of the features


@dataclass(frozen=True)
class TeacherTargets:
    """What objectives compare the layers of N words in S sentences with; a teacher's vectors have length 1."""

    lengths: Tensor  # (S,) words per sentence
    static: Tensor  # (N, d) static vectors, 0 for unknown words; d may be 0
    weights: Tensor  # (N,) by frequency
    words: Tensor | None  # (N, E) of the teacher, 0 where it has none; None if words are not learned
    sentences: Tensor  # (S, E) of the teacher
    contrasts: Tensor  # (P, 2) sentences with the same words that differ in their order or by a negation


@dataclass(frozen=True)
class SentenceBatch:
    """Whole sentences in rows; pairs are left to right, then right to left."""

    char_ids: Tensor | None  # (U, C) of the distinct words, boundaries first
    word_ids: Tensor | None  # (U,)
    word_index: Tensor  # (2, T, B): which distinct word is the input
    keep: Tensor  # (T, B): 0 where a sentence starts
    word_positions: Tensor  # (2, N): in T·B, of the words, sentence by sentence
    predicting: Tensor  # (2, M): positions in T·B that predict a word; M = 0 if the language model does not learn
    targets: Tensor  # (2, M): vocabulary ids to predict there
    teacher: TeacherTargets


class AuxiliaryObjective(nn.Module, ABC):
    """A loss beside that of the language model; `layers` (L+1, N, 2D) are those of the words of a batch."""

    metric: str  # the name of what is reported

    @abstractmethod
    def forward(self, layers: Tensor, targets: TeacherTargets) -> tuple[Tensor, Tensor]:
        """Return the weighted loss of a batch, and the values whose mean is the metric."""

    @abstractmethod
    def linear_map(self) -> tuple[Tensor, Tensor] | None:
        """Return the weight and bias of the last linear map; None if they are those of a trained model.

        They start from a regression: random ones would first pull the network away from what it knows.
        """

    @abstractmethod
    def examples(self, layers: Tensor, targets: TeacherTargets) -> tuple[Tensor, Tensor]:
        """Return the features and the targets of the regression in a batch."""

    def complete(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return the model with what this objective adds to it."""
        return checkpoint


class Regression:
    """Ridge regression, batch by batch."""

    def __init__(self) -> None:
        self._products: Tensor | float = 0.0
        self._moments: Tensor | float = 0.0

    def add(self, features: Tensor, targets: Tensor) -> None:
        """Add features (N, F) with their targets (N, E)."""
        inputs = F.pad(features, (0, 1), value=1.0).double()
        self._products = inputs.t() @ inputs + self._products
        self._moments = inputs.t() @ targets.double() + self._moments

    def solve(self, weight: Tensor, bias: Tensor) -> None:
        """Write the solution to a weight (E, F) and a bias (E,)."""
        assert isinstance(self._products, Tensor) and isinstance(self._moments, Tensor)
        ridge = _RIDGE * self._products.diagonal().mean()
        identity = torch.eye(len(self._products), dtype=torch.float64, device=self._products.device)
        solution = torch.linalg.solve(self._products + ridge * identity, self._moments).float()
        weight.copy_(solution[:-1].t())
        bias.copy_(solution[-1])


def list_objectives(objectives: nn.ModuleDict) -> list[AuxiliaryObjective]:
    """Return the values of a ModuleDict of objectives."""
    return [cast(AuxiliaryObjective, module) for module in objectives.values()]


class StaticTable:
    """Static vectors and weights of words by a model's context layer; without one, no vectors and equal weights."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.layer = layer = None if checkpoint is None else checkpoint.context
        self.dim = 0 if layer is None else layer.config.dim
        # Words outside the table are not estimated here.
        self._table = None if layer is None else ContextTable(layer, lambda words: np.empty((0, 0), np.float32))

    def look_up_words(self, words: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the vectors (N, d), zeros for words outside the table, and the weights (N,)."""
        if self._table is None:
            return torch.zeros(len(words), 0), torch.ones(len(words))
        vectors, weights = self._table.look_up(words, estimates=False)
        return torch.from_numpy(vectors), torch.from_numpy(weights)


def pack_sentences(
    reader: TokenReader, sentences: Sequence[Ids], is_whole: Sequence[bool], *, predicts: bool, teacher: TeacherTargets
) -> SentenceBatch:
    """Pack sentences of word ids into rows, both directions from a zero state.

    The language model predicts the words and, of whole sentences, their end; if not `predicts`, nothing.
    """
    rows = pack_rows([len(sentence) for sentence in sentences])
    num_steps = max(sum(len(sentences[index]) + 1 for index in row) for row in rows)
    ids = np.full((2, num_steps, len(rows)), BOS_ID, dtype=np.int64)
    is_predicting = np.zeros((2, len(rows), num_steps), dtype=bool)
    word_positions: list[Ids] = [np.empty(0, dtype=np.int64)] * len(sentences)
    for column, row in enumerate(rows):
        start = 0
        for index in row:
            sentence, end = sentences[index], start + len(sentences[index])
            steps = np.arange(start + 1, end + 1)  # of the words, after BOS
            ids[:, steps, column] = np.stack([sentence, sentence[::-1]])
            word_positions[index] = np.stack([steps, steps[::-1]]) * len(rows) + column
            # The word after the last one of a truncated sentence is unknown.
            is_cut = not is_whole[index]
            is_predicting[0, column, start : end + 1 - is_cut] = predicts
            is_predicting[1, column, start + is_cut : end + 1] = predicts
            start = end + 1
    following = np.concatenate([ids[:, 1:], np.full_like(ids[:, :1], BOS_ID)], axis=1)
    direction, column_index, step_index = is_predicting.nonzero()
    word_index, char_ids, word_ids = reader.index_distinct(ids)
    return SentenceBatch(
        char_ids=char_ids,
        word_ids=word_ids,
        word_index=word_index,
        keep=torch.from_numpy(ids[0] != BOS_ID).float(),
        word_positions=torch.from_numpy(np.concatenate(word_positions, axis=1)),
        predicting=torch.from_numpy((step_index * len(rows) + column_index).reshape(2, -1)),
        targets=torch.from_numpy(reader.find_targets(following[direction, step_index, column_index].reshape(2, -1))),
        teacher=teacher,
    )


def pack_rows(lengths: Sequence[int]) -> list[list[int]]:
    """Pack sentences, longest first, into rows as long as the longest: each into the first row that has room."""
    size = max(lengths) + 1
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        needed = lengths[index] + 1  # with its BOS
        row = next((row for row, left in enumerate(room) if needed <= left), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(size)
        rows[row].append(index)
        room[row] -= needed
    return rows
