"""A prepared corpus -> windows of packed rows, each with the position after it, so that resuming is exact.

Blocks are shuffled anew each epoch and dealt to the rows of the global batch; a process reads its own rows only,
and what a row reads does not depend on how many processes there are.
"""

import queue
import threading
from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.corpus.prepared import MARK, PreparedCorpus
from elmo.pretrain.lessons import Lesson, LessonStream
from elmo.text.batch import BEGIN_ROW, END_ROW, FIRST_WORD_ROW
from elmo.text.characters import Utf8Alphabet
from elmo.text.vocabulary import Vocabulary

BATCHES_AHEAD = 4


@dataclass(frozen=True)
class Position:
    """Where each row of this process stands: its block in the endless sequence, and its place inside."""

    block: tuple[int, ...]
    offset: tuple[int, ...]


@dataclass(frozen=True)
class LMBatch:
    """One window; the first axis of pairs is left to right, then right to left."""

    char_ids: Tensor | None  # (U, C) of the distinct words, boundaries first
    word_ids: Tensor | None  # (U,)
    word_index: Tensor  # (2, T, B): which distinct word is read
    targets: Tensor  # (2, T, B): vocabulary id of the word to be predicted
    keep: Tensor  # (T, B): 0 where a sentence starts, and with it the state
    num_words: int  # positions read, boundaries included, counted once for both directions
    position: Position  # after this window
    lesson: Lesson | None = None  # of a teacher, beside the window; its words are among the distinct ones

    def to(self, device: torch.device) -> "LMBatch":
        """Give the same batch on another device."""
        return replace(
            self,
            char_ids=None if self.char_ids is None else self.char_ids.to(device),
            word_ids=None if self.word_ids is None else self.word_ids.to(device),
            word_index=self.word_index.to(device),
            targets=self.targets.to(device),
            keep=self.keep.to(device),
            lesson=None if self.lesson is None else self.lesson.to(device),
        )


