"""Files of examples: which format a file has, by its name and content, and the reader of it.

Labelled files are read as they look; what is to be predicted may be plain text too. A line of words is never taken
for one row of CoNLL or of a table; what could be either is refused.
"""

import csv
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from elmo.errors import InputError
from elmo.files.rows import SeparatedRows
from elmo.files.sources import STDIN, Lines
from elmo.tasks.readers.columns import COLUMN_NAMES, MOST_NAME_WORDS, TARGETS, get_field
from elmo.tasks.readers.conll import ConllReader, looks_like_conllu
from elmo.tasks.readers.datasets import SemevalReader, SquadReader, TreeReader, WsdReader
from elmo.tasks.readers.plain_text import PlainTextReader
from elmo.tasks.readers.tables import Table, TableKind, TableReader
from elmo.tasks.settings import ReadSettings
from elmo.text.tokenize import tokenize

_TABLES: tuple[TableKind, ...] = ("csv", "tsv", "jsonl", "json")
_DATASETS: dict[str, Any] = {"trees": TreeReader, "semeval": SemevalReader, "squad": SquadReader, "wsd": WsdReader}
FORMATS: dict[str, tuple[str, ...]] = {
    "tagging": ("conll", "conllu", *_TABLES),
    "classification": (*_TABLES, "trees"),
    "pairs": _TABLES,
    "relations": ("semeval", *_TABLES),
    "question_answering": ("squad", *_TABLES),
    "senses": ("wsd",),
}
SUFFIXES = {
    ".conllu": "conllu", ".conll": "conll", ".iob": "conll", ".iob2": "conll", ".bio": "conll", ".csv": "csv",
    ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".xml": "wsd", ".ptb": "trees",
}  # fmt: skip
PLACEHOLDERS = frozenset(("", "_", "-", "?", "O", "X"))  # for no label or tag
_LINES_LOOKED_AT = 1000
# A line without spaces that is tokenized to more words is a sentence of a script without spaces.
_MOST_PIECES_OF_A_WORD = 3
_TAG_LIKE = re.compile(r"[^a-z]+|[A-Z]+-\S+|[*(][^\s]*")
_COMMENT = re.compile(r"#|-DOCSTART-")
_FILE_ADVICE = "name a file of examples"


class Reader(Protocol):
    """One open input. `columns` says which part of it has which role, for reading other files alike."""

    columns: dict[str, str]

    def __iter__(self) -> Iterator[Any]:
        """Yield the examples."""
        ...

    def begin(self) -> str:
        """Return what stands before the first example of an output in this format."""
        ...

    def write(self, example: Any, prediction: Any) -> str:
        """Return an example that this reader read as text, with the prediction in place of its target."""
        ...

    def end(self) -> str:
        """Return what stands after the last example."""
        ...


class OpenedReader(NamedTuple):
    """A reader with what was detected, for reading other files alike."""

    reader: Reader
    settings: ReadSettings


def open_reader(
    source: str | Lines,
    family: str,
    settings: ReadSettings,
    *,
    labelled: bool = True,
    sense_entries: Collection[str] = (),
) -> OpenedReader:
    """Open a file (or "-", standard input) of examples of a family. `labelled`: their targets must be there.

    `sense_entries` are the lemmas that a sense task knows, for marked words of plain text.
    """
    lines = source if isinstance(source, Lines) else Lines(source, advice=_FILE_ADVICE)
    detected = _detect_labelled(lines, family)  # reports an empty file too
    format = settings.format or detected
    choices = [name for name in ("text", *FORMATS[family]) if not labelled or name != "text"]
    if format not in (known for formats in (("text",), *FORMATS.values()) for known in formats):
        raise InputError(f"--format {format!r} is not known; choose one of {', '.join(choices)}.")
    if format == "text" and labelled:
        raise InputError(f"{lines.name} is plain text, which has no labels; choose one of {', '.join(choices)}.")
    if format not in choices:
        raise InputError(f"{lines.name} is {format}, but {family} reads {', '.join(choices)}; set --format.")
    if format == "text":
        plain = PlainTextReader(lines, family, on_spaces=settings.split_on_spaces, sense_entries=sense_entries)
        return OpenedReader(plain, replace(settings, format=format, columns={}))
    if settings.columns and format in _DATASETS:
        raise InputError(f"--column was given, but {lines.name} is {format}, which has no columns to choose from.")
    if format in _DATASETS:
        return OpenedReader(_DATASETS[format](lines, labelled=labelled), replace(settings, format=format))
    if format in ("conll", "conllu"):
        conll = ConllReader(lines, is_conllu=format == "conllu", columns=settings.columns, labelled=labelled)
        return OpenedReader(conll, replace(settings, format=format, columns=conll.columns))
    return _open_table(lines, family, format, settings, labelled=labelled)


