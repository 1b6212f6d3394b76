"""A prepared corpus -> windows of packed rows, each with the position after it, so that resuming is exact.

Blocks are shuffled for each epoch and dealt to the rows of the global batch; a process reads its own rows only,
and what a row reads does not depend on the number of processes.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.corpus.prepared import MARK, PreparedCorpus
from elmo.text.batch import BEGIN_ROW, END_ROW, FIRST_WORD_ROW
from elmo.text.characters import Utf8Alphabet
from elmo.text.vocabulary import Vocabulary

BATCHES_AHEAD = 4

Ids = npt.NDArray[np.int64]
Part = TypeVar("Part", bound="LMBatch | Lesson | ContextTargets")


@dataclass(frozen=True)
class Position:
    """Where each row of this process stands: its block in the endless sequence, and the offset inside."""

    block: tuple[int, ...]
    offset: tuple[int, ...]


@dataclass(frozen=True)
class PieceBatch:
    """Sentences of similar length; `word` is -1 where a piece belongs to no word."""

    ids: Tensor  # (b, t)
    mask: Tensor  # (b, t): 1 at pieces
    word: Tensor  # (b, t): which of the words that have pieces


@dataclass(frozen=True)
class Pieces:
    """Some sentences, ready for a teacher's encoder."""

    batches: tuple[PieceBatch, ...]
    words: Tensor  # (N,): which of all words, counted through the sentences, have pieces; sorted


@dataclass(frozen=True)
class Lesson:
    """Whole sentences in rows, for a teacher and for us; pairs are left to right, then right to left."""

    word_index: Tensor  # (2, T, B): which distinct word of the batch is read; as drawn, ids of the corpus
    keep: Tensor  # (T, B): 0 where a sentence starts
    places: Tensor  # (2, N): where the taught words are read, in T·B
    pieces: Pieces  # the teacher's input
    num_words: int  # over all processes
    predicting: Tensor  # (2, M): where the language model predicts, in T·B; M = 0 if it does not learn here
    targets: Tensor  # (2, M): vocabulary ids to predict there
    num_predicted: int = 0  # over all processes
    vectors: Tensor | None = None  # (N, teacher's dimension), once the teacher has answered


@dataclass(frozen=True)
class Span:
    """What one row reads of one block in a window."""

    tokens: Ids  # (n,) of the whole block, left to right
    offset: int  # in the block
    size: int
    row: int
    step: int  # of the window, at the first token


@dataclass(frozen=True)
class ContextTargets:
    """What surrounds some words of a window."""

    places: Tensor  # (2, N): where each direction reads the word, in T·B
    vectors: Tensor  # (N, d), of length 1


@dataclass(frozen=True)
class LMBatch:
    """One window; pairs are left to right, then right to left."""

    char_ids: Tensor | None  # (U, C) of the distinct words, boundaries first
    word_ids: Tensor | None  # (U,)
    word_index: Tensor  # (2, T, B): which distinct word is read
    targets: Tensor  # (2, T, B): vocabulary id of the word to predict
    keep: Tensor  # (T, B): 0 where a sentence starts, which resets the state
    num_words: int  # positions read, boundaries included, counted once for both directions
    position: Position  # after this window
    lesson: Lesson | None = None  # beside the window; its words are among the distinct ones
    context: ContextTargets | None = None


def move(part: Part, device: torch.device) -> Part:
    """Return a batch, or a part of one, with its tensors on another device; the teacher's input stays."""
    moved: dict[str, Any] = {}
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, Tensor):
            moved[field.name] = value.to(device)
        elif isinstance(value, Lesson | ContextTargets):
            moved[field.name] = move(value, device)
    return replace(part, **moved)


