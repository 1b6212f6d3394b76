"""Occurrences of words in text files, for neighbors, senses and maps.

Text is read as in `elmo prepare`: plain text, JSON lines or Parquet, compressed or not.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from elmo.corpus.settings import TextSettings as TextSettings
from elmo.corpus.text import cut_parts, cut_sentences
from elmo.errors import InputError
from elmo.files.sources import STDIN, Source, find_sources
from elmo.progress import progress_bar
from elmo.text.sentence_input import describe_value, find_marks, read_marked
from elmo.text.units import Tokenization

if TYPE_CHECKING:
    from elmo.analysis.index import CorpusIndex
    from elmo.model import Elmo

# An index, or names of text files, which may be patterns such as texts/*.txt.
Corpus: TypeAlias = "CorpusIndex | Sequence[str]"
QUERY_SOURCE = "query"
_CHUNK_BYTES = 1 << 20


class CorpusSentence(NamedTuple):
    """A sentence with its original text, the character range of each word, and its source."""

    text: str
    offsets: tuple[tuple[int, int], ...]
    source: str
    number: int  # in its source, from 0

    @property
    def words(self) -> list[str]:
        """The words of the sentence."""
        return [self.text[start:end] for start, end in self.offsets]


@dataclass(frozen=True)
class Occurrence:
    """A word or phrase in a sentence: the half-open range of words from `start` to `end`."""

    sentence: CorpusSentence
    start: int
    end: int

    @property
    def word(self) -> str:
        """The text of the word or phrase."""
        first, last = self._characters()
        return self.sentence.text[first:last]

    @property
    def words(self) -> list[str]:
        """The words of the occurrence."""
        return self.sentence.words[self.start : self.end]

    def mark(self) -> str:
        """Return the sentence with brackets around the word."""
        text, (first, last) = self.sentence.text, self._characters()
        return " ".join(f"{text[:first]}[{text[first:last]}]{text[last:]}".split())

    def to_range(self) -> dict[str, Any]:
        """Return the words of the sentence and the range of the word among them, as a JSON object."""
        return {"words": self.sentence.words, "start": self.start, "end": self.end}

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object; `start` and `end` count words."""
        return {
            "word": self.word,
            "text": self.sentence.text,
            "start": self.start,
            "end": self.end,
            "source": self.sentence.source,
            "sentence": self.sentence.number,
        }

    def _characters(self) -> tuple[int, int]:
        offsets = self.sentence.offsets
        return offsets[self.start][0], offsets[self.end - 1][1]


class Neighbor(NamedTuple):
    """An occurrence and its cosine with a query."""

    occurrence: Occurrence
    cosine: float

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"cosine": round(self.cosine, 4), **self.occurrence.to_dict()}


class StaticNeighbor(NamedTuple):
    """A word without context and its cosine with a query."""

    word: str
    cosine: float

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"cosine": round(self.cosine, 4), "word": self.word}


class Occurrences(NamedTuple):
    """Occurrences of a word in text order, and their number before sampling."""

    occurrences: list[Occurrence]
    num_found: int


def place_words(words: Sequence[str], text: str, source: str, number: int) -> CorpusSentence:
    """Return a text as a sentence, with its words located in order."""
    offsets, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        offsets.append((start, end))
    return CorpusSentence(text, tuple(offsets), source, number)


def join_words(words: Sequence[str], source: str, number: int) -> CorpusSentence:
    """Return words whose original text is unknown as a sentence, joined by spaces."""
    return place_words(words, " ".join(words), source, number)


def read_query(
    sentence: str | Occurrence, *, tokenization: Tokenization | None = None, on_spaces: bool = False
) -> Occurrence:
    """Return the occurrence of the word that is [marked]; InputError if there is no such word.

    An occurrence is returned unchanged. `tokenization` is the model's.
    """
    if isinstance(sentence, Occurrence):
        return sentence
    if not isinstance(sentence, str):
        raise InputError(f"The sentence is {describe_value(sentence)}; give a string with one [marked] word.")
    words, (start, end) = read_marked(sentence, (tokenization or Tokenization()).tokenizer(on_spaces=on_spaces))
    (mark,) = find_marks(sentence)
    text = sentence[: mark.start()] + mark[0][1:-1] + sentence[mark.end() :]
    return Occurrence(place_words(words, text, QUERY_SOURCE, 0), start, end)


