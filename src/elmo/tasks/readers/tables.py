"""CSV, TSV, JSON, TREC lines and records -> the examples of a family, and examples back to rows with predictions.

Columns of a table without a header are named by number, from 1. columns.py says which one has which role.
"""

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from elmo.errors import InputError
from elmo.files.rows import Record, read_cells, read_json_array, read_json_lines
from elmo.files.sources import BrokenRow, Lines, Place
from elmo.tasks.examples import LabelledText, MarkedPair, Question, Reader, SentencePair, TaggedSentence
from elmo.tasks.readers.columns import find_columns, get_field
from elmo.tasks.settings import TARGETS, ReadSettings, Records

TableKind: TypeAlias = Literal["csv", "tsv", "jsonl", "json", "trec"]
_NUM_FIRST_ROWS = 200
_DELIMITERS = ",;\t|"
_TREC_LINE = re.compile(r"([A-Z]{2,}):(\S+) (.+)")  # LABEL:sublabel text


class Table:
    """The records of a table, one by one; `first_rows` are known before, and so are the names of the columns."""

    def __init__(
        self, source: Lines | Records, kind: TableKind, header: bool | None, names: Collection[str] = ()
    ) -> None:
        """The first row is a header as `header` says, or if that is None, if it has one of `names`."""
        self.kind, self.name = kind, source.name
        self.is_json = kind in ("json", "jsonl")
        self.has_header, self._delimiter, self._num_written = header, "\t", 0
        self._unit = "row" if isinstance(source, Records) or kind == "json" else "line"
        rows: Iterator[Record]
        if isinstance(source, Records):
            rows = (Record(number, row) for number, row in enumerate(source.rows, start=1))
        elif kind == "json":
            rows = read_json_array("\n".join(source), self.name)
        elif kind == "jsonl":
            rows = self._readable(read_json_lines(source))
        else:
            rows = _read_trec(source) if kind == "trec" else self._read_separated(source, names)
        self.first_rows = list(itertools.islice(rows, _NUM_FIRST_ROWS))
        if not self.first_rows:
            raise InputError(f"{self.name} is empty, or has only a header; a table of examples was expected.")
        self.names = list(dict.fromkeys(name for row in self.first_rows for name in row.fields))
        self._rows = itertools.chain(self.first_rows, rows)

    def __iter__(self) -> Iterator[Record]:
        return self._rows

    def place(self, record: Record) -> Place:
        """Return where a record begins."""
        return Place(self.name, record.number, self._unit)

    def begin(self) -> str:
        """Return the header, or what opens an array; columns that a prediction adds are known by then."""
        if self.kind == "json":
            return "[\n"
        return self._format(self.names) if self.has_header and self.kind != "trec" else ""

    def write(self, record: Record, changes: dict[str, Any]) -> str:
        """Return a row with some fields changed; a new field becomes the last."""
        fields = record.fields
        for name, value in changes.items():
            fields = _with_field(fields, name, value)
        if not self.is_json:
            return self._format([str(fields.get(name, "")) for name in self.names])
        self._num_written += 1
        text = json.dumps(fields, ensure_ascii=False)
        return text + "\n" if self.kind == "jsonl" else text if self._num_written == 1 else ",\n" + text

    def end(self) -> str:
        """Return what closes an array."""
        return "\n]\n" if self.kind == "json" else ""

    def _format(self, cells: list[str]) -> str:
        if self.kind == "trec":
            return f"{cells[0]}:{cells[1]} {cells[2]}\n"
        if self.kind == "tsv":
            return "\t".join(cells) + "\n"
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n").writerow(cells)
        return text.getvalue()

    def _readable(self, rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            if isinstance(row, BrokenRow):
                raise row.to_error(self.name)
            yield row

    def _read_separated(self, lines: Lines, header_names: Collection[str]) -> Iterator[Record]:
        if self.kind == "csv":
            self._delimiter = max(_DELIMITERS, key="".join(lines.peek(1)).count)
        rows = read_cells((line + "\n" for line in lines), self._delimiter, quoted=self.kind == "csv")
        names: list[str] = []
        for line, cells in self._readable(rows):
            if not any(map(str.strip, cells)):
                continue
            if not names:
                if self.has_header is None:
                    self.has_header = any(cell.strip().lower() in header_names for cell in cells)
                names = cells if self.has_header else [str(number) for number in range(1, len(cells) + 1)]
                if len(set(names)) != len(names):
                    raise InputError(f"{self.name}, line 1: two columns have the same name in {names!r:.80}.")
                if self.has_header:
                    continue
            if len(cells) != len(names):
                raise InputError(
                    f"{self.name}, line {line}: {len(cells)} columns, but the first row has {len(names)}; every "
                    "row must have the same number."
                )
            yield Record(line, dict(zip(names, cells, strict=True)))


def _read_trec(lines: Lines) -> Iterator[Record]:
    for line in filter(str.strip, lines):
        match = _TREC_LINE.match(line)
        if match is None:
            raise lines.fail(f"{line!r:.60} is not LABEL:sublabel text, as TREC's questions are.")
        yield Record(lines.number, dict(zip(("label", "sublabel", "text"), match.groups(), strict=True)))


def _with_field(fields: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    outer, dot, inner = name.partition(".")
    if name not in fields and dot and isinstance(fields.get(outer), dict):
        return {**fields, outer: _with_field(fields[outer], inner, value)}
    return {**fields, name: value}


class TableReader(Reader):
    """The examples of a table; `settings` read other tables in the same way."""

    def __init__(self, table: Table, family: str, settings: ReadSettings, *, labelled: bool) -> None:
        """With `labelled`, every row must have its target."""
        self.table, self._family, self._labelled = table, family, labelled
        self.columns = find_columns(
            table, family, settings.columns, labelled=labelled, prefers_scores=settings.pair_target == "score"
        )
        self._target = self.columns.get(TARGETS[family])
        self.settings = replace(settings, header=None if table.is_json else table.has_header)
        if labelled:
            self._detect([get_field(row.fields, self._target or "") for row in table.first_rows])
        self._tokenizer = self.settings.tokenizer(family)

    def _detect(self, targets: list[Any]) -> None:
        """Set what the values of the targets say, and what unlabelled tables do not."""
        detected: dict[str, Any] = {}
        if self.table.is_json:
            detected["integer_labels"] = all(type(target) is int for target in targets)
        if self._family == "pairs" and self.settings.pair_target == "auto":
            detected["pair_target"] = "score" if _are_scores(targets) else "label"
        if self._family == "tagging" and "sentence" not in self.columns and isinstance(targets[0], str):
            detected["split_on_spaces"] = True  # like the tags
        self.settings = replace(self.settings, **detected)

    def __iter__(self) -> Iterator[Any]:
        if "sentence" in self.columns:
            return map(self._tagged_rows, self._sentences())
        return map(self._example, self.table)

    def begin(self) -> str:
        """Return the header, with the target's column even if the input had none."""
        self._target = self._target or TARGETS[self._family]
        if self._target not in self.table.names and not self.table.is_json:
            self.table.names.append(self._target)
        return self.table.begin()

    def write(self, example: Any, prediction: Any) -> str:
        """Return the row with the predicted target, and for an answer also where it starts."""
        assert self._target is not None
        if "sentence" in self.columns:
            rows = zip(example.record, prediction.tags, strict=True)
            return "".join(self.table.write(row, {self._target: tag}) for row, tag in rows)
        target = _target_of(prediction, is_json=self.table.is_json)
        if self.settings.integer_labels and self.table.is_json and str(target).removeprefix("-").isdecimal():
            target = int(target)  # --map-label may have given it a name
        if isinstance(get_field(example.record.fields, self._target), dict):  # answers as on the hub
            has_answer = bool(prediction.text)
            target = {"text": [prediction.text] * has_answer, "answer_start": [prediction.start] * has_answer}
        changes: dict[str, Any] = {self._target: target}
        if "start" in self.columns:
            changes[self.columns["start"]] = prediction.start
        return self.table.write(example.record, changes)

    def end(self) -> str:
        """Return what closes the table."""
        return self.table.end()

    def _fail(self, record: Record, fault: str) -> InputError:
        return InputError(f"{self.table.place(record)}: {fault}")

    def _field(self, record: Record, role: str) -> Any:
        name = self.columns.get(role)
        value = None if name is None else get_field(record.fields, name)
        if value is None and (self._labelled or role != TARGETS[self._family]):
            raise self._fail(record, f"the {role} ({name!r}) is missing; add it, or remove the example.")
        return value

    def _words(self, record: Record, role: str) -> tuple[str, ...]:
        value = self._field(record, role)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return tuple(value)
        if not isinstance(value, str):
            raise self._fail(record, f"the {role} is {value!r:.60}; a text or a list of words was expected.")
        return tuple(word.text for word in self._tokenizer(value))

    def _label(self, record: Record) -> str | None:
        value = self._field(record, "label")
        if value is None or (not self._labelled and value == ""):
            return None
        if isinstance(value, list | dict) or not str(value).strip():
            raise self._fail(record, f"the label is {value!r:.60}; a name or a number was expected.")
        return str(value).strip()

    def _sentences(self) -> Iterator[list[Record]]:
        """Yield the rows of each sentence: a number holds for all rows until the next one."""
        rows: list[Record] = []
        last = None
        for record in self.table:
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
        if self._labelled and not all(tags):
            raise self._fail(rows[[bool(tag) for tag in tags].index(False)], "the tag is empty; add it.")
        known = tuple(map(str, tags)) if all(tags) else None
        return TaggedSentence(words, known, place=self.table.place(rows[0]), record=rows)

    def _example(self, record: Record) -> Any:
        family, place = self._family, self.table.place(record)
        if family == "tagging":
            words, tags = self._words(record, "word"), self._field(record, "tag")
            tags = tags.split() if isinstance(tags, str) else tags
            if tags is not None and (not isinstance(tags, list) or (self._labelled and len(tags) != len(words))):
                count = f"{len(tags)} tags" if isinstance(tags, list) else f"{tags!r:.40}"
                raise self._fail(record, f"{count} for {len(words)} words; one tag per word was expected.")
            known = None if tags is None else tuple(map(str, tags))
            return TaggedSentence(words, known, place=place, record=record)
        if family == "question_answering":
            question, passage = str(self._field(record, "question")), str(self._field(record, "passage"))
            answers = self._answers(record)
            return Question.parse(question, passage, answers, self._tokenizer, place, record=record)
        label = self._label(record)
        if family == "relations":
            return MarkedPair.parse(str(self._field(record, "text")), label, self._tokenizer, place, record)
        if family == "classification":
            return LabelledText(self._words(record, "text"), label, place=place, record=record)
        target: str | float | None = label
        if label is not None and self.settings.pair_target == "score":
            target = self._read_score(label, record)
        first, second = self._words(record, "first"), self._words(record, "second")
        return SentencePair(first, second, target, place=place, record=record)

    def _answers(self, record: Record) -> list[tuple[str, int | None]]:
        value = self._field(record, "answer")
        start = get_field(record.fields, self.columns["start"]) if "start" in self.columns else None
        if isinstance(value, dict):  # {"text": [...], "answer_start": [...]}
            start, value = value.get("answer_start"), value.get("text")
        texts = value if isinstance(value, list) else [value] if value else []
        starts = start if isinstance(start, list) else [start] * len(texts)
        try:
            return [
                (str(text), None if place in (None, "") else int(place))
                for text, place in itertools.zip_longest(texts, starts[: len(texts)])
            ]
        except (TypeError, ValueError) as error:
            raise self._fail(record, f"the answer's start is {start!r:.40}; a number was expected.") from error

    def _read_score(self, value: str, record: Record) -> float:
        try:
            score = float(value)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise self._fail(record, f"the score is {value!r:.40}; a number was expected.")
        return score


def _target_of(prediction: Any, *, is_json: bool) -> Any:
    if hasattr(prediction, "tags"):
        return list(prediction.tags) if is_json else " ".join(prediction.tags)
    if hasattr(prediction, "score"):
        return round(prediction.score, 4)
    return prediction.label if hasattr(prediction, "label") else prediction.text


def _are_scores(values: list[Any]) -> bool:
    """Return whether values are numbers on a scale; names of classes may be whole numbers too."""
    try:
        return any(not float(value).is_integer() for value in values)
    except (TypeError, ValueError):
        return False
