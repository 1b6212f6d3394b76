"""SemEval-2010 relations: a number and a sentence with <e1> and <e2>, the relation, a comment, an empty line.

The marks are read here for tables too.
"""

import re
from collections.abc import Iterator
from typing import Any

from elmo.errors import InputError
from elmo.tasks.examples import MarkedPair, Place, Span
from elmo.tasks.readers.lines import Lines
from elmo.text.tokenize import tokenize

_NUMBERED = re.compile(r'(\d+)\t"?(.*?)"?\s*$')
_MARKS = re.compile(r"</?e[12]>")


def read_marked(text: str, place: Place | str) -> tuple[tuple[str, ...], Span, Span]:
    """Give the words of a text with <e1>…</e1> and <e2>…</e2>, and the two spans."""
    pieces = _MARKS.split(text)
    marks = _MARKS.findall(text)
    if sorted(marks) != sorted(("<e1>", "</e1>", "<e2>", "</e2>")):
        raise InputError(
            f"{place}: the marks are {', '.join(marks) or 'missing'}; one <e1>…</e1> and one <e2>…</e2> were "
            "expected."
        )
    # The text around a mark is tokenized on its own, so that a mark is always a border between words.
    words: list[str] = []
    at: dict[str, int] = {}
    for piece, mark in zip(pieces, [*marks, ""], strict=True):
        words += (word.text for word in tokenize(piece))
        at[mark] = len(words)
    first, second = (at["<e1>"], at["</e1>"]), (at["<e2>"], at["</e2>"])
    for name, (start, end) in (("e1", first), ("e2", second)):
        if start >= end:
            raise InputError(f"{place}: <{name}>…</{name}> holds no word, or ends before it begins.")
    return tuple(words), first, second


class SemevalReader:
    """Marked sentences of a file of SemEval-2010 task 8."""

    def __init__(self, lines: Lines, *, labelled: bool) -> None:
        self._lines, self._labelled = lines, labelled
        self.columns: dict[str, str] = {}

    def __iter__(self) -> Iterator[MarkedPair]:
        block: list[str] = []
        for line in self._lines:
            if line.strip():
                block.append(line)
            elif block:
                yield self._example(block, self._lines.number - len(block))
                block = []
        if block:
            yield self._example(block, self._lines.number - len(block) + 1)

    def begin(self) -> str:
        """Give nothing: the first sentence follows at once."""
        return ""

    def write(self, example: MarkedPair, prediction: Any) -> str:
        """Give the lines of the example with the predicted relation."""
        sentence, *rest = example.record
        return "\n".join([sentence, prediction.label, *rest[1:]]) + "\n\n"

    def end(self) -> str:
        """Give nothing."""
        return ""

    def _example(self, block: list[str], first: int) -> MarkedPair:
        place = Place(self._lines.name, first)
        match = _NUMBERED.match(block[0])
        if match is None:
            raise InputError(f'{place}: {block[0]!r:.50} is not a number, a tab and a quoted "sentence".')
        if self._labelled and len(block) < 2:
            raise InputError(f"{place}: the line with the relation is missing after the sentence.")
        words, one, other = read_marked(match[2], place)
        return MarkedPair(words, one, other, block[1].strip() if len(block) > 1 else None, place, block)