class WindowStream:
    """Reads the windows of some rows of the global batch, one after the other, without end."""

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
        lessons: Iterator[Lesson | None] | None = None,
        find_context: Callable[[list[Span], int], ContextTargets] | None = None,
    ) -> None:
        """Open a stream of `rows`, this process's share of the `num_rows` of the global batch.

        `max_characters` is None for a model that reads whole words only. `lessons` has one item per window;
        `find_context` is called with what the rows read and their number.
        """
        self._corpus, self._blocks, self._lessons = corpus, corpus.blocks(), lessons
        self._num_rows, self._num_steps, self._seed = num_rows, num_steps, seed
        self._max_characters, self._read_words, self._reset = max_characters, read_words, reset_at_sentences
        self._find_context = find_context
        self._boundaries = Vocabulary(corpus.vocabulary).boundaries()
        start = position or Position(block=tuple(rows), offset=(0,) * len(rows))
        self._block, self._offset = list(start.block), list(start.offset)
        self._orders: dict[int, Ids] = {}
        self._loaded = [self._load(number) for number in self._block]

    def next_batch(self) -> LMBatch:
        """Read the next window of every row."""
        inputs = np.empty((2, len(self._block), self._num_steps), dtype=np.int64)
        following = np.empty_like(inputs)
        spans = []
        for row in range(len(self._block)):
            filled = 0
            while filled < self._num_steps:
                tokens = self._loaded[row]  # (2, n)
                offset = self._offset[row]
                size = min(self._num_steps - filled, tokens.shape[1] - offset)
                inputs[:, row, filled : filled + size] = tokens[:, offset : offset + size]
                after = tokens[:, offset + 1 : offset + 1 + size]
                following[:, row, filled : filled + size] = MARK  # a block is followed by the mark of the next
                following[:, row, filled : filled + after.shape[1]] = after
                spans.append(Span(tokens[0], offset, size, row, filled))
                filled += size
                self._offset[row] += size
                if self._offset[row] == tokens.shape[1]:
                    self._block[row] += self._num_rows
                    self._offset[row] = 0
                    self._loaded[row] = self._load(self._block[row])
        batch = self._assemble(inputs.transpose(0, 2, 1), following.transpose(0, 2, 1))
        if self._find_context is None:
            return batch
        return replace(batch, context=self._find_context(spans, len(self._block)))

    def _load(self, number: int) -> Ids:
        """Return the ids of a block in both directions, (2, n): each sentence reversed after its mark."""
        epoch, place = divmod(number, len(self._blocks))
        if epoch not in self._orders:
            self._orders = {epoch - 1: self._orders[epoch - 1]} if epoch - 1 in self._orders else {}
            self._orders[epoch] = np.random.default_rng([self._seed, epoch]).permutation(len(self._blocks))
        shard, start, stop = self._blocks[self._orders[epoch][place]]
        ahead = self._corpus.read_block(int(shard), int(start), int(stop)).astype(np.int64)
        marks = np.flatnonzero(ahead == MARK)
        ends = np.append(marks[1:], len(ahead))
        # Position p of the sentence at m with end e becomes m + e - p; the mark stays.
        mirrored = np.repeat(marks + ends, ends - marks) - np.arange(len(ahead))
        mirrored[marks] = marks
        return np.stack([ahead, ahead[mirrored]])

    def _assemble(self, inputs: Ids, following: Ids) -> LMBatch:
        lesson = None if self._lessons is None else next(self._lessons)
        read = [inputs] if lesson is None else [inputs, lesson.word_index.numpy()]
        distinct, which = np.unique(np.concatenate([ids.ravel() for ids in read]), return_inverse=True)
        if has_mark := distinct[0] == MARK:
            distinct = distinct[1:]
        which = which.ravel() + FIRST_WORD_ROW - int(has_mark)
        word_index, *taught = (
            _set_marks(part.reshape(ids.shape), ids, (BEGIN_ROW, END_ROW))
            for part, ids in zip(np.split(which, [inputs.size]), read, strict=False)
        )
        if lesson is not None:
            lesson = replace(lesson, word_index=torch.from_numpy(taught[0]))
        keep = (inputs[0] != MARK) if self._reset else np.ones(inputs.shape[1:], dtype=bool)
        char_ids = word_ids = None
        if self._max_characters is not None:
            words = self._corpus.character_ids(distinct, self._max_characters).astype(np.int64)
            boundaries = Utf8Alphabet(self._max_characters).boundaries()
            char_ids = torch.from_numpy(np.concatenate([boundaries, words]))
        if self._read_words:
            ids = self._corpus.targets[distinct].astype(np.int64)
            word_ids = torch.from_numpy(np.concatenate([self._boundaries, ids]))
        return LMBatch(
            char_ids=char_ids,
            word_ids=word_ids,
            word_index=torch.from_numpy(word_index),
            targets=torch.from_numpy(find_targets(self._corpus, following, self._boundaries)),
            keep=torch.from_numpy(keep).float(),
            num_words=int(inputs[0].size),
            position=Position(tuple(self._block), tuple(self._offset)),
            lesson=lesson,
        )


def find_targets(corpus: PreparedCorpus, following: Ids, boundaries: npt.ArrayLike) -> Ids:
    """Return the vocabulary ids of the words that follow, (2, ...); each direction ends at its own boundary."""
    begin, end = np.asarray(boundaries)
    return _set_marks(corpus.targets[following].astype(np.int64), following, (end, begin))


def _set_marks(values: Ids, ids: Ids, boundaries: tuple[int, int]) -> Ids:
    """Write the boundary of each direction where its id is the mark of a sentence."""
    for direction, boundary in enumerate(boundaries):
        values[direction][ids[direction] == MARK] = boundary
    return values


def read_ahead(stream: WindowStream) -> Generator[LMBatch, None, None]:
    """Yield the batches of a stream, read a few ahead in a thread; an error there is raised here."""
    with ThreadPoolExecutor(1, thread_name_prefix="elmo-batches") as pool:
        ready = deque(pool.submit(stream.next_batch) for _ in range(BATCHES_AHEAD))
        try:
            while True:
                yield ready.popleft().result()
                ready.append(pool.submit(stream.next_batch))
        finally:
            for batch in ready:
                batch.cancel()
