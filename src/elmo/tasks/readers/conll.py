"""CoNLL and CoNLL-U: one word per line with its columns, an empty line after each sentence.

Columns are specified by number from 1, or by name in CoNLL-U; by default, the first is the word and the last the
tag. Other lines (comments, -DOCSTART-, ranges and empty nodes of CoNLL-U) are kept and written back in place.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from elmo.errors import InputError
from elmo.files.sources import Place
from elmo.tasks.examples import TaggedSentence
from elmo.tasks.readers.reader import Lines, Reader
from elmo.tasks.settings import ReadSettings

CONLLU_NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
# A line that begins with # may also be a word: a hash sign or a hashtag.
_OTHER_LINE = re.compile(r"# \S+ ?= |# id |#(?:begin|end) document\b|-DOCSTART-")
_OTHER_LINE_OF_CONLLU = re.compile(r"#|\d+[-.]\d+\t")
_NUM_LINES_AHEAD = 1000
_Block: TypeAlias = list[tuple[str, list[str] | None]]  # lines, each with its cells if it is a word


class ConllReader(Reader):
    """Sentences of a CoNLL or CoNLL-U file; roles `word` and `tag`."""

    def __init__(self, lines: Lines, family: str, settings: ReadSettings, *, labelled: bool) -> None:
        """With `labelled`, each word must have a tag."""
        super().__init__(lines, family, settings, labelled=labelled)
        self._is_conllu = settings.format == "conllu"
        self._rest: _Block = []
        first = next((line for line in lines.peek(_NUM_LINES_AHEAD) if self._is_row(line)), None)
        if first is None:
            raise InputError(f"{lines.name} has no words; a file in CoNLL format was expected, one word per line.")
        self._has_tabs = "\t" in first
        self._num_columns = len(self._split_cells(first))
        last = str(max(2, self._num_columns) if labelled else self._num_columns + 1)
        names = {"word": "form", "tag": "upos"} if self._is_conllu else {"word": "1", "tag": last}
        self._word, self._tag = (self._column_index(settings.columns.get(role, names[role]), role) for role in names)
        columns = {"word": str(self._word + 1), "tag": str(self._tag + 1)}
        self.settings = replace(settings, columns=columns)

    def __iter__(self) -> Iterator[TaggedSentence]:
        block: _Block = []
        first, has_words = 1, False
        for line in self.lines:
            if line.strip():
                if not block or not block[-1][0]:
                    first = self.lines.number
                cells = self._parse_row(line) if self._is_row(line) else None
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

    def write(self, predicted: Iterable[tuple[TaggedSentence, Any]]) -> Iterator[str]:
        """Yield all lines, with the predicted tags in their column."""
        separator = "\t" if self._has_tabs else " "
        for example, prediction in predicted:
            tags = iter(prediction.tags)
            for line, cells in example.record:
                if cells is not None:
                    line = separator.join([*cells[: self._tag], next(tags), *cells[self._tag + 1 :]])
                yield f"{line}\n"
            yield "\n"
        yield from (f"{line}\n" for line, _ in self._rest)

    def _sentence(self, block: _Block, first: int) -> TaggedSentence:
        rows = [cells for _, cells in block if cells is not None]
        tags = tuple(cells[self._tag] for cells in rows) if self._tag < self._num_columns else None
        place = Place(self.lines.name, first)
        return TaggedSentence(tuple(cells[self._word] for cells in rows), tags, place=place, record=block)

    def _is_row(self, line: str) -> bool:
        other_line = _OTHER_LINE_OF_CONLLU if self._is_conllu else _OTHER_LINE
        return bool(line.strip()) and not other_line.match(line)

    def _split_cells(self, line: str) -> list[str]:
        # Not at all white space: 10\u00a0000 is one word.
        return line.split("\t") if self._has_tabs else re.split(r"[ \t]+", line.strip(" \t"))

    def _parse_row(self, line: str) -> list[str]:
        cells = self._split_cells(line)
        if len(cells) != self._num_columns:
            raise self.lines.fail(
                f"{len(cells)} column(s) in {line!r:.60}, but the first word has {self._num_columns}; every word "
                "must have the same number."
            )
        if self.labelled and not cells[self._tag].strip():
            raise self.lines.fail("the tag is empty.")
        return cells

    def _column_index(self, name: str, role: str) -> int:
        if self._is_conllu and name.lower() in CONLLU_NAMES:
            name = str(CONLLU_NAMES.index(name.lower()) + 1)
        if not name.isdecimal() or not int(name):
            known = f", or one of {', '.join(CONLLU_NAMES)}" if self._is_conllu else ""
            raise InputError(f"--column {role}={name} is not the number of a column, from 1{known}.")
        index = int(name) - 1
        if index >= self._num_columns and (role == "word" or self.labelled):
            raise InputError(
                f"{self.lines.name} has {self._num_columns} column(s), but the {role} should be in column {name}; "
                f"specify the right one with --column {role}=NUMBER."
            )
        return index
