"""Records of a table -> the examples of a family."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from elmo.errors import InputError
from elmo.tasks.examples import LabelledText, MarkedPair, Place, Question, SentencePair, TaggedSentence
from elmo.tasks.readers.columns import TARGETS, find_columns
from elmo.tasks.readers.semeval import read_marked
from elmo.tasks.readers.squad import make_question
from elmo.tasks.readers.tables import Record, Table, get_field
from elmo.text.tokenize import split_on_spaces, tokenize

PairTarget: TypeAlias = Literal["auto", "label", "score"]


class TableReader:
    """Examples of a table of any kind."""

    def __init__(
        self,
        table: Table,
        file: str,
        family: str,
        *,
        columns: Mapping[str, str],
        labelled: bool,
        pair_target: PairTarget = "auto",
        on_spaces: bool = False,
        integer_labels: bool = False,
    ) -> None:
        """`on_spaces`: the words are what stands between spaces; else texts are tokenized."""
        self.columns = find_columns(
            table, file, family, columns, labelled=labelled, prefers_scores=pair_target == "score"
        )
        self._table, self._family, self._labelled, self._on_spaces = table, family, labelled, on_spaces
        self._target = self.columns.get(TARGETS[family])
        self.has_integer_labels = integer_labels
        if labelled and self._is_json:
            values = [get_field(row.fields, self._target or "") for row in table.first_rows]
            self.has_integer_labels = all(type(value) is int for value in values)
        self._makers: dict[str, Callable[[Record], Any]] = {
            "tagging": self._tagged, "classification": self._text, "pairs": self._pair,
            "relations": self._relation, "spans": self._question,
        }  # fmt: skip
        self.pair_target = pair_target
        if family == "pairs" and pair_target == "auto" and labelled:
            values = [str(get_field(row.fields, self._target or "") or "") for row in table.first_rows]
            self.pair_target = "score" if _are_scores(values) else "label"
        if family == "tagging" and labelled and not on_spaces and "sentence" not in self.columns:
            self._on_spaces = all(map(self._is_split_already, table.first_rows))

    @property
    def has_header(self) -> bool:
        """Whether the first row names the columns."""
        return self._table.has_header

    @property
    def delimiter(self) -> str | None:
        """What stands between two cells; None for JSON."""
        return self._table.delimiter

    @property
    def num_columns(self) -> int:
        """How many columns the table has."""
        return len(self._table.names)

    @property
    def is_positional(self) -> bool:
        """Whether columns are known by their place alone."""
        return not self._is_json and not self._table.has_header

    @property
    def first_rows(self) -> list[Record]:
        """The rows that were looked at ahead."""
        return self._table.first_rows

    @property
    def on_spaces(self) -> bool:
        """Whether the words are what stands between spaces."""
        return self._on_spaces

    def _is_split_already(self, record: Record) -> bool:
        """Whether the tags of a text are as many as the words between its spaces."""
        text, tags = (get_field(record.fields, self.columns[role]) for role in ("word", "tag"))
        num_tags = len(tags.split() if isinstance(tags, str) else tags or ())
        return isinstance(text, str) and len(split_on_spaces(text)) == num_tags

    def __iter__(self) -> Iterator[Any]:
        if "sentence" in self.columns:
            for group in self._sentences():
                yield self._tagged_rows(group)
            return
        make = self._makers[self._family]
        for record in self._table:
            yield make(record)

    def _sentences(self) -> Iterator[list[Record]]:
        """Give the rows of each sentence: a number is that of all rows until the next one."""
        rows: list[Record] = []
        last = None
        for record in self._table:
            number = record.fields.get(self.columns["sentence"])
            if rows and number not in (None, "", last):
                yield rows
                rows = []
            last = number if number not in (None, "") else last
            rows.append(record)
        yield rows

    def _tagged_rows(self, rows: list[Record]) -> TaggedSentence:
        words = tuple(str(self._field(row, "word")).strip() for row in rows)
        tags = [self._field(row, "tag") for row in rows]
        if self._labelled and (empty := next((row for row, tag in zip(rows, tags, strict=True) if not tag), None)):
            raise InputError(f"{empty.place}: the tag is empty; give one, or take the sentence out.")
        known = tuple(map(str, tags)) if all(tags) else None
        return TaggedSentence(words, known, rows[0].place, record=rows)

    def begin(self) -> str:
        """Give the header, with the target's column even if the input had none."""
        if self._target is None:
            self._target = TARGETS[self._family]
        if self._target not in self._table.names and not self._is_json:
            self._table.names.append(self._target)
        return self._table.begin()

    def write(self, example: Any, prediction: Any) -> str:
        """Give the row with the predicted target, and for an answer also where it starts."""
        assert self._target is not None
        if "sentence" in self.columns:
            rows = zip(example.record, prediction.tags, strict=True)
            return "".join(self._table.write(row, {self._target: tag}) for row, tag in rows)
        target = _target_of(prediction, is_json=self._is_json)
        if self.has_integer_labels and self._is_json and str(target).removeprefix("-").isdecimal():
            target = int(target)  # not so where --map-label gave it a name
        if isinstance(get_field(example.record.fields, self._target), dict):  # answers as on the hub
            found = [(prediction.text, prediction.start)] if prediction.text else []
            target = {"text": [text for text, _ in found], "answer_start": [start for _, start in found]}
        changes: dict[str, Any] = {self._target: target}
        if "start" in self.columns:
            changes[self.columns["start"]] = prediction.start
        return self._table.write(example.record, changes)

    def end(self) -> str:
        """Give what closes the table."""
        return self._table.end()

    @property
    def _is_json(self) -> bool:
        return self._table.kind in ("json", "jsonl")

    def _field(self, record: Record, role: str) -> Any:
        name = self.columns.get(role)
        value = None if name is None else get_field(record.fields, name)
        if value is None and (self._labelled or role != TARGETS[self._family]):
            raise InputError(
                f"{record.place}: the {role} ({name!r}) is missing; give one, or take the example out."
            )
        return value

    def _words(self, record: Record, role: str) -> tuple[str, ...]:
        value = self._field(record, role)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return tuple(value)
        if not isinstance(value, str):
            raise InputError(
                f"{record.place}: the {role} is {value!r:.60}; a text or a list of words was expected."
            )
        return tuple(word.text for word in (split_on_spaces if self._on_spaces else tokenize)(value))

    def _label(self, record: Record) -> str | None:
        value = self._field(record, "label")
        if value is None or (not self._labelled and value == ""):
            return None
        if not str(value).strip():
            raise InputError(f"{record.place}: the label is empty; give one, or take the example out.")
        if isinstance(value, list | dict):
            raise InputError(f"{record.place}: the label is {value!r:.60}; a name or a number was expected.")
        return str(value).strip()

    def _tagged(self, record: Record) -> TaggedSentence:
        words = self._words(record, "word")
        tags = self._field(record, "tag")
        if isinstance(tags, str):
            tags = tags.split()
        if tags is not None and (not isinstance(tags, list) or (self._labelled and len(tags) != len(words))):
            count = f"{len(tags)} tags" if isinstance(tags, list) else f"{tags!r:.40}"
            raise InputError(f"{record.place}: {count} for {len(words)} words; one tag a word was expected.")
        return TaggedSentence(words, None if tags is None else tuple(map(str, tags)), record.place, record=record)

    def _text(self, record: Record) -> LabelledText:
        return LabelledText(self._words(record, "text"), self._label(record), record.place, record=record)

    def _pair(self, record: Record) -> SentencePair:
        target: str | float | None = self._label(record)
        if target is not None and self.pair_target == "score":
            target = _read_score(str(target), record.place)
        return SentencePair(
            self._words(record, "first"), self._words(record, "second"), target, record.place, record=record
        )

    def _relation(self, record: Record) -> MarkedPair:
        words, first, second = read_marked(str(self._field(record, "text")), record.place)
        return MarkedPair(words, first, second, self._label(record), record.place, record=record)

    def _question(self, record: Record) -> Question:
        question, passage = str(self._field(record, "question")), str(self._field(record, "passage"))
        return make_question(question, passage, self._answers(record), record.place, "", record=record)

    def _answers(self, record: Record) -> list[tuple[str, int | None]]:
        value = self._field(record, "answer")
        start = get_field(record.fields, self.columns["start"]) if "start" in self.columns else None
        if value is None or value == "":
            return []
        if isinstance(value, dict):  # {"text": [...], "answer_start": [...]}
            texts, starts = value.get("text"), value.get("answer_start")
            value, start = (texts, starts) if isinstance(texts, list) else ([texts], [starts])
        texts = value if isinstance(value, list) else [value]
        starts = start if isinstance(start, list) else [start] * len(texts)
        pairs = [
            (item.get("text"), item.get("answer_start")) if isinstance(item, dict) else (item, place)
            for item, place in zip(texts, [*starts, *[None] * len(texts)], strict=False)
        ]
        try:
            return [(str(text), None if place in (None, "") else int(place)) for text, place in pairs]
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{record.place}: the answer's start is {start!r:.40}; a number was expected."
            ) from error


def _target_of(prediction: Any, *, is_json: bool) -> Any:
    for name in ("tags", "label", "score", "text"):
        value = getattr(prediction, name, None)
        if value is not None:
            if name == "tags":
                return list(value) if is_json else " ".join(value)
            return round(value, 4) if name == "score" else value
    raise AssertionError(f"{type(prediction).__name__} has nothing to write")


def _are_scores(values: list[str]) -> bool:
    """Tell numbers on a scale from names of classes, which may be whole numbers too."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return False
    return any(not number.is_integer() for number in numbers)


def _read_score(value: str, place: Place) -> float:
    try:
        score = float(value)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{place}: the score is {value!r:.40}; a number was expected.")
    return score
