"""Plain text, one sentence per line -> examples to predict; predictions -> tab-separated rows.

What a line holds depends on the family: a sentence (tagging, classification), two texts with a tab or ||| between
them (pairs; a question and its passage) or a sentence with <e1> and <e2> (relations).
"""

from collections.abc import Iterator
from typing import Any

from elmo.files.sources import Lines
from elmo.tasks.examples import Question, SentencePair, TaggedSentence, build_example
from elmo.tasks.readers.reader import Reader
from elmo.tasks.settings import ReadSettings

PAIR_SEPARATORS = ("\t", "|||")
# What a line of two texts holds, with an instance.
_HALVES = {
    "pairs": ("two sentences", "A man runs ||| Someone moves"),
    "question_answering": ("a question and its passage", "Who came? ||| Ann came to Paris by train."),
}


class PlainTextReader(Reader):
    """Sentences of a text without labels; `write` and `end` repeat its blank lines, so that line numbers agree."""

    def __init__(self, lines: Lines, family: str, settings: ReadSettings, *, labelled: bool) -> None:
        super().__init__(lines, family, settings, labelled=labelled)
        self._last_written: int = 0  # number of its line

    def __iter__(self) -> Iterator[Any]:
        for line in filter(None, map(str.strip, self.lines)):
            item = self._read_halves(line, *_HALVES[self.family]) if self.family in _HALVES else line
            yield build_example(self.family, item, self.tokenizer, place=self.lines.place(), record=line)

    def write(self, example: Any, prediction: Any) -> str:
        """Return the rows of an example, tab-separated; an empty line follows a tagged sentence."""
        line_number: int = example.place.line
        rows = "\n" * (line_number - self._last_written - 1)
        self._last_written = line_number
        rows += "".join("\t".join(cells) + "\n" for cells in _prediction_rows(example, prediction))
        return rows + "\n" if isinstance(example, TaggedSentence) else rows

    def end(self) -> str:
        """Return the blank lines after the last example."""
        return "\n" * (self.lines.number - self._last_written)

    def _read_halves(self, line: str, what: str, instance: str) -> list[str]:
        halves = _split_halves(line)
        if len(halves) != 2 or not all(halves):
            raise self.lines.fail(
                f"{line!r:.60} is not {what} with a tab or ||| between them; write for example '{instance}', or "
                "say what the input is with --format."
            )
        return halves


def _prediction_rows(example: Any, prediction: Any) -> list[tuple[str, ...]]:
    """Return rows for people: (word, tag) of each word, else the prediction, its probability and the text."""
    if isinstance(example, TaggedSentence):
        return list(zip(prediction.words, prediction.tags, strict=True))
    if isinstance(example, Question):
        return [(prediction.text, f"{prediction.probability:.3f}", _split_halves(example.record)[0])]
    texts = _split_halves(example.record) if isinstance(example, SentencePair) else [example.record.replace("\t", " ")]
    if hasattr(prediction, "score"):
        return [(f"{prediction.score:.4g}", *texts)]
    return [(prediction.label, f"{prediction.probabilities[prediction.label]:.3f}", *texts)]


def _split_halves(line: str) -> list[str]:
    separator = next((mark for mark in PAIR_SEPARATORS if mark in line), "\t")
    return [half.strip() for half in line.split(separator)]
