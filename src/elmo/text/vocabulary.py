"""The vocabulary: words and their ids, which index the rows of the word embedding and of the softmax.

Ids follow the order of vocabulary.txt. This module also reads word vectors from text files (GloVe, word2vec).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.files.sources import describe_file, open_stream, report_damage

RANK_SHIFT = 2.7  # the offset in the Zipf-Mandelbrot law, for English
_SMOOTHING = 0.5  # added to every count, so that words unseen in training have a nonzero frequency


class Vocabulary:
    """An ordered list of words, including the special words (begin, end and unknown)."""

    def __init__(
        self,
        words: Iterable[str],
        *,
        begin: str = "<S>",
        end: str = "</S>",
        unknown: str = "<UNK>",
        counts: Sequence[int] | None = None,
    ) -> None:
        """`counts`: the number of occurrences of each word in the training text, if known."""
        self.words = tuple(words)
        self._counts = counts
        self.begin, self.end, self.unknown = begin, end, unknown
        self._ids = {word: number for number, word in enumerate(self.words)}
        self._id_cache: dict[str, npt.NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def log_frequencies(self) -> npt.NDArray[np.float64]:
        """Return the log of each word's relative frequency in the training text, shape (V,).

        Without counts, frequencies are estimated from the rank (Zipf-Mandelbrot), because vocabularies of language
        models are sorted by frequency.
        """
        if self._counts is not None:
            counts = np.asarray(self._counts, dtype=np.float64) + _SMOOTHING
        else:
            special = {self.begin, self.end, self.unknown}
            ranks = np.cumsum([word not in special for word in self.words])
            counts = 1.0 / (ranks + RANK_SHIFT)
        frequencies: npt.NDArray[np.float64] = np.log(counts / counts.sum())
        return frequencies

    @property
    def punctuation_ids(self) -> npt.NDArray[np.int64]:
        """Return the ids of words without a letter or digit."""
        return self._find_ids("punctuation", is_punctuation)

    @property
    def clitic_ids(self) -> npt.NDArray[np.int64]:
        """Return the ids of words that attach to the word before them, such as 's."""
        return self._find_ids("clitics", is_clitic)

    @property
    def special_ids(self) -> npt.NDArray[np.int64]:
        """Return the ids of those of the begin, end and unknown words that are in the list."""
        special = (self.begin, self.end, self.unknown)
        return np.array([self._ids[word] for word in special if word in self._ids], dtype=np.int64)

    def _find_ids(self, name: str, matches: Callable[[str], bool]) -> npt.NDArray[np.int64]:
        # Not a cached_property: before Python 3.12 its lock can be held by another thread when a process forks.
        ids = self._id_cache.get(name)
        if ids is None:
            ids = np.array([number for number, word in enumerate(self.words) if matches(word)], dtype=np.int64)
            self._id_cache[name] = ids
        return ids

    def missing_special_words(self) -> list[str]:
        """Return those of the begin, end and unknown words that are not in the list."""
        return [word for word in (self.begin, self.end, self.unknown) if word not in self._ids]

    def boundaries(self) -> npt.NDArray[np.int64]:
        """Return the ids of the beginning and the end of a sentence, shape (2,)."""
        return np.array([self._ids[self.begin], self._ids[self.end]], dtype=np.int64)

    def encode(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the id of each word, shape (U,); unlisted words and literal boundary tokens map to the unknown id."""
        unknown = self._ids[self.unknown]
        boundaries = (self.begin, self.end)
        return np.array(
            [unknown if word in boundaries else self._ids.get(word, unknown) for word in words],
            dtype=np.int64,
        )


def is_punctuation(word: str) -> bool:
    """Return whether a word has no letter or digit of any script, such as . and --."""
    return not (word.isalnum() or any(map(str.isalnum, word)))


def is_clitic(word: str) -> bool:
    """Return whether a word begins with an apostrophe, as 's and 't do after tokenizing."""
    return word[:1] in ("'", "’") and not is_punctuation(word)


def parse_lines(content: bytes) -> list[str]:
    """Read one entry per line; only a line feed ends a line, because words may contain other line separators."""
    lines = content.decode("utf-8").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def format_lines(entries: Iterable[str]) -> bytes:
    """Return one entry per line, in the form that parse_lines reads."""
    return "".join(f"{entry}\n" for entry in entries).encode("utf-8")


@contextmanager
def open_word_vectors(path: Path) -> Iterator[BinaryIO]:
    """Open a text file of word vectors in binary mode, decompressed if its name ends in .gz, .xz, .bz2 or .zst."""
    source = describe_file(str(path), "txt")
    try:
        with open_stream(source) as (stream, _), report_damage(source):
            yield stream
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}.") from error


def read_word_vectors(path: Path, words: Collection[str], dim: int | None = None) -> dict[str, npt.NDArray[np.float32]]:
    """Return the vectors of those `words` that the file contains; all vectors have `dim` dimensions.

    If `dim` is None, it is inferred from the first line. The header line of word2vec files is skipped. Words may
    contain spaces, as in some GloVe files.
    """
    wanted = frozenset(words)
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    with open_word_vectors(path) as file:
        for line_number, line in enumerate(file, start=1):
            pieces = line.rstrip().split(b" ")
            is_header = line_number == 1 and len(pieces) == 2 and all(piece.isdigit() for piece in pieces)
            if dim is None:
                dim = max(1, int(pieces[1]) if is_header else len(pieces) - 1)
            if is_header:
                continue
            if len(pieces) <= dim:
                raise InputError(
                    f"{path}, line {line_number} has {len(pieces) - 1} values, but {dim} were expected; use vectors of "
                    "that dimension, or change the dimension of the word embedding."
                )
            word = b" ".join(pieces[:-dim]).decode("utf-8", "replace")
            if word in wanted:
                vectors[word] = _read_numbers(pieces[-dim:], path, line_number)
    if not vectors:
        raise InputError(
            f"{path} has no {dim or 1}-dimensional vector for any word in the vocabulary; is it a word vector file?"
        )
    return vectors


def _read_numbers(pieces: list[bytes], path: Path, line_number: int) -> npt.NDArray[np.float32]:
    try:
        vector = np.array(pieces, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path}, line {line_number} is not a word followed by numbers: {error}.") from error
    if not np.isfinite(vector).all():
        raise InputError(f"{path}, line {line_number} contains NaN or infinite values.")
    return vector
