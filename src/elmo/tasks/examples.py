"""What a labelled example of each task family is. Readers make them, families learn from them.

A target of None means that the example is to be predicted. `record` is what the reader needs to write it again.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

Words: TypeAlias = tuple[str, ...]
Span: TypeAlias = tuple[int, int]  # half-open range of words


@dataclass(frozen=True)
class Place:
    """Where an example stands; `line` counts from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence with one tag a word."""

    words: Words
    tags: Words | None
    place: Place
    record: Any = None


@dataclass(frozen=True)
class LabelledText:
    """A text with one label, and labels of phrases inside it where the data has them."""

    words: Words
    label: str | None
    place: Place
    phrases: tuple[tuple[Span, str], ...] = ()
    record: Any = None


@dataclass(frozen=True)
class SentencePair:
    """Two sentences with a label or, for similarity, a number."""

    first: Words
    second: Words
    target: str | float | None
    place: Place
    record: Any = None


@dataclass(frozen=True)
class MarkedPair:
    """A sentence with two marked spans and the relation between them."""

    words: Words
    first: Span
    second: Span
    label: str | None
    place: Place
    record: Any = None


@dataclass(frozen=True)
class Question:
    """A question, a passage, and the answers people gave as pieces of the passage."""

    words: Words
    passage: str
    passage_words: Words
    offsets: tuple[Span, ...]  # characters of each passage word
    answers: tuple[str, ...]
    answer_span: Span | None  # of the first answer, in words
    place: Place
    record: Any = None


@dataclass(frozen=True)
class SenseTarget:
    """A word or phrase of a sentence whose sense is asked for; `keys` are its right senses."""

    id: str
    span: Span
    lemma: str
    pos: str
    keys: tuple[str, ...] | None


@dataclass(frozen=True)
class SenseSentence:
    """A sentence with the words whose senses are asked for."""

    words: Words
    targets: tuple[SenseTarget, ...]
    place: Place
    record: Any = None
