"""Auxiliary objectives: what a run learns beside the language model, on batches of whole sentences.

An AuxiliaryTask has one source of batches and any number of objectives, which share one pass of the network over a
batch. An objective is a module whose weights are trained, saved and resumed with the run.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.corpus.prepared import BOS_ID, PreparedCorpus
from elmo.model import Elmo
from elmo.pretrain.stream import Ids, find_targets, index_distinct
from elmo.text.vocabulary import Vocabulary

_RIDGE = 1e-3  # of the mean square of the features


@dataclass(frozen=True)
class SentenceBatch:
    """Whole sentences in rows; pairs are left to right, then right to left. N words, S sentences."""

    char_ids: Tensor | None  # (U, C) of the distinct words, boundaries first
    word_ids: Tensor | None  # (U,)
    word_index: Tensor  # (2, T, B): which distinct word is the input
    keep: Tensor  # (T, B): 0 where a sentence starts
    places: Tensor  # (2, N): where the words are, in T·B, sentence by sentence
    lengths: Tensor  # (S,) words per sentence
    predicting: Tensor  # (2, M): where the language model predicts, in T·B; M = 0 if it does not learn here
    targets: Tensor  # (2, M): vocabulary ids to predict there
    num_predicted: int  # over all processes
    static: Tensor  # (N, d) static vectors, 0 for unknown words; d may be 0
    weights: Tensor  # (N,) by frequency
    teacher_words: Tensor | None = None  # (N, E) of length 1, or 0 where the teacher has none
    teacher_sentences: Tensor | None = None  # (S, E) of length 1
    contrasts: Tensor | None = None  # (P, 2) sentences with the same words that do not

    def to(self, device: torch.device) -> "SentenceBatch":
        """Return the batch with its tensors on another device."""
        moved: dict[str, Any] = {
            field.name: value.to(device)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return replace(self, **moved)


@dataclass(frozen=True)
class AuxiliaryLoss:
    """What an objective says of a batch: its loss, weighted, and sums to report, of values and of their number."""

    loss: Tensor
    totals: Mapping[str, tuple[Tensor, int]]


class AuxiliaryObjective(nn.Module, ABC):
    """A loss beside that of the language model."""

    metrics: tuple[str, ...]  # names of what is reported, the keys of AuxiliaryLoss.totals

    @abstractmethod
    def forward(self, layers: Tensor, batch: SentenceBatch) -> AuxiliaryLoss:
        """Return the loss of a batch; `layers` (L+1, N, 2D) are those of its words."""

    @abstractmethod
    def validate(self, model: Elmo, sentences: Sequence[Sequence[str]]) -> dict[str, float]:
        """Measure the metrics on sentences that were not trained on."""

    def fit(self, layers: Tensor, batch: SentenceBatch) -> None:
        """Add a batch to the regression from which the objective's linear maps start; by default there is none."""

    def start(self) -> None:
        """Set the linear maps to the solution of the regression.

        Random maps would first pull the network away from what it knows.
        """

    def complete(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return the model with what this objective adds to it."""
        return checkpoint


class Regression:
    """Ridge regression, batch by batch."""

    def __init__(self) -> None:
        self._products: Tensor | None = None
        self._answers: Tensor | None = None

    def add(self, features: Tensor, targets: Tensor) -> None:
        """Add features (N, F) with their targets (N, E)."""
        inputs = F.pad(features, (0, 1), value=1.0).double()
        products, answers = inputs.t() @ inputs, inputs.t() @ targets.double()
        self._products = products if self._products is None else self._products + products
        self._answers = answers if self._answers is None else self._answers + answers

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was added."""
        return self._products is None

    def solve(self) -> tuple[Tensor, Tensor]:
        """Return the weight (E, F) and the bias (E,)."""
        assert self._products is not None and self._answers is not None
        ridge = _RIDGE * self._products.diagonal().mean()
        identity = torch.eye(len(self._products), dtype=torch.float64, device=self._products.device)
        solution = torch.linalg.solve(self._products + ridge * identity, self._answers).float()
        return solution[:-1].t().contiguous(), solution[-1]


class BatchSource(ABC):
    """Draws the batches of a task."""

    @abstractmethod
    def draw(self, number: int) -> SentenceBatch:
        """Return a batch, which depends on the seed and its number alone."""


@dataclass(frozen=True)
class AuxiliaryTask:
    """Batches of whole sentences, and what is learned from them."""

    source: BatchSource
    objectives: nn.ModuleDict  # AuxiliaryObjective by name
    updates: range  # counted from 0, those with a batch

    def batches(self, *, done: int, windows_per_update: int) -> Iterator[SentenceBatch | None]:
        """Yield one item per window after the first `done` updates: None in updates without a batch."""
        window = done * windows_per_update
        while True:
            update, place = divmod(window, windows_per_update)
            if update in self.updates:
                yield self.source.draw(self.updates.index(update) * windows_per_update + place)
            else:
                yield None
            window += 1

    def each(self) -> dict[str, AuxiliaryObjective]:
        """Return the objectives by name."""
        return {name: module for name, module in self.objectives.items() if isinstance(module, AuxiliaryObjective)}


class BatchLayout:
    """Turns sentences of word ids of a corpus into the tensors of a SentenceBatch."""

    def __init__(
        self, corpus: PreparedCorpus, *, max_characters: int | None, reads_words: bool, static: "StaticTable"
    ) -> None:
        self._corpus, self._max_characters, self._reads_words = corpus, max_characters, reads_words
        self._boundaries = Vocabulary(corpus.vocabulary).boundaries()
        self._static, self._rows = static, static.find_rows(corpus)

    def arrange(self, sentences: Sequence[Ids], *, predicts: bool, is_whole: Sequence[bool]) -> SentenceBatch:
        """Pack sentences into rows, both directions from a zero state."""
        ids, places, predicting, following = _lay_out(sentences, is_whole)
        if not predicts:
            predicting, following = predicting[:, :0], following[:, :0]
        inputs, char_ids, word_ids = index_distinct(
            self._corpus, ids, self._boundaries, self._max_characters, reads_words=self._reads_words
        )
        static, weights = self._static.look_up(self._rows[np.concatenate(sentences)])
        return SentenceBatch(
            char_ids=char_ids,
            word_ids=word_ids,
            word_index=inputs,
            keep=torch.from_numpy(ids[0] != BOS_ID).float(),
            places=torch.from_numpy(places),
            lengths=torch.tensor([len(sentence) for sentence in sentences]),
            predicting=torch.from_numpy(predicting),
            targets=torch.from_numpy(find_targets(self._corpus, following, self._boundaries)),
            num_predicted=predicting.shape[1],
            static=static,
            weights=weights,
        )


class StaticTable:
    """The static vectors and weights of the words of a model's context layer; without one, of no word."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.layer = layer = None if checkpoint is None else checkpoint.context
        self._words: dict[str, int] = {}
        self._lowercase = False
        self.vectors, self.weights = torch.zeros(1, 0), torch.ones(1)
        if layer is not None:
            self._lowercase = layer.config.lowercase
            self._words = {word: row for row, word in enumerate(layer.words)}
            arrays = layer.arrays
            vectors = arrays["vectors"].astype(np.float32) * arrays["scales"][:, None]
            self.vectors = torch.from_numpy(np.concatenate([vectors, np.zeros_like(vectors[:1])]))
            weights = np.append(arrays["weights"], np.float32(layer.config.unknown_weight))
            self.weights = torch.from_numpy(weights.astype(np.float32))

    @property
    def dim(self) -> int:
        """Return d, 0 without a context layer."""
        return self.vectors.shape[1]

    def find_rows(self, corpus: PreparedCorpus) -> Ids:
        """Return the row of each word of a corpus; the last one stands for words outside the table."""
        unknown = len(self.weights) - 1
        words = corpus.words(np.arange(corpus.num_distinct_words + 1))
        keys = (word.lower() for word in words) if self._lowercase else iter(words)
        return np.array([self._words.get(key, unknown) for key in keys], dtype=np.int64)

    def look_up(self, rows: Ids) -> tuple[Tensor, Tensor]:
        """Return the vectors (N, d) and weights (N,) of some rows."""
        chosen = torch.from_numpy(rows)
        return self.vectors[chosen], self.weights[chosen]

    def look_up_words(self, words: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the vectors and weights of some words."""
        unknown = len(self.weights) - 1
        keys = [word.lower() if self._lowercase else word for word in words]
        return self.look_up(np.array([self._words.get(key, unknown) for key in keys], dtype=np.int64))


def _lay_out(sentences: Sequence[Ids], is_whole: Sequence[bool]) -> tuple[Ids, Ids, Ids, Ids]:
    """Return ids (2, T, B), padded with marks; where each word is (2, N), in T·B; and the places (2, M) where the
    next word or the end is known, with its id in the corpus.
    """
    rows = pack_rows([len(sentence) for sentence in sentences])
    num_steps = max(sum(len(sentences[number]) + 1 for number in row) for row in rows)
    ids = np.full((2, num_steps, len(rows)), BOS_ID, dtype=np.int64)
    places: list[Ids] = [np.empty(0, dtype=np.int64)] * len(sentences)
    predicting: list[Ids] = []
    following: list[Ids] = []
    for column, row in enumerate(rows):
        start = 0
        for number in row:
            sentence = sentences[number]
            steps = np.arange(start, start + 1 + len(sentence))  # of the mark and the words
            ids[:, steps[1:], column] = np.stack([sentence, sentence[::-1]])
            places[number] = np.stack([steps[1:], steps[:0:-1]]) * len(rows) + column
            ahead, back = np.append(sentence, BOS_ID), np.append(sentence[::-1], BOS_ID)
            known, after = np.stack([steps, steps]), np.stack([ahead, back])
            if not is_whole[number]:  # truncated: the word after the last one is unknown
                known, after = np.stack([steps[:-1], steps[1:]]), np.stack([ahead[:-1], back[1:]])
            predicting.append(known * len(rows) + column)
            following.append(after)
            start += len(sentence) + 1
    joined = [np.concatenate(arrays, axis=1) for arrays in (places, predicting, following)]
    return ids, joined[0], joined[1], joined[2]


def pack_rows(lengths: Sequence[int]) -> list[list[int]]:
    """Deal sentences, longest first, to rows as long as the longest: each to the first row that has room."""
    size = max(lengths) + 1
    rows: list[list[int]] = []
    room: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        needed = lengths[number] + 1  # its mark
        for row, left in enumerate(room):
            if needed <= left:
                rows[row].append(number)
                room[row] -= needed
                break
        else:
            rows.append([number])
            room.append(size - needed)
    return rows
