"""The vocabulary: words and their ids, which index the rows of the word embedding and of the softmax."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
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
        self._matching_ids: dict[Callable[[str], bool], Ids] = {}

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
    def special_ids(self) -> Ids:
        """Return the ids of the special words (begin, end, unknown) that are in the list."""
        special = (self.begin, self.end, self.unknown)
        return np.array([self._ids[word] for word in special if word in self._ids], dtype=np.int64)

    def find_ids(self, matches: Callable[[str], bool]) -> Ids:
        """Return the ids of the words for which a function, such as is_punctuation, returns True; cached."""
        ids = self._matching_ids.get(matches)
        if ids is None:
            ids = np.array([number for number, word in enumerate(self.words) if matches(word)], dtype=np.int64)
            self._matching_ids[matches] = ids
        return ids

    def missing_special_words(self) -> list[str]:
        """Return the special words (begin, end, unknown) that are not in the list."""
        return [word for word in (self.begin, self.end, self.unknown) if word not in self._ids]

    def boundaries(self) -> Ids:
        """Return the ids of the beginning and the end of a sentence, shape (2,)."""
        return np.array([self._ids[self.begin], self._ids[self.end]], dtype=np.int64)

    def encode(self, words: Sequence[str]) -> Ids:
        """Return the id of each word, shape (U,); unlisted words and literal boundary tokens map to the unknown id."""
        unknown = self._ids[self.unknown]
        boundaries = (self.begin, self.end)
        ids = [unknown if word in boundaries else self._ids.get(word, unknown) for word in words]
        return np.array(ids, dtype=np.int64)


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
    """Return a file with one entry per line, which parse_lines reads."""
    return "".join(f"{entry}\n" for entry in entries).encode("utf-8")
