"""Words where they stand: what neighbours, senses and maps are made of. No file and no model is opened here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elmo.text.marks import WordIndex, read_pointed
from elmo.text.sentence_input import Sentence
from elmo.text.tokenize import split_on_spaces, tokenize

QUERY_SOURCE = "query"


@dataclass(frozen=True)
class CorpusSentence:
    """A sentence as it stands in its source, and the characters of each of its words."""

    text: str
    offsets: tuple[tuple[int, int], ...]
    source: str
    number: int  # in its source, from 0

    @property
    def words(self) -> list[str]:
        """The words, as a model reads them."""
        return [self.text[start:end] for start, end in self.offsets]


@dataclass(frozen=True)
class Occurrence:
    """A word, or several in a row, in a sentence: the half-open range `start` to `end` of its words."""

    sentence: CorpusSentence
    start: int
    end: int
    label: str | None = None

    @property
    def word(self) -> str:
        """What is pointed at, as it stands in the text."""
        first, last = self._characters()
        return self.sentence.text[first:last]

    def mark(self, num_words: int | None = None) -> str:
        """Give the sentence with brackets around the word, or `num_words` on each side of it."""
        text, offsets = self.sentence.text, self.sentence.offsets
        first, last = self._characters()
        left, right = 0, len(text)
        if num_words is not None and self.start > num_words:
            left = offsets[self.start - num_words][0]
        if num_words is not None and self.end + num_words < len(offsets):
            right = offsets[self.end + num_words - 1][1]
        marked = f"{text[left:first]}[{text[first:last]}]{text[last:right]}"
        return " ".join(f"{'… ' if left else ''}{marked}{' …' if right < len(text) else ''}".split())

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object; `start` and `end` count words."""
        found = {
            "word": self.word,
            "text": self.sentence.text,
            "start": self.start,
            "end": self.end,
            "source": self.sentence.source,
            "sentence": self.sentence.number,
        }
        return found if self.label is None else {**found, "label": self.label}

    def _characters(self) -> tuple[int, int]:
        offsets = self.sentence.offsets
        return offsets[self.start][0], offsets[self.end - 1][1]


def join_words(words: Sequence[str], source: str, number: int) -> CorpusSentence:
    """Make a sentence of words whose text is not known: spaces between them."""
    offsets, at = [], 0
    for word in words:
        offsets.append((at, at + len(word)))
        at += len(word) + 1
    return CorpusSentence(" ".join(words), tuple(offsets), source, number)


def point(sentence: Sentence, index: WordIndex | None = None, *, on_spaces: bool = False) -> Occurrence:
    """Read a sentence with one [marked] word, or the word of an index; InputError says what is wrong with it."""
    words, (start, end) = read_pointed(sentence, index, split_on_spaces if on_spaces else tokenize, name="index")
    return Occurrence(join_words(words, QUERY_SOURCE, 0), start, end)


def is_same_word(one: str, other: str) -> bool:
    """Tell whether two words are one but for capital letters."""
    return one.casefold() == other.casefold()