class WindowStream:
    """Makes the windows of some rows of the global batch, one after the other, without end."""

    def __init__(
        self,
        corpus: PreparedCorpus,
        *,
        num_rows: int,
        rows: range,
        num_steps: int,
        seed: int,
        max_characters: int | None,
        read_words: bool,
        reset_at_sentences: bool,
        position: Position | None = None,
        lessons: LessonStream | None = None,
    ) -> None:
        """`num_rows` of the global batch, of which this process has `rows`.

        `max_characters` is None for a model that reads whole words only.
        """
        self._corpus, self._blocks, self._lessons = corpus, corpus.blocks(), lessons
        self._num_rows, self._num_steps, self._seed = num_rows, num_steps, seed
        self._max_characters, self._read_words, self._reset = max_characters, read_words, reset_at_sentences
        self._vocabulary = Vocabulary(corpus.vocabulary)
        start = position or Position(block=tuple(rows), offset=(0,) * len(rows))
        self._block, self._offset = list(start.block), list(start.offset)
        self._orders: dict[int, npt.NDArray[np.int64]] = {}
        self._loaded = [self._load(number) for number in self._block]

    def next_batch(self) -> LMBatch:
        """Read the next window of every row."""
        inputs = np.empty((2, len(self._block), self._num_steps), dtype=np.int64)
        targets = np.empty_like(inputs)
        for row in range(len(self._block)):
            filled = 0
            while filled < self._num_steps:
                tokens = self._loaded[row]  # (2, n)
                offset = self._offset[row]
                taken = tokens[:, offset : offset + self._num_steps - filled]
                size = taken.shape[1]
                inputs[:, row, filled : filled + size] = taken
                # After a block comes another block's mark.
                following = tokens[:, offset + 1 : offset + 1 + size]
                targets[:, row, filled : filled + size] = MARK
                targets[:, row, filled : filled + following.shape[1]] = following
                filled += size
                self._offset[row] += size
                if self._offset[row] == tokens.shape[1]:
                    self._block[row] += self._num_rows
                    self._offset[row] = 0
                    self._loaded[row] = self._load(self._block[row])
        return self._assemble(inputs.transpose(0, 2, 1), targets.transpose(0, 2, 1))

    def _load(self, number: int) -> npt.NDArray[np.int64]:
        """Give a block's ids in both directions, (2, n): each sentence reversed after its mark."""
        epoch, place = divmod(number, len(self._blocks))
        if epoch not in self._orders:
            self._orders = {epoch - 1: self._orders[epoch - 1]} if epoch - 1 in self._orders else {}
            self._orders[epoch] = np.random.default_rng([self._seed, epoch]).permutation(len(self._blocks))
        shard, start, stop = self._blocks[self._orders[epoch][place]]
        ahead = self._corpus.read_block(int(shard), int(start), int(stop)).astype(np.int64)
        marks = np.flatnonzero(ahead == MARK)
        ends = np.append(marks[1:], len(ahead))
        lengths = ends - marks
        # Position p of the sentence at m with end e becomes m + e - p; the mark stays.
        mirrored = np.repeat(marks + ends, lengths) - np.arange(len(ahead))
        mirrored[marks] = marks
        return np.stack([ahead, ahead[mirrored]])

    def _assemble(self, inputs: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]) -> LMBatch:
        drawn = self._lessons.next_lesson() if self._lessons is not None else None
        read = [inputs] if drawn is None else [inputs, drawn.ids]
        distinct, which = np.unique(np.concatenate([ids.ravel() for ids in read]), return_inverse=True)
        if has_mark := distinct[0] == MARK:
            distinct = distinct[1:]
        which = which.ravel() + FIRST_WORD_ROW - int(has_mark)
        word_index, *taught = (
            _set_boundaries(part.reshape(ids.shape), ids)
            for part, ids in zip(np.split(which, [inputs.size]), read, strict=False)
        )
        following = None if drawn is None else drawn.following
        prediction = None if following is None else following.index(self._wanted(following.ids))
        keep = (inputs[0] != MARK) if self._reset else np.ones(inputs.shape[1:], dtype=bool)
        return LMBatch(
            char_ids=None if self._max_characters is None else self._char_ids(distinct, self._max_characters),
            word_ids=self._word_ids(distinct) if self._read_words else None,
            word_index=torch.from_numpy(word_index),
            targets=torch.from_numpy(self._wanted(targets)),
            keep=torch.from_numpy(keep).float(),
            num_words=int(inputs[0].size),
            position=Position(tuple(self._block), tuple(self._offset)),
            lesson=None if drawn is None else drawn.index(taught[0], prediction),
        )

    def _wanted(self, following: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Give the vocabulary ids of what follows, (2, ...); each direction ends at its own boundary."""
        begin, end = self._vocabulary.boundaries()
        wanted = self._corpus.targets[following].astype(np.int64)
        for direction, predicted in enumerate((end, begin)):
            wanted[direction][following[direction] == MARK] = predicted
        return wanted

    def _char_ids(self, distinct: npt.NDArray[np.int64], max_characters: int) -> Tensor:
        boundaries = Utf8Alphabet(max_characters).boundaries()
        words = self._corpus.character_ids(distinct, max_characters)
        return torch.from_numpy(np.concatenate([boundaries, words.astype(np.int64)]))

    def _word_ids(self, distinct: npt.NDArray[np.int64]) -> Tensor:
        ids = self._corpus.targets[distinct].astype(np.int64)
        return torch.from_numpy(np.concatenate([self._vocabulary.boundaries(), ids]))


def _set_boundaries(word_index: npt.NDArray[np.int64], ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Let each direction read its own boundary where a sentence's mark is."""
    for direction, boundary in enumerate((BEGIN_ROW, END_ROW)):
        word_index[direction][ids[direction] == MARK] = boundary
    return word_index


def read_ahead(stream: WindowStream) -> Generator[LMBatch, None, None]:
    """Make batches in a thread of their own, a few ahead; an error there is raised here."""
    ready: queue.Queue[LMBatch | BaseException] = queue.Queue(BATCHES_AHEAD)
    stopped = threading.Event()

    def put(item: LMBatch | BaseException) -> None:
        while not stopped.is_set():
            try:
                return ready.put(item, timeout=0.2)
            except queue.Full:
                continue

    def work() -> None:
        try:
            while not stopped.is_set():
                put(stream.next_batch())
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=work, name="elmo-batches", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()
