"""Sentiment trees in brackets, one a line: (3 (2 It) (4 (2 's) (4 lovely))). Every phrase has a label."""

import re
from collections.abc import Iterator
from typing import Any

from elmo.errors import InputError
from elmo.tasks.examples import LabelledText, Span
from elmo.tasks.readers.lines import Lines

_TOKEN = re.compile(r"\(|\)|[^()]+")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}


class TreeReader:
    """Texts of a file of trees; the root's label is the text's."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.columns: dict[str, str] = {}

    def __iter__(self) -> Iterator[LabelledText]:
        for line in self._lines:
            if line.strip():
                words, phrases = self._parse(line.strip())
                root = phrases[-1]
                yield LabelledText(words, root[1], self._lines.place(), tuple(phrases), line.strip())

    def begin(self) -> str:
        """Give nothing: the first tree follows at once."""
        return ""

    def write(self, example: LabelledText, prediction: Any) -> str:
        """Give the tree with the predicted label at its root."""
        return re.sub(r"^\(\s*[^\s()]+", lambda _: f"({prediction.label}", example.record) + "\n"

    def end(self) -> str:
        """Give nothing."""
        return ""

    def _parse(self, line: str) -> tuple[tuple[str, ...], list[tuple[Span, str]]]:
        words: list[str] = []
        phrases: list[tuple[Span, str]] = []
        open_phrases: list[tuple[int, str]] = []
        for token in _TOKEN.findall(line):
            if token == "(":
                open_phrases.append((len(words), ""))
            elif token == ")":
                if not open_phrases:
                    raise self._lines.fail("the tree has a closing bracket too many.")
                start, label = open_phrases.pop()
                if not label or start == len(words):
                    raise self._lines.fail("a phrase without a label or without words, as in (2 word).")
                phrases.append(((start, len(words)), label))
            elif token.strip():
                if not open_phrases:
                    raise self._lines.fail(f"{token.strip()!r:.40} stands outside the brackets of the tree.")
                start, label = open_phrases[-1]
                pieces = token.split()
                if not label:
                    open_phrases[-1] = (start, pieces.pop(0))
                words += [_ESCAPES.get(piece, piece) for piece in pieces]
        if open_phrases or not phrases:
            raise self._lines.fail("the tree has an opening bracket too many, or no bracket at all.")
        if phrases[-1][0] != (0, len(words)):
            raise InputError(f"{self._lines.place()}: more than one tree in the line; put each in its own.")
        return tuple(words), phrases
