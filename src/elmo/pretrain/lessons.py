"""Whole sentences drawn from a prepared corpus, packed into rows for both directions: what a teacher teaches.

A lesson follows from the seed and its window's number alone, so a resumed run draws the same. All processes draw
the same sentences and each keeps the rows that are its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.corpus.prepared import MARK, PreparedCorpus
from elmo.pretrain.teacher import Pieces, Teacher

_DRAW = 1  # tells these random numbers from those of the windows

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lesson:
    """Rows of sentences and what the teacher says of their words; of pairs, left to right is the first."""

    word_index: Tensor  # (2, T, B): which distinct word of the window is read
    keep: Tensor  # (T, B): 0 where a sentence starts
    places: Tensor  # (2, N): where the taught words are read, in T·B
    pieces: Pieces  # the teacher's input
    num_words: int  # in all processes
    prediction: "Prediction | None" = None  # for the language model, if it learns from the same sentences
    vectors: Tensor | None = None  # (N, teacher's dimension), once the teacher has answered

    def to(self, device: torch.device) -> "Lesson":
        """Give the same lesson on another device; what the teacher reads stays where it is."""
        return replace(
            self,
            word_index=self.word_index.to(device),
            keep=self.keep.to(device),
            places=self.places.to(device),
            prediction=None if self.prediction is None else self.prediction.to(device),
            vectors=None if self.vectors is None else self.vectors.to(device),
        )


@dataclass(frozen=True)
class Prediction:
    """What the language model predicts in a lesson, a row a direction."""

    places: Tensor  # (2, M): where it is predicted, in T·B
    targets: Tensor  # (2, M): vocabulary id of the word
    num_words: int  # in all processes

    def to(self, device: torch.device) -> "Prediction":
        """Give the same on another device."""
        return replace(self, places=self.places.to(device), targets=self.targets.to(device))


@dataclass(frozen=True)
class Following:
    """What follows in a lesson: a Prediction as ids of the corpus."""

    places: Ids  # (2, M)
    ids: Ids  # (2, M)
    num_words: int

    def index(self, targets: Ids) -> Prediction:
        """Give the prediction of these vocabulary ids."""
        return Prediction(torch.from_numpy(self.places), torch.from_numpy(targets), self.num_words)


@dataclass(frozen=True)
class DrawnLesson:
    """A lesson as ids of the corpus."""

    ids: Ids  # (2, T, B)
    places: Tensor
    pieces: Pieces
    num_words: int
    following: Following | None  # if the language model learns too

    def index(self, word_index: Ids, prediction: Prediction | None) -> Lesson:
        """Give the lesson with its words as those of a window."""
        keep = torch.from_numpy(self.ids[0] != MARK).float()
        return Lesson(torch.from_numpy(word_index), keep, self.places, self.pieces, self.num_words, prediction)


class LessonStream:
    """Draws a lesson for each window of the updates in which the teacher teaches."""

    def __init__(
        self,
        corpus: PreparedCorpus,
        teacher: Teacher,
        *,
        num_words: int,
        max_words: int,
        predict: bool = False,
        updates: range,
        windows_per_update: int = 1,
        seed: int,
        done: int = 0,
        rank: int = 0,
        num_processes: int = 1,
    ) -> None:
        """At least `num_words` a lesson over all processes, in those `updates`; so many are `done` already.

        `predict` says what follows each word, too, for the language model.
        """
        self._corpus, self._blocks, self._teacher = corpus, corpus.blocks(), teacher
        self._num_words, self._max_words, self._seed = num_words, max_words, seed
        self._predict = predict
        self._updates, self._windows_per_update = updates, windows_per_update
        self._window, self._rank, self._num_processes = done * windows_per_update, rank, num_processes

    def next_lesson(self) -> DrawnLesson | None:
        """Give the next window's lesson; None when there is none, or no row of it is this process's."""
        window, self._window = self._window, self._window + 1
        if window // self._windows_per_update not in self._updates:
            return None
        sentences = self._draw(window)
        rows = pack_rows([len(sentence) for sentence in sentences])[self._rank :: self._num_processes]
        if not rows:
            return None
        num_words = sum(map(len, sentences))
        own = [sentences[number] for row in rows for number in row]
        pieces = self._teacher.cut([self._corpus.words(sentence) for sentence in own])
        laid_out = [[sentences[number] for number in row] for row in rows]
        ids, places = _lay_out(laid_out)
        following = None
        if self._predict:
            num_predicted = sum(len(sentence) + self._is_whole(sentence) for sentence in sentences)
            following = Following(*self._follow(laid_out), num_predicted)
        return DrawnLesson(ids, torch.from_numpy(places)[:, pieces.words], pieces, num_words, following)

    def _follow(self, rows: Sequence[Sequence[Ids]]) -> tuple[Ids, Ids]:
        """Give the places (2, M), in T·B, at which a word or an end follows, and which."""
        places: list[Ids] = []
        ids: list[Ids] = []
        for column, row in enumerate(rows):
            start = 0
            for sentence in row:
                steps = np.arange(start, start + 1 + len(sentence))
                ahead, back = np.append(sentence, MARK), np.append(sentence[::-1], MARK)
                pair = np.stack([steps, steps]), np.stack([ahead, back])
                if not self._is_whole(sentence):  # what follows the cut is not known, nor is the end before it
                    pair = np.stack([steps[:-1], steps[1:]]), np.stack([ahead[:-1], back[1:]])
                places.append(pair[0] * len(rows) + column)
                ids.append(pair[1])
                start += len(sentence) + 1
        return np.concatenate(places, axis=1), np.concatenate(ids, axis=1)

    def _is_whole(self, sentence: Ids) -> bool:
        """Whether a sentence surely was not cut."""
        return len(sentence) < self._max_words

    def _draw(self, window: int) -> list[Ids]:
        """Draw sentences from all over the corpus: a block, then one of its sentences."""
        random = np.random.default_rng([self._seed, _DRAW, window])
        found: list[Ids] = []
        num_words = 0
        while num_words < self._num_words:
            shard, start, stop = self._blocks[random.integers(len(self._blocks))]
            ids = self._corpus.read_block(int(shard), int(start), int(stop)).astype(np.int64)
            marks = np.append(np.flatnonzero(ids == MARK), len(ids))
            chosen = random.integers(len(marks) - 1)
            sentence = ids[marks[chosen] + 1 : marks[chosen + 1]][: self._max_words]
            if len(sentence):
                found.append(sentence)
                num_words += len(sentence)
        return found


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


def _lay_out(rows: Sequence[Sequence[Ids]]) -> tuple[Ids, Ids]:
    """Give ids (2, T, B), marks where nothing is, and where each word is read (2, N), in T·B."""
    num_steps = max(sum(len(sentence) + 1 for sentence in row) for row in rows)
    ids = np.full((2, num_steps, len(rows)), MARK, dtype=np.int64)
    places: list[Ids] = []
    for column, row in enumerate(rows):
        start = 0
        for sentence in row:
            steps = np.arange(start + 1, start + 1 + len(sentence))
            ids[0, steps, column] = sentence
            ids[1, steps, column] = sentence[::-1]
            places.append(np.stack([steps, steps[::-1]]) * len(rows) + column)
            start += len(sentence) + 1
    return ids, np.concatenate(places, axis=1)