def _open_table(lines: Lines, family: str, format: Any, settings: ReadSettings, *, labelled: bool) -> OpenedReader:
    table = Table(lines, format, header=settings.header, delimiter=settings.delimiter)
    if settings.num_columns is not None and not table.has_header and len(table.names) > settings.num_columns:
        # The end of a text would be lost.
        raise InputError(
            f"{lines.name}, line 1: {len(table.names)} columns, but the table that training read has "
            f"{settings.num_columns}; put quotes around a text that holds {table.delimiter!r}."
        )
    reader = TableReader(table, family, settings, labelled=labelled)
    # A file of the same kind is read in the same way, even if detection would differ.
    found = replace(
        settings,
        format=format,
        columns=reader.columns,
        header=None if table.is_json else table.has_header,
        pair_target=reader.pair_target,
        split_on_spaces=reader.on_spaces,
        integer_labels=reader.has_integer_labels,
        delimiter=table.delimiter if table.is_positional else None,
        num_columns=len(table.names) if table.is_positional else None,
    )
    return OpenedReader(reader, found)


def _detect_labelled(lines: Lines, family: str) -> str:
    ahead = [line for line in lines.peek(100) if line.strip()]
    if not ahead:
        raise InputError(f"{lines.name} is empty; examples were expected.")
    first = ahead[0].lstrip()
    if (format := SUFFIXES.get(lines.suffix)) is not None:
        return "conllu" if format == "conll" and looks_like_conllu(ahead) else format
    if first.startswith("["):
        return "json"
    if first.startswith("{"):
        is_squad = '"data"' in first[:2000] or not first.rstrip().endswith("}")
        return "squad" if family == "question_answering" and is_squad else "jsonl"
    if family == "tagging":
        return "conllu" if looks_like_conllu(ahead) else "conll"
    if family == "classification" and first.startswith("(") and first.rstrip().endswith(")"):
        return "trees"
    if family == "relations" and "<e1>" in first and first.split("\t")[0].isdigit():
        return "semeval"
    if family == "senses":
        return "wsd"
    return "tsv" if all("\t" in line for line in ahead) else "csv"


# --- input of a trained task


def settings_for_labelled(
    path: str,
    family: str,
    trained: ReadSettings,
    *,
    format: str | None,
    columns: Mapping[str, str],
    header: bool | None,
) -> ReadSettings:
    """Return how to read a labelled file: as in training if it has the same format, else as the options say."""
    detected = None if path == STDIN else _detect_labelled(Lines(path, advice=_FILE_ADVICE), family)
    return _change(trained, format or detected or trained.format, columns, header, set_format=format)


def settings_for_input(
    lines: Lines,
    family: str,
    trained: ReadSettings,
    known: Collection[str],
    *,
    format: str | None,
    columns: Mapping[str, str],
    header: bool | None,
) -> ReadSettings:
    """Return how to read an input to predict: as the options say, else as it looks, else as in training.

    `known` are the labels or tags of the task.
    """
    if format is None and (columns or header is not None):
        format = SUFFIXES.get(lines.suffix) or _detect_with_columns(lines, family, trained)
    named = format or _detect(lines, family, trained, known)
    if named == "text":
        if columns or header is not None:
            raise InputError("--column and --header are for tables, but the input is plain text.")
        return replace(trained, format="text", columns={}, header=None, delimiter=None, num_columns=None)
    return _change(trained, named, columns, header, set_format=named)


def _change(
    trained: ReadSettings,
    format: str | None,
    columns: Mapping[str, str],
    header: bool | None,
    *,
    set_format: str | None,
) -> ReadSettings:
    if format != trained.format:
        return replace(
            trained, format=set_format, columns=columns, header=header, delimiter=None, num_columns=None
        )
    kept = {role: name for role, name in trained.columns.items() if name not in columns.values()}
    header = trained.header if header is None else header
    return replace(trained, format=set_format or trained.format, columns={**kept, **columns}, header=header)


