"""Sentences of words -> batches of ids, in which each distinct word occurs once.

Shape letters, here and everywhere: B sentences, T positions (boundaries included), U distinct words,
C characters, L layers, D dimensions per direction. Masks are True at real positions.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from elmo.errors import InputError
from elmo.text.characters import Alphabet
from elmo.text.units import Tokenization, UnitSentence, default_tokenization
from elmo.text.vocabulary import Vocabulary

Words = Sequence[str]

# The first two rows of the distinct words are the boundaries, in every batch.
BEGIN_ROW, END_ROW, FIRST_WORD_ROW = 0, 1, 2


@dataclass(frozen=True)
class WordGroups:
    """Which consecutive units of a batch are one word of the caller; boundaries are words of one unit."""

    num_units: Tensor  # (N,) of each word, sentence by sentence
    lengths: Tensor  # (B,) words per sentence

    @property
    def mask(self) -> Tensor:
        """Return the mask of words, shape (B, T), on the CPU."""
        return torch.arange(int(self.lengths.max())) < self.lengths[:, None]

    def average(self, rows: Tensor) -> Tensor:
        """Return the mean of each word's rows: (units, ...) -> (N, ...)."""
        counts = self.num_units.to(rows.device)
        places = torch.repeat_interleave(torch.arange(len(counts), device=rows.device), counts)
        sums = rows.new_zeros(len(counts), *rows.shape[1:]).index_add(0, places, rows)
        return sums / counts.view(-1, *[1] * (rows.ndim - 1)).to(rows.dtype)


@dataclass(frozen=True)
class CharBatch:
    """The ids of some sentences, ready for a network. Positions are units, which mostly are words."""

    char_ids: Tensor | None  # (U, C), None for a model that reads whole words only
    word_ids: Tensor | None  # (U,), None for a model that reads characters only
    word_index: Tensor  # (B, T): the distinct unit at each position; undefined where padded
    lengths: Tensor  # (B,), boundaries included; on the CPU
    order: tuple[int, ...]  # row b is sentence order[b] of the call
    groups: WordGroups | None = None  # None: each word is one unit

    @property
    def mask(self) -> Tensor:
        """Return the mask, shape (B, T), True at units and boundaries."""
        positions = torch.arange(self.word_index.shape[1], device=self.word_index.device)
        return positions < self.lengths.to(self.word_index.device)[:, None]

    def to(self, device: torch.device | str) -> "CharBatch":
        """Return the same batch on another device."""
        return replace(
            self,
            char_ids=None if self.char_ids is None else self.char_ids.to(device),
            word_ids=None if self.word_ids is None else self.word_ids.to(device),
            word_index=self.word_index.to(device),
        )


class Indexer:
    """Converts words into the ids that one model reads: of characters, of whole words, or both."""

    def __init__(
        self,
        alphabet: Alphabet | None,
        vocabulary: Vocabulary | None,
        *,
        max_word_length: int | None = None,
        literal_boundaries: tuple[str, str] | None = None,
        tokenization: Tokenization | None = None,
    ) -> None:
        """`literal_boundaries`: two words that mean the boundaries wherever they occur in the text."""
        self.tokenization = tokenization or default_tokenization()
        self.alphabet = alphabet
        self.vocabulary = vocabulary
        self.max_word_length = max_word_length
        self._boundaries = None if alphabet is None else alphabet.boundaries()
        self._fixed_rows = (
            {literal_boundaries[0]: BEGIN_ROW, literal_boundaries[1]: END_ROW} if literal_boundaries else {}
        )

    def batch(self, sentences: Sequence[Words], order: Sequence[int] | None = None) -> CharBatch:
        """Build one batch of all the sentences, in the order given; `order` is kept for unpacking."""
        rows = dict(self._fixed_rows)
        new_words: list[str] = []
        indices: list[int] = []
        read = [self.tokenization.read(words, whole=self._fixed_rows) for words in sentences]
        for sentence in read:
            indices.append(BEGIN_ROW)
            for word in sentence.units:
                row = rows.get(word)
                if row is None:
                    row = rows[word] = FIRST_WORD_ROW + len(new_words)
                    new_words.append(word)
                indices.append(row)
            indices.append(END_ROW)
        lengths = np.array([len(sentence.units) + 2 for sentence in read], dtype=np.int64)
        if len(sentences) == 1:
            word_index = np.array([indices], dtype=np.int64)
        else:
            word_index = np.zeros((len(sentences), lengths.max()), dtype=np.int64)
            word_index[np.arange(word_index.shape[1]) < lengths[:, None]] = indices
        return CharBatch(
            char_ids=self._char_ids(new_words),
            word_ids=self._word_ids(new_words),
            word_index=torch.from_numpy(word_index),
            lengths=torch.from_numpy(lengths),
            order=tuple(range(len(sentences)) if order is None else order),
            groups=_group(read),
        )

    def _char_ids(self, words: list[str]) -> Tensor | None:
        if self.alphabet is None or self._boundaries is None:
            return None
        return torch.from_numpy(np.concatenate([self._boundaries, self.alphabet.encode(words)]))

    def _word_ids(self, words: list[str]) -> Tensor | None:
        if self.vocabulary is None:
            return None
        cut = [word[: self.max_word_length] for word in words]
        parts = (self.vocabulary.boundaries(), self.vocabulary.encode(cut))
        return torch.cat([torch.from_numpy(part) for part in parts])


