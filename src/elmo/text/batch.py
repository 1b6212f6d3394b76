"""Sentences of words -> batches, in which each distinct token occurs once. Ids are looked up on demand.

Shape letters, here and everywhere: B sentences, T positions (boundaries included), U distinct tokens,
C characters, L layers, D dimensions per direction. Masks are True at real positions.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.text.characters import Alphabet
from elmo.text.units import Tokenization
from elmo.text.vocabulary import Vocabulary

Words = Sequence[str]
Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# The first two rows of the distinct tokens are the boundaries, in every batch.
BEGIN_ROW, END_ROW, FIRST_WORD_ROW = 0, 1, 2
# The key of a distinct token: its spelling, the row of a boundary, or the bytes of ids without a spelling.
Key: TypeAlias = str | int | bytes


class TokenIds(NamedTuple):
    """The network's input for U tokens: character ids (U, C), word ids (U,), or both."""

    characters: Ids | None
    words: Ids | None


@dataclass(frozen=True)
class WordGroups:
    """The grouping of consecutive tokens into the caller's words; a boundary is a word of one token."""

    num_tokens: Ids  # (N,) tokens per word, sentence by sentence
    lengths: Ids  # (B,) words per sentence

    def average(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the mean of each word's rows: (tokens, ...) -> (N, ...)."""
        starts = np.cumsum(self.num_tokens) - self.num_tokens
        sums: npt.NDArray[np.float32] = np.add.reduceat(rows, starts, axis=0)
        sums /= self.num_tokens.astype(np.float32).reshape(-1, *[1] * (rows.ndim - 1))
        return sums


@dataclass(frozen=True)
class CharBatch:
    """A batch of sentences, ready for a network. Each position is a token, which is usually a word."""

    keys: Sequence[Key]  # of the U distinct tokens; the first two are the boundaries
    look_up: Callable[[Sequence[Key]], TokenIds]  # keys -> their ids
    word_index: Ids  # (B, T): the distinct token at each position; undefined at padding
    lengths: Ids  # (B,), boundaries included
    order: tuple[int, ...]  # row b is sentence order[b] of the call
    groups: WordGroups | None = None  # None: each word is one token

    @property
    def mask(self) -> Mask:
        """Return the mask, shape (B, T), True at tokens and boundaries."""
        return make_mask(self.lengths, self.word_index.shape[1])

    @property
    def word_lengths(self) -> Ids:
        """Return the number of the caller's words in each row, (B,), boundaries included."""
        return self.lengths if self.groups is None else self.groups.lengths

    @property
    def word_mask(self) -> Mask:
        """Return the mask of the caller's words, shape (B, T), boundaries included."""
        return self.mask if self.groups is None else make_mask(self.groups.lengths)


def make_mask(lengths: Ids, num_steps: int | None = None) -> Mask:
    """Return (B, T), True in the first `lengths` (B,) positions of each row."""
    return np.arange(int(lengths.max()) if num_steps is None else num_steps) < lengths[:, None]


class Indexer:
    """Converts words into the input ids of a model: character ids, word ids, or both."""

    def __init__(
        self,
        alphabet: Alphabet | None,
        vocabulary: Vocabulary | None,
        *,
        max_word_length: int | None = None,
        literal_boundaries: tuple[str, str] | None = None,
        tokenization: Tokenization | None = None,
    ) -> None:
        """`literal_boundaries`: the words that are read as sentence boundaries wherever they occur in the text."""
        self.tokenization = tokenization or Tokenization()
        self.alphabet = alphabet
        self.vocabulary = vocabulary
        self.max_word_length = max_word_length
        self._fixed_rows = dict(zip(literal_boundaries or (), (BEGIN_ROW, END_ROW), strict=False))

    def batch(self, sentences: Sequence[Words], order: Sequence[int] | None = None) -> CharBatch:
        """Build one batch of all the sentences, in the order given; `order` is kept for unpacking."""
        rows: dict[str, int] = dict(self._fixed_rows)
        keys: list[Key] = [BEGIN_ROW, END_ROW]
        indices: list[int] = []
        tokenized = [self.tokenization.split_words(words, whole=self._fixed_rows) for words in sentences]
        for sentence in tokenized:
            indices.append(BEGIN_ROW)
            for token in sentence.tokens:
                row = rows.get(token)
                if row is None:
                    row = rows[token] = len(keys)
                    keys.append(token)
                indices.append(row)
            indices.append(END_ROW)
        lengths = np.array([len(sentence.tokens) + 2 for sentence in tokenized], dtype=np.int64)
        word_index = np.zeros((len(sentences), lengths.max()), dtype=np.int64)
        word_index[make_mask(lengths)] = indices
        groups = None
        if any(sentence.num_tokens is not None for sentence in tokenized):
            counts = [[1, *(sentence.num_tokens or [1] * len(sentence.tokens)), 1] for sentence in tokenized]
            groups = WordGroups(np.concatenate(counts), np.array([len(row) for row in counts]))
        return CharBatch(keys, self.look_up, word_index, lengths, tuple(order or range(len(sentences))), groups)

    def look_up(self, keys: Sequence[Key]) -> TokenIds:
        """Return the ids of tokens: spellings, and BEGIN_ROW and END_ROW for the boundaries."""
        words = [key for key in keys if isinstance(key, str)]
        character_ids = word_ids = None
        if self.alphabet is not None:
            character_ids = _merge_boundaries(keys, self.alphabet.boundaries(), self.alphabet.encode(words))
        if self.vocabulary is not None:
            truncated = [word[: self.max_word_length] for word in words]
            word_ids = _merge_boundaries(keys, self.vocabulary.boundaries(), self.vocabulary.encode(truncated))
        return TokenIds(character_ids, word_ids)


def _merge_boundaries(keys: Sequence[Key], boundaries: Ids, encoded: Ids) -> Ids:
    """Return the ids of `keys` in order: rows of `boundaries` for boundaries, and of `encoded` for words."""
    is_boundary = np.array([not isinstance(key, str) for key in keys], dtype=bool)
    ids = np.empty((len(keys), *encoded.shape[1:]), dtype=np.int64)
    ids[is_boundary] = boundaries[[key for key in keys if isinstance(key, int)]]
    ids[~is_boundary] = encoded
    return ids


def pack(
    sentences: Sequence[Words], indexer: Indexer, *, token_budget: int, sentence_budget: int = sys.maxsize
) -> Iterator[CharBatch]:
    """Yield batches of sentences of similar length, longest first.

    A batch holds at most `sentence_budget` sentences and `token_budget` positions, padding included, but always
    at least one sentence.
    """
    lengths = list(map(indexer.tokenization.count, sentences))
    by_length = sorted(range(len(sentences)), key=lambda number: -lengths[number])
    start = 0
    while start < len(by_length):
        longest = lengths[by_length[start]] + 2
        num_sentences = min(sentence_budget, max(1, token_budget // longest))
        order = by_length[start : start + num_sentences]
        yield indexer.batch([sentences[number] for number in order], order)
        start += len(order)