def check_targets(
    reader: Reader, name: str, family: str, known: Collection[str], given: Mapping[str, str]
) -> None:
    """Raise InputError if predictions would overwrite an unnamed column that holds something else."""
    if isinstance(reader, ConllReader):
        words, tags = reader.first_words, reader.first_tags
        if "word" not in given and reader.num_columns > 1 and all(word.isdecimal() for word in words):
            raise InputError(
                f"{name}: column {reader.columns['word']} should hold the words, but it holds numbers only "
                f"({', '.join(words[:3])}); name the column of the words with --column word=NUMBER, or write "
                "--format text if each line is a sentence."
            )
        if "tag" not in given:
            _check_known(((f"{name}, column {reader.columns['tag']}", tag) for tag in tags), known, "tag")
    elif isinstance(reader, TableReader) and reader.table.is_positional:
        role, table = TARGETS[family], reader.table
        column = reader.columns.get(role)
        if column is not None and role not in given:
            rows = ((str(table.place(row)), get_field(row.fields, column)) for row in table.first_rows)
            _check_known(((place, str(value or "")) for place, value in rows), known, role)


def is_positional(reader: Reader) -> bool:
    """Return whether a reader knows its columns by their position alone."""
    if isinstance(reader, TableReader):
        return reader.table.is_positional
    return isinstance(reader, ConllReader) and reader.is_positional


def _check_known(values: Iterable[tuple[str, str]], known: Collection[str], role: str) -> None:
    """Raise InputError if most of the values, each with its place, are not targets of the task."""
    found = [(where, value.strip()) for where, value in values]
    foreign = [(where, value) for where, value in found if value not in known and value not in PLACEHOLDERS]
    if known and 2 * len(foreign) > len(found):
        raise refuse_replacing(*foreign[0], role)


def refuse_replacing(where: str, value: str, role: str) -> InputError:
    """Return the error about a value that a prediction would replace although it is not a target of the task."""
    return InputError(
        f"{where}: {value!r:.60} stands where the {role} is expected, and would be replaced, but it is no {role} "
        "of this task; write --format text if each line is a text, put quotes around a text that holds the "
        f"delimiter, or name the column with --column {role}=NUMBER."
    )


def _detect_with_columns(lines: Lines, family: str, trained: ReadSettings) -> str:
    ahead = [line for line in lines.peek(_LINES_LOOKED_AT) if line.strip()]
    if ahead and (found := _detect_json(ahead, family)) is not None:
        return found
    if ahead and all("\t" in line for line in ahead) and family != "tagging":
        return "tsv"
    if trained.format in FORMATS[family] and trained.format not in ("jsonl", "json", "tsv", None):
        return str(trained.format)
    return "conll" if family == "tagging" else "csv"


def _detect(lines: Lines, family: str, trained: ReadSettings, known: Collection[str]) -> str:
    ahead = [line for line in lines.peek(_LINES_LOOKED_AT) if line.strip()]
    if not ahead:
        raise InputError(f"{lines.name} is empty; text or examples were expected.")
    if lines.path == lines.GIVEN:
        return "text"
    if (format := SUFFIXES.get(lines.suffix)) is not None:
        return "conllu" if format == "conll" and looks_like_conllu(ahead) else format
    if (found := _detect_json(ahead, family)) is not None:
        return found
    if _has_header(ahead, trained):
        return "tsv" if "\t" in ahead[0] else "csv"
    if family == "tagging":
        return _detect_tagging(lines.name, ahead, known)
    if family == "senses":
        return "wsd" if ahead[0].lstrip().startswith("<") else "text"
    if family == "classification" and all(_is_tree(line, known) for line in ahead):
        return "trees"
    if family == "relations" and re.match(r'\d+\t"?.*<e1>', ahead[0]):
        return "semeval"
    return _detect_rows(lines.name, ahead, family, trained, known)


def _detect_json(ahead: Sequence[str], family: str) -> str | None:
    first = ahead[0].strip()
    if re.match(r"\[\s*(\{|$)", first):
        return "json"
    if not re.match(r'\{\s*("|\}|$)', first):
        return None
    try:
        is_squad = "data" in json.loads(first)
    except json.JSONDecodeError:
        is_squad = True  # the reader reports where it is damaged
    return "squad" if family == "question_answering" and is_squad else "jsonl"


