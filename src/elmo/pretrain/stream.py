"""A prepared corpus -> windows of packed rows, each with the position after it, so that resuming is exact.

Blocks are shuffled for each epoch and distributed over the rows of the global batch. A process only reads its own
rows, and the text of a row does not depend on the number of processes.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.config import ModelConfig
from elmo.corpus.prepared import BOS_ID, PreparedCorpus
from elmo.text.batch import BEGIN_ROW, END_ROW, FIRST_WORD_ROW
from elmo.text.characters import Utf8Alphabet
from elmo.text.vocabulary import Vocabulary

BATCHES_AHEAD = 4

Ids = npt.NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True)
class Position:
    """For each row of this process: its block, counted over all epochs, and the offset in that block."""

    block: tuple[int, ...]
    offset: tuple[int, ...]


@dataclass(frozen=True)
class LMBatch:
    """A window of packed rows; axes of size 2 are left to right, then right to left."""

    char_ids: Tensor | None  # (U, C) of the distinct words, boundaries first
    word_ids: Tensor | None  # (U,)
    word_index: Tensor  # (2, T, B): index of the distinct word
    targets: Tensor  # (2, T, B): vocabulary id of the word to predict
    keep: Tensor  # (T, B): 0 where a sentence starts, which resets the state
    position: Position  # after this window

    @property
    def num_words(self) -> int:
        """The number of inputs, including boundaries, counted once for both directions."""
        return self.word_index[0].numel()


def to_device(batch: T, device: torch.device) -> T:
    """Return a dataclass, such as a batch, with its tensors on another device."""
    moved: dict[str, Any] = {}
    for field in fields(batch):  # type: ignore[arg-type]
        value = getattr(batch, field.name)
        if isinstance(value, Tensor):
            moved[field.name] = value.to(device)
        elif is_dataclass(value):
            moved[field.name] = to_device(value, device)
    return replace(batch, **moved)  # type: ignore[type-var]


class TokenReader:
    """Converts the word ids of a corpus into the inputs and targets of a model."""

    def __init__(self, corpus: PreparedCorpus, config: ModelConfig) -> None:
        self.corpus = corpus
        self._max_characters = config.characters.max_characters if config.characters else None
        self._reads_words = config.words is not None
        self._boundaries = Vocabulary(corpus.vocabulary).boundaries()  # their vocabulary ids

    def index_distinct(self, ids: Ids) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the index of the distinct word for each id (2, ...), and the distinct words' character and word ids.

        The first two distinct words are the boundaries: each direction has its own at the start of a sentence.
        """
        distinct, numbers = np.unique(ids, return_inverse=True)
        if has_bos := distinct[0] == BOS_ID:
            distinct = distinct[1:]
        word_index = numbers.reshape(ids.shape) + FIRST_WORD_ROW - int(has_bos)
        _set_boundaries(word_index, ids, (BEGIN_ROW, END_ROW))
        char_ids = word_ids = None
        if self._max_characters is not None:
            characters = self.corpus.character_ids(distinct, self._max_characters).astype(np.int64)
            boundaries = Utf8Alphabet(self._max_characters).boundaries()
            char_ids = torch.from_numpy(np.concatenate([boundaries, characters]))
        if self._reads_words:
            words = self.corpus.targets[distinct].astype(np.int64)
            word_ids = torch.from_numpy(np.concatenate([self._boundaries, words]))
        return torch.from_numpy(word_index), char_ids, word_ids

    def find_targets(self, following: Ids) -> Tensor:
        """Return the vocabulary ids of the following words, (2, ...), with the end boundary of each direction."""
        targets = self.corpus.targets[following].astype(np.int64)
        _set_boundaries(targets, following, self._boundaries[::-1])
        return torch.from_numpy(targets)


def _set_boundaries(values: Ids, ids: Ids, boundaries: Iterable[int]) -> None:
    """Write the boundary of each direction where its id is BOS."""
    for direction, boundary in enumerate(boundaries):
        values[direction][ids[direction] == BOS_ID] = boundary


def read_windows(
    tokens: TokenReader, *, num_rows: int, num_steps: int, seed: int, reset_at_sentences: bool, position: Position
) -> Iterator[LMBatch]:
    """Yield the windows of the rows of `position`, without end; `num_rows` is the size of the global batch."""
    reader = BlockReader(tokens.corpus, seed)
    blocks, offsets = list(position.block), list(position.offset)
    loaded = [reader.load(block) for block in blocks]  # (2, n) each
    while True:
        inputs = np.empty((2, len(blocks), num_steps), dtype=np.int64)
        following = np.empty_like(inputs)
        for row in range(len(blocks)):
            filled = 0
            while filled < num_steps:
                ids, offset = loaded[row], offsets[row]
                size = min(num_steps - filled, ids.shape[1] - offset)
                inputs[:, row, filled : filled + size] = ids[:, offset : offset + size]
                after = ids[:, offset + 1 : offset + 1 + size]
                following[:, row, filled : filled + size] = BOS_ID  # a block is followed by the BOS of the next
                following[:, row, filled : filled + after.shape[1]] = after
                filled += size
                offsets[row] += size
                if offsets[row] == ids.shape[1]:
                    blocks[row] += num_rows
                    offsets[row] = 0
                    loaded[row] = reader.load(blocks[row])
        inputs, following = inputs.transpose(0, 2, 1), following.transpose(0, 2, 1)
        word_index, char_ids, word_ids = tokens.index_distinct(inputs)
        keep = (inputs[0] != BOS_ID) if reset_at_sentences else np.ones(inputs.shape[1:], dtype=bool)
        yield LMBatch(
            char_ids=char_ids,
            word_ids=word_ids,
            word_index=word_index,
            targets=tokens.find_targets(following),
            keep=torch.from_numpy(keep).float(),
            position=Position(tuple(blocks), tuple(offsets)),
        )


class BlockReader:
    """Reads the blocks of a corpus, in a new order for each epoch."""

    def __init__(self, corpus: PreparedCorpus, seed: int) -> None:
        self._corpus, self._blocks, self._seed = corpus, corpus.blocks(), seed
        self._find_order = lru_cache(maxsize=2)(self._shuffle)  # rows may be in two epochs

    def _shuffle(self, epoch: int) -> Ids:
        return np.random.default_rng([self._seed, epoch]).permutation(len(self._blocks))

    def load(self, position: int) -> Ids:
        """Return the ids (2, n) of a block: left to right, and right to left (each sentence reversed after its BOS).

        `position` counts blocks over all epochs.
        """
        epoch, index = divmod(position, len(self._blocks))
        shard, start, stop = self._blocks[self._find_order(epoch)[index]]
        ids = self._corpus.read_block(int(shard), int(start), int(stop)).astype(np.int64)
        starts = np.flatnonzero(ids == BOS_ID)
        ends = np.append(starts[1:], len(ids))
        # Position p of the sentence from s to e becomes s + e - p; BOS stays.
        mirrored = np.repeat(starts + ends, ends - starts) - np.arange(len(ids))
        mirrored[starts] = starts
        return np.stack([ids, ids[mirrored]])


def read_ahead(batches: Iterator[T]) -> Generator[T, None, None]:
    """Yield the items of an iterator that a thread advances a few items ahead; its errors are raised here."""
    with ThreadPoolExecutor(1, thread_name_prefix="elmo-batches") as pool:
        pending = deque(pool.submit(next, batches) for _ in range(BATCHES_AHEAD))
        try:
            while True:
                yield pending.popleft().result()
                pending.append(pool.submit(next, batches))
        finally:
            for batch in pending:
                batch.cancel()
