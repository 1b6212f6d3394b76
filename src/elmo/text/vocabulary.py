"""Words and their ids, which are the rows of a word embedding and of the softmax, in vocabulary.txt's order.

Text files of word vectors (GloVe, word2vec) are read here too: one word and its numbers per line.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.files.sources import damage_reported, describe_file, open_stream

RANK_SHIFT = 2.7  # in Mandelbrot's law, for English
_SMOOTHING = 0.5  # the count of a listed word that the text does not contain


class Vocabulary:
    """An ordered list of words that includes the special ones."""

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
        self._matching: dict[str, npt.NDArray[np.int64]] = {}

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
        return self._find("punctuation", is_punctuation)

    @property
    def clitic_ids(self) -> npt.NDArray[np.int64]:
        """Return the ids of words that attach to the word before them, such as 's."""
        return self._find("clitics", is_clitic)

    @property
    def special_ids(self) -> npt.NDArray[np.int64]:
        """Return the ids of the begin, end and unknown words, as far as they are listed."""
        special = (self.begin, self.end, self.unknown)
        return np.array([self._ids[word] for word in special if word in self._ids], dtype=np.int64)

    def _find(self, name: str, matches: Callable[[str], bool]) -> npt.NDArray[np.int64]:
        # Not a cached_property: before Python 3.12 its lock can be held by another thread when a process forks.
        ids = self._matching.get(name)
        if ids is None:
            ids = np.array([number for number, word in enumerate(self.words) if matches(word)], dtype=np.int64)
            self._matching[name] = ids
        return ids

    def missing_special_words(self) -> list[str]:
        """Return those of the begin, end and unknown words that are not in the list."""
        return [word for word in (self.begin, self.end, self.unknown) if word not in self._ids]

    def boundaries(self) -> npt.NDArray[np.int64]:
        """Return the ids of the beginning and the end of a sentence, shape (2,)."""
        return np.array([self._ids[self.begin], self._ids[self.end]], dtype=np.int64)

    def encode(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the id of each word, shape (U,); unlisted words and spelled-out boundaries are unknown."""
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
    """Read one entry per line; only a line feed ends a line, because other separators occur as words."""
    lines = content.decode("utf-8").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def format_lines(entries: Iterable[str]) -> bytes:
    """Return one entry per line, in the form that parse_lines reads."""
    return "".join(f"{entry}\n" for entry in entries).encode("utf-8")


@contextmanager
def open_word_vectors(path: Path) -> Iterator[BinaryIO]:
    """Yield the bytes of a text file of word vectors, unpacked if its name ends in .gz, .xz, .bz2 or .zst."""
    source = describe_file(str(path), "txt")
    try:
        with open_stream(source) as (stream, _), damage_reported(source):
            yield stream
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}.") from error


def read_word_vectors(path: Path, words: Collection[str], dim: int | None = None) -> dict[str, npt.NDArray[np.float32]]:
    """Return the vectors of those `words` that the file contains; all vectors have `dim` numbers.

    Without `dim` the first line decides. word2vec's first line, with two counts, is skipped. Words may contain
    spaces, as some of GloVe's do.
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
                    f"{path}, line {line_number} has {len(pieces) - 1} numbers, but {dim} were expected; give vectors "
                    "of that length, or change the word embedding's."
                )
            word = b" ".join(pieces[:-dim]).decode("utf-8", "replace")
            if word in wanted:
                vectors[word] = _read_numbers(pieces[-dim:], path, line_number)
    if not vectors:
        raise InputError(
            f"{path} has no vector of {dim or 1} numbers for any word of the vocabulary; is it a file of word vectors?"
        )
    return vectors


def _read_numbers(pieces: list[bytes], path: Path, line_number: int) -> npt.NDArray[np.float32]:
    try:
        vector = np.array(pieces, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path}, line {line_number} is not a word and its numbers: {error}.") from error
    if not np.isfinite(vector).all():
        raise InputError(f"{path}, line {line_number} has numbers that are not finite.")
    return vector
