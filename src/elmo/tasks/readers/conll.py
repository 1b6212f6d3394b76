"""CoNLL and CoNLL-U: one word per line with its columns, an empty line after each sentence.

Columns are named by number from 1, or by name in CoNLL-U. Other lines (comments, -DOCSTART-, ranges and empty
nodes of CoNLL-U) are kept for writing, each in its place, and not read as words.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from elmo.errors import InputError
from elmo.files.sources import Lines, Place
from elmo.tasks.examples import Reader, TaggedSentence

CONLLU_NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_CONLLU_ROW = re.compile(r"(?:\d+|\d+-\d+|\d+\.\d+)\t")
_COMMENT = re.compile(r"# \S+ ?= |#(?:begin|end) document\b")
_MAYBE_COMMENT = re.compile(r"# |#(?:begin|end)\b")  # or the word #, or a hashtag
_SPAN_TAG = re.compile(r"O|[BIMELSU]-\S+")
_Block: TypeAlias = list[tuple[str, list[str] | None]]  # lines with the cells of those that are words


def looks_like_conllu(lines: Sequence[str]) -> bool:
    """Return whether all rows have the ten columns of CoNLL-U, the first of them a number."""
    rows = [line for line in lines if line.strip() and not line.startswith("#")]
    return bool(rows) and all(_CONLLU_ROW.match(row) and row.count("\t") == 9 for row in rows)


class ConllReader(Reader):
    """Sentences of a CoNLL or CoNLL-U file; roles `word` and `tag`."""

    def __init__(self, lines: Lines, *, is_conllu: bool, columns: Mapping[str, str], labelled: bool) -> None:
        """`labelled`: whether each word must have its tag."""
        self._lines, self._is_conllu, self._labelled = lines, is_conllu, labelled
        self._rest: _Block = []
        rows = [line for line in lines.peek(1000) if self._may_be_row(line)]
        if not rows:
            raise InputError(f"{lines.name} has no words; a file in CoNLL form was expected, one word per line.")
        sure = [line for line in rows if is_conllu or not _MAYBE_COMMENT.match(line)] or rows
        self._has_tabs = "\t" in sure[0]
        self._ahead = [self._cut(line) for line in sure]
        self.num_columns = len(self._ahead[0])
        self._word = self._index(columns.get("word", "form" if is_conllu else self._guess_word()), "word")
        self._tag = self._index(columns.get("tag", "upos" if is_conllu else self._guess_tag()), "tag")
        self.columns = {"word": str(self._word + 1), "tag": str(self._tag + 1)}

    def _guess_word(self) -> str:
        """Return the first column, or the second if the first numbers the words of a sentence."""
        numbers = [cells[0] for cells in self._ahead]
        is_numbered = self.num_columns > 2 and numbers[0] == "1" and all(number.isdecimal() for number in numbers)
        return "2" if is_numbered else "1"

    def _guess_tag(self) -> str:
        """Return the last column that is not filled with placeholders; without tags, a new one after the last.

        Rows with numbered words may go on after the tag, as those of Universal NER do with the annotator's name:
        there it is the last column of tags that mark spans.
        """
        if not self._labelled:
            return str(self.num_columns + 1)
        last = max(2, self.num_columns)
        if self._word == 1:
            columns = range(self._word + 2, self.num_columns + 1)
            marking = [
                at for at in columns if all(_SPAN_TAG.fullmatch("".join(row[at - 1 : at])) for row in self._ahead)
            ]
            last = marking[-1] if marking else last
        while last > self._word + 2 and all(cells[last - 1 : last] in (["-"], ["_"]) for cells in self._ahead):
            last -= 1
        return str(last)

    def __iter__(self) -> Iterator[TaggedSentence]:
        block: _Block = []
        first, has_rows = 1, False
        for line in self._lines:
            if line.strip():
                if not block or not block[-1][0]:
                    first = self._lines.number
                is_row = self._is_row(line, is_head=not has_rows)
                block.append((line, self._split(line) if is_row else None))
                has_rows = has_rows or is_row
            elif has_rows:
                yield self._sentence(block, first)
                block, has_rows = [], False
            elif block and block[-1][0]:
                # Lines without a word, such as -DOCSTART-, are kept before the next sentence.
                block.append(("", None))
        if has_rows:
            yield self._sentence(block, first)
        else:
            self._rest = block

    def first_targets(self) -> list[tuple[str, str]]:
        """Return the tags that the first rows already have."""
        where = f"{self._lines.name}, column {self._tag + 1}"
        return [(where, cells[self._tag]) for cells in self._ahead if self._tag < len(cells)]

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

    def _split(self, line: str) -> list[str]:
        cells = self._cut(line)
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
        if not line.strip() or line.startswith("-DOCSTART-"):
            return False
        if self._is_conllu:
            return not line.startswith("#") and not re.match(r"\d+[-.]\d+\t", line)
        return not _COMMENT.match(line)

    def _is_row(self, line: str, *, is_head: bool) -> bool:
        """Return whether a line is a word; comments at the `head` of a sentence have not the shape of its rows."""
        if not self._may_be_row(line):
            return False
        if self._is_conllu or not is_head or not _MAYBE_COMMENT.match(line):
            return True
        cells = self._cut(line)
        return ("\t" in line) == self._has_tabs and len(cells) == self.num_columns and " " not in cells[0]

    def _index(self, name: str, role: str) -> int:
        if self._is_conllu and name.lower() in CONLLU_NAMES:
            name = str(CONLLU_NAMES.index(name.lower()) + 1)
        if not name.isdecimal() or not int(name):
            known = f", or one of {', '.join(CONLLU_NAMES)}" if self._is_conllu else ""
            raise InputError(f"--column {role}={name} is not the number of a column, from 1{known}.")
        index = int(name) - 1
        if index >= self.num_columns and (role == "word" or self._labelled):
            raise InputError(
                f"{self._lines.name} has {self.num_columns} column(s), so none is number {name} for the {role}s; "
                f"name the right one with --column {role}=NUMBER."
            )
        return index
