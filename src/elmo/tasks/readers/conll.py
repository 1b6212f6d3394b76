"""CoNLL and CoNLL-U: a word a line with its columns, an empty line after each sentence.

Columns are named by number from 1, or by name in CoNLL-U. Lines that are no words (comments, -DOCSTART-, ranges
and empty nodes of CoNLL-U) are kept for writing and not read as words.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from elmo.errors import InputError
from elmo.tasks.examples import Place, TaggedSentence
from elmo.tasks.readers.lines import Lines

CONLLU_NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_CONLLU_ROW = re.compile(r"(?:\d+|\d+-\d+|\d+\.\d+)\t")


def looks_like_conllu(lines: list[str]) -> bool:
    """Tell CoNLL-U from other CoNLL by its ten columns that begin with a number."""
    rows = [line for line in lines if line.strip() and not line.startswith("#")]
    return bool(rows) and all(_CONLLU_ROW.match(row) and row.count("\t") == 9 for row in rows)


class ConllReader:
    """Sentences of a CoNLL or CoNLL-U file; roles `word` and `tag`."""

    def __init__(self, lines: Lines, *, is_conllu: bool, columns: Mapping[str, str], labelled: bool) -> None:
        """`labelled`: whether each word must have its tag."""
        self._lines, self._is_conllu, self._labelled = lines, is_conllu, labelled
        rows = [line for line in lines.peek(1000) if self._is_row(line)]
        if not rows:
            raise InputError(f"{lines.name} has no words; a file in CoNLL form was expected, one word a line.")
        self._separator = "\t" if "\t" in rows[0] else None
        self._num_columns = len(rows[0].split(self._separator))
        self._word = self._index(columns.get("word", "form" if is_conllu else "1"), "word")
        # Without tags they are to be written behind the last column.
        last = max(2, self._num_columns) if labelled else self._num_columns + 1
        self._tag = self._index(columns.get("tag", "upos" if is_conllu else str(last)), "tag")
        self.columns = {"word": str(self._word + 1), "tag": str(self._tag + 1)}

    def __iter__(self) -> Iterator[TaggedSentence]:
        block: list[tuple[str, list[str] | None]] = []
        first = 1
        for line in self._lines:
            if line.strip():
                if not block:
                    first = self._lines.number
                block.append((line, self._split(line) if self._is_row(line) else None))
                continue
            yield from self._sentence(block, first)
            block = []
        yield from self._sentence(block, first)

    def begin(self) -> str:
        """Give nothing: the first sentence follows at once."""
        return ""

    def write(self, example: TaggedSentence, prediction: Any) -> str:
        """Give the lines of the sentence with the predicted tags in their column."""
        tags = iter(prediction.tags)
        written = []
        for line, cells in example.record:
            if cells is None:
                written.append(line)
                continue
            cells = list(cells)
            cells[self._tag : self._tag + 1] = [next(tags)]
            written.append(("\t" if self._separator else " ").join(cells))
        return "\n".join(written) + "\n\n"

    def end(self) -> str:
        """Give nothing."""
        return ""

    def _sentence(self, block: list[tuple[str, list[str] | None]], first: int) -> Iterator[TaggedSentence]:
        rows = [cells for _, cells in block if cells is not None]
        if not rows:
            return
        tags = tuple(cells[self._tag] for cells in rows) if self._tag < self._num_columns else None
        if self._labelled:
            for offset, (_, cells) in enumerate(block):
                if cells is not None and not cells[self._tag].strip():
                    raise InputError(f"{self._lines.name}, line {first + offset}: the tag is empty.")
        place = Place(self._lines.name, first)
        yield TaggedSentence(tuple(cells[self._word] for cells in rows), tags, place, block)

    def _split(self, line: str) -> list[str]:
        cells = line.split(self._separator)
        if len(cells) != self._num_columns:
            raise self._lines.fail(
                f"{len(cells)} column(s) in {line!r:.60}, but the first word has {self._num_columns}; every word "
                "must have the same."
            )
        return cells

    def _is_row(self, line: str) -> bool:
        if not line.strip() or line.startswith("-DOCSTART-"):
            return False
        if self._is_conllu:
            return not line.startswith("#") and not re.match(r"\d+[-.]\d+\t", line)
        return not re.match(r"# \S+ ?= ", line)

    def _index(self, name: str, role: str) -> int:
        if self._is_conllu and name.lower() in CONLLU_NAMES:
            return CONLLU_NAMES.index(name.lower())
        if not name.isdecimal() or not int(name):
            known = f", or one of {', '.join(CONLLU_NAMES)}" if self._is_conllu else ""
            raise InputError(f"--column {role}={name} is not the number of a column, from 1{known}.")
        index = int(name) - 1
        if index >= self._num_columns and (role == "word" or self._labelled):
            raise InputError(
                f"{self._lines.name} has {self._num_columns} column(s), so none is number {name} for the {role}s; "
                f"name the right one with --column {role}=NUMBER."
            )
        return index
