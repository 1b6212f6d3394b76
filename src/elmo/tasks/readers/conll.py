"""CoNLL and CoNLL-U: one word per line with its columns, an empty line after each sentence.

Columns are named by number from 1, or by name in CoNLL-U; without names, the first is the word and the last the
tag. Other lines (comments, -DOCSTART-, ranges and empty nodes of CoNLL-U) are kept for writing, each in its place.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from elmo.errors import InputError
from elmo.files.sources import Lines, Place
from elmo.tasks.examples import Reader, TaggedSentence

CONLLU_NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_MAYBE_COMMENT = re.compile(r"# |#(?:begin|end)\b")  # or the word #, or a hashtag
_NUM_LINES_AHEAD = 1000
_Block: TypeAlias = list[tuple[str, list[str] | None]]  # lines with the cells of those that are words


class ConllReader(Reader):
    """Sentences of a CoNLL or CoNLL-U file; roles `word` and `tag`."""

    def __init__(self, lines: Lines, *, is_conllu: bool, columns: Mapping[str, str], labelled: bool) -> None:
        """With `labelled`, each word must have its tag."""
        self._lines, self._is_conllu, self._labelled = lines, is_conllu, labelled
        self._rest: _Block = []
        rows = [line for line in lines.peek(_NUM_LINES_AHEAD) if self._may_be_row(line)]
        if not rows:
            raise InputError(f"{lines.name} has no words; a file in CoNLL form was expected, one word per line.")
        first = next((line for line in rows if is_conllu or not _MAYBE_COMMENT.match(line)), rows[0])
        self._has_tabs = "\t" in first
        self.num_columns = len(self._cut(first))
        last = str(max(2, self.num_columns) if labelled else self.num_columns + 1)
        self._word = self._index(columns.get("word", "form" if is_conllu else "1"), "word")
        self._tag = self._index(columns.get("tag", "upos" if is_conllu else last), "tag")
        self.columns = {"word": str(self._word + 1), "tag": str(self._tag + 1)}

    def __iter__(self) -> Iterator[TaggedSentence]:
        block: _Block = []
        first, has_words = 1, False
        for line in self._lines:
            if line.strip():
                if not block or not block[-1][0]:
                    first = self._lines.number
                cells = self._split(line, may_be_comment=not has_words)
                block.append((line, cells))
                has_words = has_words or cells is not None
            elif has_words:
                yield self._sentence(block, first)
                block, has_words = [], False
            elif block and block[-1][0]:
                # Lines without a word, such as -DOCSTART-, are kept before the next sentence.
                block.append(("", None))
        if has_words:
            yield self._sentence(block, first)
        else:
            self._rest = block

    def write(self, example: TaggedSentence, prediction: Any) -> str:
        """Return the lines of the sentence with the predicted tags in their column."""
        tags = iter(prediction.tags)
        written = []
        for line, cells in example.record:
            if cells is None:
                written.append(line)
                continue
            cells = list(cells)
            cells[self._tag : self._tag + 1] = [next(tags)]
            written.append(("\t" if self._has_tabs else " ").join(cells))
        return "\n".join(written) + "\n\n"

    def end(self) -> str:
        """Return the lines after the last sentence."""
        return "".join(line + "\n" for line, _ in self._rest)

    def _sentence(self, block: _Block, first: int) -> TaggedSentence:
        rows = [cells for _, cells in block if cells is not None]
        tags = tuple(cells[self._tag] for cells in rows) if self._tag < self.num_columns else None
        place = Place(self._lines.name, first)
        return TaggedSentence(tuple(cells[self._word] for cells in rows), tags, place=place, record=block)

    def _split(self, line: str, *, may_be_comment: bool) -> list[str] | None:
        """Return the cells of a word, or None for another line; comments before a sentence differ from its rows."""
        if not self._may_be_row(line):
            return None
        cells = self._cut(line)
        if may_be_comment and not self._is_conllu and _MAYBE_COMMENT.match(line):
            has_form_of_row = ("\t" in line) == self._has_tabs and len(cells) == self.num_columns
            if not has_form_of_row or " " in cells[0]:
                return None
        if len(cells) != self.num_columns:
            raise self._lines.fail(
                f"{len(cells)} column(s) in {line!r:.60}, but the first word has {self.num_columns}; every word "
                "must have the same number."
            )
        if self._labelled and not cells[self._tag].strip():
            raise self._lines.fail("the tag is empty.")
        return cells

    def _cut(self, line: str) -> list[str]:
        # Not at every white space: 10\u00a0000 is one word.
        return line.split("\t") if self._has_tabs else re.split(r"[ \t]+", line.strip(" \t"))

    def _may_be_row(self, line: str) -> bool:
        if self._is_conllu:
            return bool(line.strip()) and not line.startswith("#") and not re.match(r"\d+[-.]\d+\t", line)
        is_comment = re.match(r"# \S+ ?= |#(?:begin|end) document\b|-DOCSTART-", line)
        return bool(line.strip()) and not is_comment

    def _index(self, name: str, role: str) -> int:
        if self._is_conllu and name.lower() in CONLLU_NAMES:
            name = str(CONLLU_NAMES.index(name.lower()) + 1)
        if not name.isdecimal() or not int(name):
            known = f", or one of {', '.join(CONLLU_NAMES)}" if self._is_conllu else ""
            raise InputError(f"--column {role}={name} is not the number of a column, from 1{known}.")
        index = int(name) - 1
        if index >= self.num_columns and (role == "word" or self._labelled):
            raise InputError(
                f"{self._lines.name} has {self.num_columns} column(s), but column {name} was to be the {role}; name "
                f"the right one with --column {role}=NUMBER."
            )
        return index
