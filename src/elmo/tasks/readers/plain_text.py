"""Read examples from plain text, one per line, and write predictions as tab-separated rows.

The content of a line depends on the task family: a sentence (tagging, classification), two texts separated by a tab
or ||| (pairs; a question and its passage) or a sentence with <e1> and <e2> (relations).
"""

from collections.abc import Iterable, Iterator
from typing import Any

from elmo.tasks.examples import Question, SentencePair, TaggedSentence, build_example
from elmo.tasks.readers.reader import Reader

PAIR_SEPARATORS = ("\t", "|||")
# The expected content of a line, and a sample line; other families take any line.
_EXPECTED = {
    "pairs": ("two sentences separated by a tab or |||", "A man runs ||| Someone moves"),
    "question_answering": (
        "a question and its passage separated by a tab or |||", "Who came? ||| Ann came to Paris by train."
    ),
    "relations": ("a sentence with <e1>…</e1> and <e2>…</e2>", "the <e1>arm</e1> of a <e2>chair</e2>"),
}  # fmt: skip


class PlainTextReader(Reader):
    """Reads unlabelled plain text; `write` reproduces its blank lines, so that output matches input."""

    def __iter__(self) -> Iterator[Any]:
        for line in filter(None, map(str.strip, self.lines)):
            item: str | list[str] = line
            is_valid = self.family != "relations" or ("<e1>" in line and "<e2>" in line)
            if self.family in ("pairs", "question_answering"):
                item = _split_text_pair(line)
                is_valid = len(item) == 2 and all(item)
            if not is_valid:
                description, sample = _EXPECTED[self.family]
                raise self.lines.fail(
                    f"{line!r:.60} is not {description}; write, for example, '{sample}', or specify the input "
                    "format with --format."
                )
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