def _has_header(ahead: Sequence[str], trained: ReadSettings) -> bool:
    """Return whether the first of several lines names columns as the training data or public data sets do."""
    if len(ahead) < 2 or (trained.header is False and trained.format in ("csv", "tsv")):
        return False
    wanted = {name.lower() for name in trained.columns.values() if not name.isdecimal()}
    delimiter = next((each for each in "\t,;|" if each in ahead[0]), ",")
    cells = [cell.strip().strip('"').lower() for cell in ahead[0].split(delimiter)]
    if len(set(cells)) < len(cells) or any(len(cell.split()) > MOST_NAME_WORDS for cell in cells):
        return False
    return bool(wanted.intersection(cells)) or bool(COLUMN_NAMES.intersection(cells))


def _detect_tagging(name: str, ahead: Sequence[str], known: Collection[str]) -> str:
    if looks_like_conllu(list(ahead)):
        return "conllu"
    rows = [line for line in ahead if not _COMMENT.match(line)] or list(ahead)
    if any("\t" in line for line in rows):
        has_phrases = any(len(cell.split()) > 2 for line in rows for cell in line.split("\t"))
        if len({line.count("\t") for line in rows}) == 1 and not has_phrases:
            return "conll"
        tabbed = next(line for line in rows if "\t" in line)
        raise _ambiguous(name, tabbed, "a sentence or a row", "text", "conll")
    cells = [line.split() for line in rows]
    lengths = {len(row) for row in cells}
    if lengths == {1}:
        pieces = sorted(len(tokenize(row[0])) for row in cells)
        return "text" if pieces[len(pieces) // 2] > _MOST_PIECES_OF_A_WORD else "conll"
    if len(lengths) > 1:
        return "text"
    has_tags = all(row[-1] in known or row[-1] in PLACEHOLDERS for row in cells)
    if has_tags and len(rows) > 1:
        return "conll"
    if has_tags or (len(rows) > 1 and all(_TAG_LIKE.fullmatch(cell) for row in cells for cell in row[1:])):
        raise _ambiguous(name, rows[0], "a sentence, or one word with its columns", "text", "conll")
    return "text"


def _detect_rows(
    name: str, ahead: Sequence[str], family: str, trained: ReadSettings, known: Collection[str]
) -> str:
    """Return "text" or the format of a table without a header, whose labels must be known if training had some."""
    column = trained.columns.get(TARGETS[family], "")
    at = int(column) - 1 if column.isdecimal() and trained.header is False else None
    for format, delimiters in (("tsv", "\t"), ("csv", ",;|")):
        is_trained = format == trained.format and trained.delimiter is not None
        for delimiter in (trained.delimiter or "") if is_trained else delimiters:
            rows = _split_rows(ahead, delimiter, format)
            if len({len(row) for row in rows}) != 1 or len(rows[0]) < 2:
                continue
            if at is not None and at < len(rows[0]) and _are_known([row[at] for row in rows], known):
                return format
    num_tabs = {line.count("\t") for line in ahead}
    is_pair = family in ("pairs", "question_answering")
    if num_tabs == {0} or (is_pair and num_tabs == {1}) or (is_pair and any("|||" in line for line in ahead)):
        return "text"
    if not is_pair and len(num_tabs) > 1:
        return "text"
    raise _ambiguous(name, ahead[0], "plain text or a row of a table without a header", "text", "tsv")


def _are_known(values: Sequence[str], known: Collection[str]) -> bool:
    if known:
        return all(value.strip() in known for value in values)
    try:  # scores
        return bool([float(value) for value in values])
    except ValueError:
        return False


def _split_rows(lines: Sequence[str], delimiter: str, format: str) -> list[list[str]]:
    try:
        rows = SeparatedRows((line + "\n" for line in lines), delimiter, quoted=format == "csv")
        return [row for row in rows if row] or [[]]
    except csv.Error:
        return [[]]


def _is_tree(line: str, known: Collection[str]) -> bool:
    match = re.match(r"\(\s*(\S+)\s+\(?.*\)$", line.strip())
    return match is not None and match[1] in known


def _ambiguous(name: str, line: str, what: str, *formats: str) -> InputError:
    choices = " or ".join(f"--format {format}" for format in formats)
    return InputError(f"{name}: {line!r:.60} may be {what}; say which with {choices}.")
