"""The examples and predictions of each task family. Readers build examples from files, `build_example` from values.

A target of None is unknown. `record` holds what the reader needs to write the example back.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from elmo.errors import InputError
from elmo.files.sources import Place
from elmo.tasks.families.metrics import tag_spans
from elmo.text.sentence_input import Tokenizer, read_sentence
from elmo.text.tokenize import Word

Words: TypeAlias = tuple[str, ...]
Span: TypeAlias = tuple[int, int]  # half-open range of words
IN_MEMORY = Place("the input", 0)  # of examples built from Python values
_ITEMS = {
    "pairs": "a pair of sentences, such as ('A man runs', 'Someone moves')",
    "question_answering": "(question, passage)",
    "senses": "(sentence, [(start, end, lemma, pos), …])",
}
_MARKS = re.compile(r"</?e[12]>")


@dataclass(frozen=True, kw_only=True)
class Example:
    """The base class of the examples of all families."""

    place: Place = IN_MEMORY
    record: Any = None


@dataclass(frozen=True)
class TaggedSentence(Example):
    """A sentence with one tag per word."""

    words: Words
    tags: Words | None


@dataclass(frozen=True)
class LabelledText(Example):
    """A text with one label, and labels of phrases inside it if the data has them."""

    words: Words
    label: str | None
    phrases: tuple[tuple[Span, str], ...] = ()


@dataclass(frozen=True)
class SentencePair(Example):
    """Two sentences with a label or, for similarity, a number."""

    first: Words
    second: Words
    target: str | float | None


@dataclass(frozen=True)
class MarkedPair(Example):
    """A sentence with two marked spans and the relation between them."""

    words: Words
    first: Span
    second: Span
    label: str | None

    @classmethod
    def parse(
        cls, text: str, label: str | None, tokenizer: Tokenizer, place: Place = IN_MEMORY, record: Any = None
    ) -> "MarkedPair":
        """Build an example from a text with <e1>…</e1> and <e2>…</e2>."""
        marks = _MARKS.findall(text)
        if sorted(marks) != sorted(("<e1>", "</e1>", "<e2>", "</e2>")):
            raise InputError(
                f"{_name(place)}: the marks are {', '.join(marks) or 'missing'}; one <e1>…</e1> and one "
                "<e2>…</e2> were expected."
            )
        # The text around a mark is tokenized separately, so that a mark always separates words.
        words: list[str] = []
        positions: dict[str, int] = {}
        for piece, mark in zip(_MARKS.split(text), [*marks, ""], strict=True):
            words += (word.text for word in tokenizer(piece))
            positions[mark] = len(words)
        first, second = (positions["<e1>"], positions["</e1>"]), (positions["<e2>"], positions["</e2>"])
        for name, (start, end) in (("e1", first), ("e2", second)):
            if start >= end:
                raise InputError(f"{_name(place)}: <{name}>…</{name}> holds no word, or ends before it begins.")
        return cls(tuple(words), first, second, label, place=place, record=record)


@dataclass(frozen=True)
class Question(Example):
    """A question, a passage, and answers that are spans of the passage."""

    words: Words
    passage: str
    passage_words: Words
    offsets: tuple[Span, ...]  # characters of each passage word
    answers: tuple[str, ...]
    answer_span: Span | None  # of the first answer, in words

    @classmethod
    def parse(
        cls,
        question: str,
        passage: str,
        answers: Sequence[tuple[str, int | None]],
        tokenizer: Tokenizer,
        place: Place = IN_MEMORY,
        *,
        passage_words: Sequence[Word] | None = None,
        record: Any = None,
    ) -> "Question":
        """Build an example; `answers` are texts, each with its start character if known.

        If all texts are empty, the question has no answer.
        """
        answers = answers if any(text for text, _ in answers) else ()
        words = tokenizer(passage) if passage_words is None else passage_words
        spans = [_find_answer(passage, text, start, _name(place)) for text, start in answers]
        return cls(
            tuple(word.text for word in tokenizer(question)),
            passage,
            tuple(word.text for word in words),
            tuple((word.start, word.end) for word in words),
            tuple(text for text, _ in answers),
            _covered_words(words, spans[0]) if spans else None,
            place=place,
            record=record,
        )


@dataclass(frozen=True)
class SenseTarget:
    """A word or phrase to disambiguate; `keys` are its correct senses."""

    id: str
    span: Span
    lemma: str
    pos: str
    keys: tuple[str, ...] | None

    @property
    def entry(self) -> str:
        """The lemma with its part of speech, as in bank#NOUN."""
        return f"{self.lemma.lower()}#{self.pos.upper()}"


@dataclass(frozen=True)
class SenseSentence(Example):
    """A sentence with the words to disambiguate."""

    words: Words
    targets: tuple[SenseTarget, ...]


@dataclass(frozen=True)
class ScorePrediction:
    """A number on the scale of the training data."""

    score: float


