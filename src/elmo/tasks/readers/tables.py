"""CSV, TSV, JSON, TREC lines and records -> the examples of a family, and examples back to rows with predictions.

The columns of a table without a header are numbered from 1. columns.py assigns columns to roles.
"""

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from elmo.errors import InputError
from elmo.files.rows import Record, read_cells, read_json_lines
from elmo.files.sources import BrokenRow, Place
from elmo.tasks.examples import LabelledText, MarkedPair, Question, SentencePair, TaggedSentence
from elmo.tasks.readers.columns import find_columns, header_names
from elmo.tasks.readers.reader import Lines, Reader
from elmo.tasks.settings import TARGETS, ReadSettings, Records

_NUM_FIRST_ROWS = 200
_DELIMITERS = ",;\t|"
_TREC_LINE = re.compile(r"([A-Z]{2,}):(\S+) (.+)")  # LABEL:sublabel text


class Table:
    """The records of a table, one by one; `first_rows` and the names of the columns are read in advance."""

    def __init__(self, source: Lines | Records, family: str, settings: ReadSettings) -> None:
        self.name, self.format = source.name, settings.format
        self.has_header = settings.header
        self._delimiter = "\t"
        rows: Iterator[Record]
        if isinstance(source, Records):
            self.format = "json"
            rows = (Record(number, row) for number, row in enumerate(source.rows, start=1))
        elif self.format == "jsonl" or "".join(source.peek(1)).lstrip().startswith("{"):
            self.format = "jsonl"
            rows = self._check(read_json_lines(source))
        elif self.format == "json":
            rows = read_json_array("\n".join(source), self.name)
        elif self.format == "trec":
            rows = _read_trec(source)
        else:
            rows = self._read_separated(source, family, settings)
        self.is_json = self.format in ("json", "jsonl")
        self.first_rows = list(itertools.islice(rows, _NUM_FIRST_ROWS))
        if not self.first_rows:
            raise InputError(f"{self.name} is empty, or has only a header; a table of examples was expected.")
        self.names = list(dict.fromkeys(name for row in self.first_rows for name in row.fields))
        self._rows = itertools.chain(self.first_rows, rows)

    def __iter__(self) -> Iterator[Record]:
        return self._rows

    def place(self, record: Record) -> Place:
        """Return where a record begins."""
        return Place(self.name, record.number, "row" if self.format == "json" else "line")

    def find_column(self, name: str) -> str | None:
        """Find a column by its name, ignoring case, or by its number from 1 if the columns are ordered."""
        spellings = [column for column in self.names if column.lower().strip() == name.lower()]
        if name in self.names or spellings:
            return name if name in self.names else spellings[0]
        is_number = name.isdecimal() and not self.is_json and 1 <= int(name) <= len(self.names)
        return self.names[int(name) - 1] if is_number else None

    def write(self, rows: Iterable[dict[str, Any]]) -> Iterator[str]:
        """Yield the table with these rows as text."""
        if self.is_json:
            texts = (json.dumps(row, ensure_ascii=False) for row in rows)
            if self.format == "jsonl":
                yield from (f"{text}\n" for text in texts)
            else:
                yield f"[\n{next(texts)}"
                yield from (f",\n{text}" for text in texts)
                yield "\n]\n"
            return
        if self.has_header and self.format != "trec":
            yield self._format(self.names)
        for row in rows:
            yield self._format([str(row.get(name, "")) for name in self.names])

    def _format(self, cells: list[str]) -> str:
        if self.format == "trec":
            return f"{cells[0]}:{cells[1]} {cells[2]}\n"
        if self.format == "tsv":
            return "\t".join(cells) + "\n"
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n").writerow(cells)
        return text.getvalue()

    def _check(self, rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            if isinstance(row, BrokenRow):
                raise row.to_error(self.name)
            yield row

    def _read_separated(self, lines: Lines, family: str, settings: ReadSettings) -> Iterator[Record]:
        if self.format == "csv":
            self._delimiter = max(_DELIMITERS, key="".join(lines.peek(1)).count)
        rows = self._check(read_cells((line + "\n" for line in lines), self._delimiter, quoted=self.format == "csv"))
        rows = ((line, cells) for line, cells in rows if any(map(str.strip, cells)))
        line, names = next(rows, (1, []))
        if not names:
            return
        if self.has_header is None:
            usual_names = header_names(family, settings)
            self.has_header = any(cell.strip().lower() in usual_names for cell in names)
        if not self.has_header:
            rows = itertools.chain([(line, names)], rows)
            names = [str(number) for number in range(1, len(names) + 1)]
        if len(set(names)) != len(names):
            raise InputError(f"{self.name}, line {line}: two columns have the same name in {names!r:.80}.")
        for line, cells in rows:
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


def read_json_array(text: str, name: str) -> Iterator[Record]:
    """Yield the objects of a JSON array, numbered from 1; errors name the file and the line or row."""
    try:
        objects = json.loads(text)
    except (ValueError, RecursionError) as error:
        line, reason = getattr(error, "lineno", 1), getattr(error, "msg", str(error))
        raise InputError(f"{Place(name, line)}, is not a JSON array ({reason}).") from error
    if not isinstance(objects, list):
        raise InputError(f"{Place(name, 1)}: a JSON array of objects was expected.")
    for number, fields in enumerate(objects, start=1):
        if not isinstance(fields, dict):
            place = Place(name, number, "row")
            raise InputError(f"{place}, holds {json.dumps(fields):.40}; a JSON object was expected.")
        yield Record(number, fields)


class TableReader(Reader):
    """The examples of a table."""

    def __init__(self, source: Lines | Records, family: str, settings: ReadSettings, *, labelled: bool) -> None:
        """With `labelled`, each example must have a target."""
        self.table, self.family, self.labelled = Table(source, family, settings), family, labelled
        self.columns = find_columns(self.table, family, settings, labelled=labelled)
        self._target = self.columns.get(TARGETS[family])
        header = None if self.table.is_json else self.table.has_header
        self.settings = replace(settings, columns=self.columns, header=header)
        if labelled:
            self._detect([row.fields.get(self._target or "") for row in self.table.first_rows])
        self.tokenizer = self.settings.tokenizer(family)

    def _detect(self, targets: list[Any]) -> None:
        """Detect the settings that only the values of the targets reveal."""
        if self.family == "pairs" and self.settings.pair_target == "auto":
            self.settings = replace(self.settings, pair_target="score" if _are_scores(targets) else "label")
        if self.family == "tagging" and isinstance(targets[0], str):
            self.settings = replace(self.settings, split_on_spaces=True)  # like the tags

    def __iter__(self) -> Iterator[Any]:
        return map(self._example, self.table)

    def write(self, predicted: Iterable[tuple[Any, Any]]) -> Iterator[str]:
        """Yield the table with the predicted targets, in a new column if the input had none."""
        column = self._target or TARGETS[self.family]
        if column not in self.table.names:
            self.table.names.append(column)
        return self.table.write(self._fields(example, prediction, column) for example, prediction in predicted)

    def _fields(self, example: Any, prediction: Any, column: str) -> dict[str, Any]:
        """Return the fields of a row with the predicted target and, for an answer, its start."""
        fields = dict(example.record.fields)
        if isinstance(fields.get(column), dict):  # answers as in SQuAD on the Hugging Face Hub
            has_answer = bool(prediction.text)
            fields[column] = {"text": [prediction.text] * has_answer, "answer_start": [prediction.start] * has_answer}
        else:
            fields[column] = _format_target(prediction, is_json=self.table.is_json)
        if "start" in self.columns:
            fields[self.columns["start"]] = prediction.start
        return fields

    def _fail(self, record: Record, fault: str) -> InputError:
        return InputError(f"{self.table.place(record)}: {fault}")

    def _field(self, record: Record, role: str) -> Any:
        name = self.columns.get(role, "")
        value = record.fields.get(name)
        if value is None and (self.labelled or role != TARGETS[self.family]):
            raise self._fail(record, f"the {role} ({name!r}) is missing; add it, or remove the example.")
        return value

    def _words(self, record: Record, role: str) -> tuple[str, ...]:
        value = self._field(record, role)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return tuple(value)
        if not isinstance(value, str):
            raise self._fail(record, f"the {role} is {value!r:.60}; a text or a list of words was expected.")
        return tuple(word.text for word in self.tokenizer(value))

    def _label(self, record: Record) -> str | None:
        value = self._field(record, "label")
        if value is None or (not self.labelled and value == ""):
            return None
        if isinstance(value, list | dict) or not str(value).strip():
            raise self._fail(record, f"the label is {value!r:.60}; a name or a number was expected.")
        return str(value).strip()

    def _tags(self, record: Record, num_words: int) -> tuple[str, ...] | None:
        value = self._field(record, "tag")
        tags = value.split() if isinstance(value, str) else value
        if tags is None or (isinstance(tags, list) and (len(tags) == num_words or not self.labelled)):
            return None if tags is None else tuple(map(str, tags))
        count = f"{len(tags)} tags" if isinstance(tags, list) else f"{tags!r:.40}"
        raise self._fail(record, f"{count} for {num_words} words; one tag per word was expected.")

    def _example(self, record: Record) -> Any:
        family, place = self.family, self.table.place(record)
        if family == "tagging":
            words = self._words(record, "word")
            return TaggedSentence(words, self._tags(record, len(words)), place=place, record=record)
        if family == "question_answering":
            question, passage = str(self._field(record, "question")), str(self._field(record, "passage"))
            answers = self._answers(record)
            return Question.parse(question, passage, answers, self.tokenizer, place, record=record)
        label = self._label(record)
        if family == "relations":
            return MarkedPair.parse(str(self._field(record, "text")), label, self.tokenizer, place, record)
        if family == "classification":
            return LabelledText(self._words(record, "text"), label, place=place, record=record)
        target: str | float | None = label
        if label is not None and self.settings.pair_target == "score":
            target = self._read_score(label, record)
        first, second = self._words(record, "first"), self._words(record, "second")
        return SentencePair(first, second, target, place=place, record=record)

    def _answers(self, record: Record) -> list[tuple[str, int | None]]:
        value, start = self._field(record, "answer"), record.fields.get(self.columns.get("start", ""))
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


def _format_target(prediction: Any, *, is_json: bool) -> Any:
    if hasattr(prediction, "tags"):
        return list(prediction.tags) if is_json else " ".join(prediction.tags)
    if hasattr(prediction, "score"):
        return round(prediction.score, 4)
    return prediction.label if hasattr(prediction, "label") else prediction.text


def _are_scores(values: list[Any]) -> bool:
    """Return whether values are scores; whole numbers alone may also be class labels."""
    try:
        return any(not float(value).is_integer() for value in values)
    except (TypeError, ValueError):
        return False
