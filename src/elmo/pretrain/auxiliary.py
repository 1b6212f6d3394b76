"""What a run learns besides the language model, from batches of whole sentences: the interface, and the batches."""

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
    """The targets for the N words of S sentences; the vectors of a teacher have length 1."""

    lengths: Tensor  # (S,) words per sentence
    static: Tensor  # (N, d) static vectors, 0 for unknown words; d may be 0
    weights: Tensor  # (N,) by frequency
    words: Tensor | None  # (N, E) of the teacher, 0 where it has none; None if words are not distilled
    sentences: Tensor  # (S, E) of the teacher
    contrasts: Tensor  # (P, 2) pairs of sentences with the same words in another order, or that differ by a negation


@dataclass(frozen=True)
class SentenceBatch:
    """Whole sentences in rows; axes of size 2 are left to right, then right to left."""

    char_ids: Tensor | None  # (U, C) of the distinct words, boundaries first
    word_ids: Tensor | None  # (U,)
    word_index: Tensor  # (2, T, B): index of the distinct word
    keep: Tensor  # (T, B): 0 where a sentence starts
    word_positions: Tensor  # (2, N): of the words in T·B, sentence by sentence
    targets: TeacherTargets


class AuxiliaryObjective(nn.Module):
    """An objective besides the language model. This one learns nothing; a run with a teacher has Distillation.

    Its weights are trained, saved and resumed with those of the run.
    """

    metrics: tuple[str, ...] = ()  # the names of what forward and validate measure

    def batches(self, *, num_updates: int) -> Iterator[SentenceBatch | None]:
        """Yield the batch of each update after the first `num_updates`; None if the update has none."""
        return itertools.repeat(None)

    def initialize(self, encode: Callable[[SentenceBatch], Tensor]) -> None:
        """Initialize the weights of a new run; `encode` returns the layers of a batch, as `forward` takes them."""

    def forward(self, layers: Tensor, targets: TeacherTargets) -> tuple[Tensor, Tensor]:
        """Return the weighted loss of a batch, and the sum and the number of the values of each metric (M, 2).

        `layers` (L+1, N, 2D) are those of the words of the batch.
        """
        return layers.new_zeros(()), layers.new_zeros(0, 2)

    def validate(self, checkpoint: Checkpoint, sentences: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return the metrics of a model on tokenized sentences."""
        return {}

    def add_to(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return the model with the trained parts that it keeps."""
        return checkpoint


def pack_sentences(tokens: TokenReader, sentences: Sequence[Ids], targets: TeacherTargets) -> SentenceBatch:
    """Pack sentences of word ids into rows, each from a zero state in both directions."""
    rows = pack_rows([len(sentence) for sentence in sentences])
    num_steps = max(sum(len(sentences[index]) + 1 for index in row) for row in rows)
    ids = np.full((2, num_steps, len(rows)), BOS_ID, dtype=np.int64)
    word_positions: list[Ids] = [np.empty(0, dtype=np.int64)] * len(sentences)
    for column, row in enumerate(rows):
        start = 0
        for index in row:
            sentence = sentences[index]
            end = start + len(sentence) + 1
            steps = np.arange(start + 1, end)  # of the words, after BOS
            ids[:, steps, column] = np.stack([sentence, sentence[::-1]])
            word_positions[index] = np.stack([steps, steps[::-1]]) * len(rows) + column
            start = end
    word_index, char_ids, word_ids = tokens.index_distinct(ids)
    return SentenceBatch(
        char_ids=char_ids,
        word_ids=word_ids,
        word_index=word_index,
        keep=torch.from_numpy(ids[0] != BOS_ID).float(),
        word_positions=torch.from_numpy(np.concatenate(word_positions, axis=1)),
        targets=targets,
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