@dataclass(frozen=True)
class AnswerPrediction:
    """The answer, its first character in the passage, and its probability; "" at 0 means no answer."""

    text: str
    start: int
    probability: float


@dataclass(frozen=True)
class SensePrediction:
    """The sense key of each target; None if the lemma is neither in the training data nor in WordNet's index."""

    keys: tuple[str | None, ...]


@dataclass(frozen=True)
class TagPrediction:
    """The words of a sentence and the tag of each."""

    words: Words
    tags: Words

    @property
    def spans(self) -> list[tuple[str, int, int]]:
        """The spans that the tags mark, as (type, start, end) with half-open ranges of words."""
        return [(span_type, first, last + 1) for span_type, first, last in tag_spans(self.tags)]


@dataclass(frozen=True)
class LabelPrediction:
    """The most probable label, and the probability of each."""

    label: str
    probabilities: dict[str, float]

    @classmethod
    def from_probabilities(cls, labels: Sequence[str], rows: Sequence[Sequence[float]]) -> "list[LabelPrediction]":
        """Return a prediction for each row of probabilities; the first label is predicted if several are equal."""
        by_label = [dict(zip(labels, row, strict=True)) for row in rows]
        return [cls(max(probabilities, key=probabilities.__getitem__), probabilities) for probabilities in by_label]


def build_example(
    family: str, item: Any, tokenizer: Tokenizer, *, place: Place = IN_MEMORY, record: str | None = None
) -> Any:
    """Build an example without a target from a Python value or a line; raise InputError if it does not fit.

    tagging and classification take a text (a string or a list of words), pairs (first, second), relations a text
    with <e1>…</e1> and <e2>…</e2>, question answering (question, passage), senses (sentence, [(start, end, lemma,
    pos), …]).
    """
    record = item if record is None and isinstance(item, str) else record
    if family in ("tagging", "classification"):
        words = tuple(read_sentence(item, tokenizer))
        example_class = TaggedSentence if family == "tagging" else LabelledText
        return example_class(words, None, place=place, record=record)
    if family == "relations":
        if not isinstance(item, str):
            raise InputError(f"{item!r:.60} is not a text with marks, such as 'the <e1>arm</e1> of a <e2>chair</e2>'.")
        return MarkedPair.parse(item, None, tokenizer, place, record)
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InputError(f"{item!r:.60} is not {_ITEMS[family]}.")
    if family == "pairs":
        first, second = (tuple(read_sentence(sentence, tokenizer)) for sentence in item)
        return SentencePair(first, second, None, place=place, record=record)
    if family == "question_answering":
        if not all(isinstance(text, str) and text.strip() for text in item):
            raise InputError(f"{item!r:.60} is not {_ITEMS[family]}, two strings that are not empty.")
        return Question.parse(item[0], item[1], [], tokenizer, place, record=record)
    words = tuple(read_sentence(item[0], tokenizer))
    targets = tuple(_build_target(number, target, len(words)) for number, target in enumerate(item[1]))
    return SenseSentence(words, targets, place=place, record=record)


def _build_target(number: int, target: Any, num_words: int) -> "SenseTarget":
    types = [type(value) for value in target] if isinstance(target, tuple | list) else []
    if types != [int, int, str, str] or not 0 <= target[0] < target[1] <= num_words:
        raise InputError(f"{target!r:.60} is not (start, end, lemma, pos) of a sentence of {num_words} words.")
    return SenseTarget(str(number), (target[0], target[1]), target[2], target[3], None)


def locate_words(words: Sequence[str], text: str) -> list[Span]:
    """Return the character range of each word of a text, which has only spaces between the words."""
    offsets, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        offsets.append((start, end))
    return offsets


def describe_prediction(prediction: Any, text: str | None) -> dict[str, Any]:
    """Return a prediction as a JSON object; tags include their spans and, for a text, the offsets of the words."""
    values = asdict(prediction)
    if isinstance(prediction, TagPrediction):
        values["spans"] = [{"type": name, "start": start, "end": end} for name, start, end in prediction.spans]
        values["offsets"] = None if text is None else locate_words(prediction.words, text)
    return values


def rank_senses(counts: Counter[str]) -> list[str]:
    """Return the senses of a lemma, most frequent in training first."""
    return sorted(counts, key=lambda key: (-counts[key], key))


def _name(place: Place) -> str:
    return place.file if place is IN_MEMORY else str(place)


def _find_answer(passage: str, answer: str, start: int | None, where: str) -> Span:
    if not answer:
        raise InputError(f"{where}: the answer is empty.")
    if start is None:
        start = passage.find(answer)
    if start < 0 or not passage.startswith(answer, start):
        position = "" if start < 0 else f" at character {start}"
        raise InputError(f"{where}: the answer {answer!r:.60} is not in the passage{position}.")
    return start, start + len(answer)


def _covered_words(words: Sequence[Word], characters: Span) -> Span | None:
    start, end = characters
    covered = [number for number, word in enumerate(words) if word.start < end and word.end > start]
    return (covered[0], covered[-1] + 1) if covered else None