def _group(sentences: Sequence[UnitSentence]) -> WordGroups | None:
    if all(sentence.num_units is None for sentence in sentences):
        return None
    counts = [sentence.num_units or [1] * len(sentence.units) for sentence in sentences]
    num_units = [number for row in counts for number in (1, *row, 1)]
    return WordGroups(torch.tensor(num_units), torch.tensor([len(row) + 2 for row in counts]))


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


@dataclass(frozen=True)
class Boundaries:
    """The ids of the begin and the end of a sentence: of characters (2, C), of words (2,), or both."""

    characters: Tensor | None
    words: Tensor | None

    @classmethod
    def of(cls, indexer: Indexer) -> "Boundaries":
        """Return those of what turns words into ids."""
        alphabet, vocabulary = indexer.alphabet, indexer.vocabulary
        return cls(
            None if alphabet is None else torch.from_numpy(alphabet.boundaries()),
            None if vocabulary is None else torch.from_numpy(vocabulary.boundaries()),
        )


def pad_sentences(indexer: Indexer, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
    """Return `input_ids` and `attention_mask` (B, T), words only, zero where padded.

    `input_ids` are characters (B, T, C), or words (B, T) for a model that reads words only; a model that reads
    both has its words in `word_input_ids`.
    """
    batch = indexer.batch(sentences)
    mask = batch.mask[:, 2:]
    places = batch.word_index[:, 1:-1]
    words = None if batch.word_ids is None else batch.word_ids[places] * mask
    tensors = {"attention_mask": mask.long()}
    if batch.char_ids is None:
        assert words is not None
        return {"input_ids": words, **tensors}
    tensors = {"input_ids": batch.char_ids[places] * mask[..., None], **tensors}
    return tensors if words is None else {**tensors, "word_input_ids": words}


def unpad_sentences(
    boundaries: Boundaries, input_ids: Tensor, attention_mask: Tensor, word_input_ids: Tensor | None = None
) -> CharBatch:
    """Return the batch of padded sentences, each distinct word once; the inverse of pad_sentences."""
    mask = attention_mask.bool()
    num_sentences, num_steps = mask.shape
    lengths = mask.sum(dim=1)
    if not torch.equal(mask, torch.arange(num_steps, device=mask.device) < lengths[:, None]):
        raise InputError("attention_mask has a 0 before a 1; pad sentences on the right, as the tokenizer does.")
    given = [ids[mask] for ids in (input_ids, word_input_ids) if ids is not None]
    rows = torch.cat([ids if ids.ndim == 2 else ids[:, None] for ids in given], dim=1)
    places = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
    if len(rows):
        rows, places = torch.unique(rows, dim=0, return_inverse=True)
    word_index = torch.full((num_sentences, num_steps + 2), BEGIN_ROW, device=mask.device)
    word_index[:, 1:-1][mask] = places + FIRST_WORD_ROW
    word_index.scatter_(1, lengths[:, None] + 1, END_ROW)
    char_ids, word_ids = None, None
    if boundaries.characters is not None:
        num_characters = boundaries.characters.shape[1]
        char_ids = torch.cat([boundaries.characters.to(rows.device), rows[:, :num_characters]])
    if boundaries.words is not None:
        word_ids = torch.cat([boundaries.words.to(rows.device), rows[:, -1]])
    return CharBatch(char_ids, word_ids, word_index, lengths.cpu() + 2, tuple(range(num_sentences)))
