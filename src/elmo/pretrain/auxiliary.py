"""What a run may learn besides the language model, on batches of whole sentences: the interface, and the batches."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.corpus.prepared import BOS_ID
from elmo.pretrain.stream import Ids, TokenReader


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


class AuxiliaryTask(nn.Module):
    """A task besides the language model. This one learns nothing; distillation is one that does.

    Its weights are trained, saved and resumed with those of the run. `metrics` are the names of what it reports.
    """

    metrics: tuple[str, ...] = ()

    def batches(self, *, num_updates: int, windows_per_update: int) -> Iterator[SentenceBatch | None]:
        """Yield what is learned with each window after the first `num_updates` updates; None: nothing."""
        return itertools.repeat(None)

    def initialize(self, encode: Callable[[SentenceBatch], Tensor]) -> None:
        """Set the weights of a new run; `encode` returns the layers of a batch, as forward takes them."""

    def forward(self, layers: Tensor, targets: TeacherTargets) -> tuple[Tensor, Tensor]:
        """Return the weighted loss of a batch, and the sum and the number of the values of each metric (M, 2).

        `layers` (L+1, N, 2D) are those of the words of the batch.
        """
        raise NotImplementedError

    def validate(self, checkpoint: Checkpoint, sentences: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return the metrics of a model on sentences of words."""
        return {}

    def complete(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return a model with what the task adds to it."""
        return checkpoint


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