def is_same_word(first: str, second: str) -> bool:
    """Return whether two words are equal, ignoring case."""
    return first.casefold() == second.casefold()


def settings_for(model: "Elmo", reading: TextSettings | None = None) -> TextSettings:
    """Return the text settings with the tokenization of a model."""
    reading = reading or TextSettings()
    tokenization = model.tokenization.config
    if tokenization.split_on_spaces:
        return replace(reading, split_on_spaces=True)
    if reading.split_on_spaces or tokenization.units == "words":
        return reading
    return replace(reading, characters=tokenization.scripts)


def find_corpus(names: Sequence[str]) -> list[Source]:
    """Return the files that match names and patterns; InputError if one is missing or cannot be read twice."""
    if STDIN in names:
        raise InputError("The corpus is - (standard input), which can be read only once; name a file.")
    return find_sources([str(name) for name in names], Path())


def read_corpus(
    names: Sequence[str], settings: TextSettings | None = None, *, show_progress_bar: bool = False
) -> Iterator[CorpusSentence]:
    """Yield the sentences of all files in order, except those without words."""
    settings, sources = settings or TextSettings(), find_corpus(names)
    tokenizer = Tokenization(settings.tokenization)
    num_bytes = sum(source.path.stat().st_size for source in sources)
    with progress_bar(unit="sentences", num_bytes=num_bytes, shown=show_progress_bar) as advance:
        for source in sources:
            number = 0
            for chunk in cut_parts([source], settings, _CHUNK_BYTES):
                for text in cut_sentences(chunk, settings):
                    if offsets := tuple((word.start, word.end) for word in tokenizer(text)):
                        yield CorpusSentence(text, offsets, source.name, number)
                        advance(0)
                    number += 1
                advance(chunk.input_bytes, 0)


def find_occurrences(
    corpus: Corpus,
    word: str,
    *,
    reading: TextSettings | None = None,
    max_occurrences: int = 1000,
    seed: int = 0,
    show_progress_bar: bool = False,
) -> Occurrences:
    """Find a word in an index or in text files, ignoring case.

    A word of several tokens, such as a Chinese word, is found wherever these tokens are consecutive. If there are
    more than `max_occurrences`, a random sample is returned. `reading` applies to text files.
    """
    from elmo.analysis.index import CorpusIndex

    if isinstance(corpus, CorpusIndex):
        return corpus.find_occurrences(word, max_occurrences=max_occurrences, seed=seed)
    reservoir: dict[int, tuple[int, Occurrence]] = {}
    count = 0
    random_numbers = random.Random(seed)
    tokens = [token.text for token in Tokenization((reading or TextSettings()).tokenization)(word)] or [word]
    first = tokens[0].casefold()
    for sentence in read_corpus(corpus, reading, show_progress_bar=show_progress_bar):
        if first not in sentence.text.casefold():
            continue
        for start in _find_phrase(sentence.words, tokens):
            slot = count if count < max_occurrences else random_numbers.randrange(count + 1)
            if slot < max_occurrences:
                reservoir[slot] = (count, Occurrence(sentence, start, start + len(tokens)))
            count += 1
    in_order = sorted(reservoir.values(), key=lambda entry: entry[0])
    return Occurrences([occurrence for _, occurrence in in_order], count)


def _find_phrase(words: Sequence[str], phrase: Sequence[str]) -> list[int]:
    words, phrase = [word.casefold() for word in words], [word.casefold() for word in phrase]
    starts = (start for start, word in enumerate(words) if word == phrase[0])
    return [start for start in starts if words[start : start + len(phrase)] == phrase]
