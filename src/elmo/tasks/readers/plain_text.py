"""Read examples from plain text, one per line, and write predictions as tab-separated rows.

The content of a line depends on the task family: a sentence (tagging, classification), two texts separated by a tab
or ||| (pairs; a question and its passage) or a sentence with <e1> and <e2> (relations).
"""

from collections.abc import Iterable, Iterator
from typing import Any

from elmo.tasks.examples import Question, SentencePair, TaggedSentence, build_example
from elmo.tasks.readers.reader import Reader

PAIR_SEPARATORS = ("\t", "|||")
# The expected content of a line with two texts, and a sample line.
_TEXT_PAIRS = {
    "pairs": ("two sentences", "A man runs ||| Someone moves"),
    "question_answering": ("a question and its passage", "Who came? ||| Ann came to Paris by train."),
}


class PlainTextReader(Reader):
    """Reads unlabelled plain text; `write` reproduces its blank lines, so that output matches input."""

    def __iter__(self) -> Iterator[Any]:
        for line in filter(None, map(str.strip, self.lines)):
            item = self._read_text_pair(line, *_TEXT_PAIRS[self.family]) if self.family in _TEXT_PAIRS else line
            yield build_example(self.family, item, self.tokenizer, place=self.lines.place(), record=line)

    def write(self, predicted: Iterable[tuple[Any, Any]]) -> Iterator[str]:
        """Yield the rows of the examples, tab-separated; an empty line follows a tagged sentence."""
        num_written = 0  # lines of the input
        for example, prediction in predicted:
            yield "\n" * (example.place.line - num_written - 1)
            num_written = example.place.line
            yield from ("\t".join(cells) + "\n" for cells in _prediction_rows(example, prediction))
            yield "\n" if isinstance(example, TaggedSentence) else ""
        yield "\n" * (self.lines.number - num_written)

    def _read_text_pair(self, line: str, description: str, sample: str) -> list[str]:
        texts = _split_text_pair(line)
        if len(texts) != 2 or not all(texts):
            raise self.lines.fail(
                f"{line!r:.60} is not {description} separated by a tab or |||; write, for example, '{sample}', "
                "or specify the input format with --format."
            )
        return texts


def _prediction_rows(example: Any, prediction: Any) -> list[tuple[str, ...]]:
    """Return human-readable rows: (word, tag) for each word, or the prediction, its probability and the text."""
    if isinstance(example, TaggedSentence):
        return list(zip(prediction.words, prediction.tags, strict=True))
    if isinstance(example, Question):
        return [(prediction.text, f"{prediction.probability:.3f}", _split_text_pair(example.record)[0])]
    texts = (
        _split_text_pair(example.record) if isinstance(example, SentencePair) else [example.record.replace("\t", " ")]
    )
    if hasattr(prediction, "score"):
        return [(f"{prediction.score:.4g}", *texts)]
    return [(prediction.label, f"{prediction.probabilities[prediction.label]:.3f}", *texts)]


def _split_text_pair(line: str) -> list[str]:
    separator = next((mark for mark in PAIR_SEPARATORS if mark in line), "\t")
    return [text.strip() for text in line.split(separator)]
