"""Words -> a fixed number of character ids per word. The special ids of all published models are defined here.

The ids are an integer array with one row per word. Sentence boundaries are separate rows that only `boundaries`
returns, so that no input text can produce them.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class Utf8Alphabet:
    """The official models' alphabet: UTF-8 bytes between begin and end ids, all shifted by one; 0 is a padded word."""

    SHIFT = 1
    BEGIN_SENTENCE = 256 + SHIFT
    END_SENTENCE = 257 + SHIFT
    BEGIN_WORD = 258 + SHIFT
    END_WORD = 259 + SHIFT
    PADDING = 260 + SHIFT  # after the end of the word; it has a learned embedding
    NUM_IDS = 262

    def __init__(self, max_characters: int = 50) -> None:
        self.max_characters = max_characters

    def encode(self, words: Sequence[str]) -> Ids:
        """Return the ids of each word: begin, at most max_characters - 2 bytes, end, padding."""
        # A cut may split a code point, as in the originals; lone surrogates have no bytes.
        contents = [word.encode("utf-8", "ignore")[: self.max_characters - 2] for word in words]
        lengths = np.array(list(map(len, contents)), dtype=np.int64)
        ids = np.full((len(words), self.max_characters), self.PADDING, dtype=np.int64)
        ids[:, 0] = self.BEGIN_WORD
        inside = np.arange(self.max_characters - 1) < lengths[:, None]
        ids[:, 1:][inside] = np.frombuffer(b"".join(contents), dtype=np.uint8).astype(np.int64) + self.SHIFT
        ids[np.arange(len(words)), lengths + 1] = self.END_WORD
        return ids

    def boundaries(self) -> Ids:
        """Return the ids of the beginning and the end of a sentence: words of one special character."""
        ids = np.full((2, self.max_characters), self.PADDING, dtype=np.int64)
        ids[:, 0] = self.BEGIN_WORD
        ids[:, 1] = (self.BEGIN_SENTENCE, self.END_SENTENCE)
        ids[:, 2] = self.END_WORD
        return ids


class DictionaryAlphabet:
    """A listed alphabet of Unicode code points, as ELMoForManyLangs models have."""

    BEGIN_SENTENCE, END_SENTENCE = "<bos>", "<eos>"
    BEGIN_WORD, END_WORD = "<bow>", "<eow>"
    UNKNOWN, PADDING = "<oov>", "<pad>"
    SPECIAL = (BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, UNKNOWN, PADDING)

    def __init__(self, characters: Sequence[str], max_characters: int = 50) -> None:
        self.characters = tuple(characters)
        self.max_characters = max_characters
        self._ids = {character: number for number, character in enumerate(self.characters)}

    def encode(self, words: Sequence[str]) -> Ids:
        """Return the ids of each word: begin, at most max_characters - 2 code points, end, padding."""
        get_id, unknown = self._ids.get, self._ids[self.UNKNOWN]
        rows = [[get_id(character, unknown) for character in word[: self.max_characters - 2]] for word in words]
        return self._wrap(rows)

    def boundaries(self) -> Ids:
        """Return the ids of the beginning and the end of a sentence: words of one special character."""
        return self._wrap([[self._ids[self.BEGIN_SENTENCE]], [self._ids[self.END_SENTENCE]]])

    def _wrap(self, rows: list[list[int]]) -> Ids:
        ids = np.full((len(rows), self.max_characters), self._ids[self.PADDING], dtype=np.int64)
        for row, content in zip(ids, rows, strict=True):
            row[: len(content) + 2] = [self._ids[self.BEGIN_WORD], *content, self._ids[self.END_WORD]]
        return ids


Alphabet: TypeAlias = Utf8Alphabet | DictionaryAlphabet
