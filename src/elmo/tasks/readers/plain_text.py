"""Plain text, one sentence per line -> examples to predict; predictions -> tab-separated rows.

What a line holds depends on the family: a sentence (tagging, classification), two texts with a tab or ||| between
them (pairs; a question and its passage), a sentence with <e1> and <e2> (relations) or [marked] words (senses).
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from elmo.errors import InputError
from elmo.files.sources import Lines, Place
from elmo.tasks.examples import (
    LabelledText,
    MarkedPair,
    Question,
    Reader,
    SenseSentence,
    SenseTarget,
    SentencePair,
    TaggedSentence,
)
from elmo.text.sentence_input import Tokenizer

PAIR_SEPARATORS = ("\t", "|||")
NO_SENSE = "-"
# What a line of two texts holds, with an instance.
_HALVES = {
    "pairs": ("two sentences", "A man runs ||| Someone moves"),
    "question_answering": ("a question and its passage", "Who came? ||| Ann came to Paris by train."),
}
_MARK = re.compile(r"\[([^\[\]]+)\]")


class PlainTextReader(Reader):
    """Sentences of a text without labels; `write` and `end` repeat its blank lines, to keep outputs in step."""

    def __init__(self, lines: Lines, family: str, tokenizer: Tokenizer, *, sense_entries: Collection[str] = ()) -> None:
        """`sense_entries` are the lemmas that a sense task knows, as in bank#NOUN."""
        self.columns = {}
        self._lines, self._family, self._tokenizer = lines, family, tokenizer
        self._entries = frozenset(sense_entries)
        self._blank_lines: dict[Place, int] = {}  # how many are before each example that has any
        self._num_blank = 0  # after the last example so far

    def __iter__(self) -> Iterator[Any]:
        for line in self._lines:
            if not line.strip():
                self._num_blank += 1
                continue
            place = self._lines.place()
            if self._num_blank:
                self._blank_lines[place], self._num_blank = self._num_blank, 0
            yield self._example(line.strip(), place)

    def write(self, example: Any, prediction: Any) -> str:
        """Return the rows of an example, tab-separated; an empty line follows a tagged sentence."""
        rows = "\n" * self._blank_lines.pop(example.place, 0)
        rows += "".join("\t".join(cells) + "\n" for cells in _prediction_rows(example, prediction))
        return rows + "\n" if isinstance(example, TaggedSentence) else rows

    def end(self) -> str:
        """Return the blank lines after the last example."""
        return "\n" * self._num_blank

    def _words(self, text: str) -> tuple[str, ...]:
        return tuple(word.text for word in self._tokenizer(text))

    def _example(self, line: str, place: Place) -> Any:
        if self._family == "senses":
            return self._senses(line, place)
        if self._family == "tagging":
            return TaggedSentence(self._words(line), None, place=place, record=line)
        if self._family == "classification":
            return LabelledText(self._words(line), None, place=place, record=line)
        if self._family == "relations":
            return MarkedPair.parse(line, None, self._tokenizer, place, line)
        first, second = self._halves(line, *_HALVES[self._family])
        if self._family == "pairs":
            return SentencePair(self._words(first), self._words(second), None, place=place, record=line)
        return Question.parse(first, second, [], self._tokenizer, place, record=line)

    def _halves(self, line: str, what: str, instance: str) -> tuple[str, str]:
        separator = next((mark for mark in PAIR_SEPARATORS if mark in line), "\t")
        halves = [half.strip() for half in line.split(separator)]
        if len(halves) != 2 or not all(halves):
            raise self._lines.fail(
                f"{line!r:.60} is not {what} with a tab or ||| between them; write for example '{instance}', or "
                "say what the input is with --format."
            )
        return halves[0], halves[1]

    def _senses(self, line: str, place: Place) -> SenseSentence:
        words: list[str] = []
        targets: list[SenseTarget] = []
        for number, text in enumerate(_MARK.split(line)):
            is_marked = number % 2 == 1
            shown, lemma, pos = self._read_mark(text, place) if is_marked else (text, "", "")
            tokens = self._words(shown)
            if is_marked:
                if not tokens:
                    raise self._lines.fail(f"the brackets in {line!r:.60} hold no word.")
                targets.append(SenseTarget(shown, (len(words), len(words) + len(tokens)), lemma, pos, None))
            words += tokens
        if not targets:
            raise self._lines.fail(
                f"{line!r:.60} marks no word; put the word whose sense is wanted in brackets, as in "
                "'The [bank] raised its rates'."
            )
        return SenseSentence(tuple(words), tuple(targets), place=place, record=_MARK.sub(r"\1", line))

    def _read_mark(self, text: str, place: Place) -> tuple[str, str, str]:
        """Return the word, its lemma and its part of speech of [banks], [bank#NOUN] or [banks|bank#NOUN]."""
        shown, _, entry = text.rpartition("|")
        lemma, hash_sign, pos = entry.partition("#")
        shown, lemma = (shown or lemma).strip(), lemma.strip().replace(" ", "_")
        if hash_sign:
            return shown, lemma, pos.strip().upper()
        known = sorted(entry for entry in self._entries if entry.rpartition("#")[0] == lemma.lower())
        if len(known) > 1:
            choices = ", ".join(entry.rpartition("#")[2] for entry in known)
            raise InputError(f"{place}: [{text}] may be {choices}; say which, as in [{shown}|{known[0]}].")
        return (shown, lemma.lower(), known[0].rpartition("#")[2]) if known else (shown, lemma, "")


def _prediction_rows(example: Any, prediction: Any) -> list[tuple[str, ...]]:
    """Return rows for people: (word, tag) of each word, else the prediction, its probability and the text."""
    if isinstance(example, TaggedSentence):
        return list(zip(prediction.words, prediction.tags, strict=True))
    texts = _record_cells(example)
    if isinstance(example, SenseSentence):
        return [
            (key or NO_SENSE, target.id, *texts) for target, key in zip(example.targets, prediction.keys, strict=True)
        ]
    if isinstance(example, Question):
        return [(prediction.text, f"{prediction.probability:.3f}", *texts)]
    if hasattr(prediction, "score"):
        return [(f"{prediction.score:.4g}", *texts)]
    return [(prediction.label, f"{prediction.probabilities[prediction.label]:.3f}", *texts)]


def _record_cells(example: Any) -> tuple[str, ...]:
    separator = next((mark for mark in PAIR_SEPARATORS if mark in example.record), "\t")
    if isinstance(example, SentencePair):
        return tuple(half.strip() for half in example.record.split(separator))
    if isinstance(example, Question):
        return (example.record.split(separator)[0].strip(),)
    return (" ".join(example.record.split("\t")),)
