"""Files of examples: which format a file has, by its name and content, and the reader of it.

Labelled files are read as they look; what is to be predicted may be plain text too. A line of words is never taken
for one row of CoNLL or of a table; what could be either is refused.
"""

import csv
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from elmo.errors import InputError
from elmo.files.rows import SeparatedRows
from elmo.files.sources import STDIN, Lines
from elmo.tasks.examples import Reader
from elmo.tasks.readers.columns import COLUMN_NAMES, MOST_NAME_WORDS, TARGETS
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
# A line without spaces that is tokenized to more words is a sentence of a script without spaces; where letters
# stand for sounds, unlike in Han, a word has more of them.
_MOST_PIECES_OF_A_WORD, _MOST_LETTERS_OF_A_WORD = 3, 6
_TAG_LIKE = re.compile(r"[^a-z]+|[A-Z]+-\S+|[*(][^\s]*")
_COMMENT = re.compile(r"#|-DOCSTART-")
FILE_ADVICE = "name a file of examples"


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
    lines = source if isinstance(source, Lines) else Lines(source, advice=FILE_ADVICE)
    detected = _detect_labelled(lines, family)  # reports an empty file too
    format = settings.format or detected
    choices = [name for name in ("text", *FORMATS[family]) if not labelled or name != "text"]
    if format not in (known for formats in (("text",), *FORMATS.values()) for known in formats):
        raise InputError(f"--format {format!r} is not known; choose one of {', '.join(choices)}.")
    if format == "text" and labelled:
        raise InputError(f"{lines.name} is plain text, which has no labels; choose one of {', '.join(choices)}.")
    if format not in choices:
        raise InputError(f"{lines.name} is {format}, but {family} reads {', '.join(choices)}; set --format.")
    if settings.columns and format in _DATASETS:
        raise InputError(f"--column was given, but {lines.name} is {format}, which has no columns to choose from.")
    reader: Reader
    found, tokenizer = replace(settings, format=format), settings.tokenizer(family)
    if format == "text":
        reader = PlainTextReader(lines, family, tokenizer, sense_entries=sense_entries)
    elif format in _DATASETS:
        reader = _DATASETS[format](lines, tokenizer, labelled=labelled)
    elif format in ("conll", "conllu"):
        reader = ConllReader(lines, is_conllu=format == "conllu", columns=settings.columns, labelled=labelled)
    else:
        reader = TableReader(Table(lines, cast(TableKind, format), settings), family, settings, labelled=labelled)
        found = reader.settings
    return OpenedReader(reader, replace(found, columns=reader.columns))


def _look_ahead(lines: Lines, num_lines: int, expected: str) -> list[str]:
    ahead = [line for line in lines.peek(num_lines) if line.strip()]
    if not ahead:
        raise InputError(f"{lines.name} is empty; {expected} were expected.")
    return ahead


def _detect_by_name(lines: Lines, ahead: Sequence[str]) -> str | None:
    format = SUFFIXES.get(lines.suffix)
    return "conllu" if format == "conll" and looks_like_conllu(ahead) else format


def _detect_labelled(lines: Lines, family: str) -> str:
    ahead = _look_ahead(lines, 100, "examples")
    first = ahead[0].lstrip()
    if (format := _detect_by_name(lines, ahead) or _detect_json(ahead, family)) is not None:
        return format
    if first.startswith(("[", "{")):
        return "json" if first.startswith("[") else "jsonl"  # whose reader says what is wrong with it
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


def settings_for_labelled(path: str, family: str, trained: ReadSettings, asked: ReadSettings) -> ReadSettings:
    """Return how to read a labelled file: as in training if it has the same format, else as `asked`."""
    detected = None if path == STDIN else _detect_labelled(Lines(path, advice=FILE_ADVICE), family)
    return _adapt(trained, asked.format or detected or trained.format, asked)


def open_input(
    lines: Lines,
    family: str,
    trained: ReadSettings,
    asked: ReadSettings,
    *,
    known: Collection[str],
    sense_entries: Collection[str],
) -> OpenedReader:
    """Open an input to predict: as `asked`, else as it looks, else as in training.

    `known` are the labels or tags of the task, `sense_entries` the lemmas that a sense task knows.
    """
    format, names_columns = asked.format, bool(asked.columns) or asked.header is not None
    if format is None and names_columns:
        format = SUFFIXES.get(lines.suffix) or _detect_with_columns(lines, family, trained)
    format = format or _detect(lines, family, trained, known)
    if format == "text" and names_columns:
        raise InputError("--column and --header are for tables, but the input is plain text.")
    settings = _adapt(trained, format, asked)
    opened = open_reader(lines, family, settings, labelled=False, sense_entries=sense_entries)
    _check_targets(opened.reader, lines.name, TARGETS.get(family, ""), known, asked.columns)
    return opened


def _adapt(trained: ReadSettings, format: str | None, asked: ReadSettings) -> ReadSettings:
    if format != trained.format:
        return replace(
            trained, format=format, columns=asked.columns, header=asked.header, delimiter=None, num_columns=None
        )
    kept = {role: name for role, name in trained.columns.items() if name not in asked.columns.values()}
    header = trained.header if asked.header is None else asked.header
    return replace(trained, columns={**kept, **asked.columns}, header=header)


def _check_targets(reader: Reader, name: str, role: str, known: Collection[str], given: Mapping[str, str]) -> None:
    """Raise InputError if predictions would overwrite an unnamed column, most of which holds something else."""
    if isinstance(reader, ConllReader) and "word" not in given and reader.num_columns > 1:
        words = reader.first_words
        if all(word.isdecimal() for word in words):
            raise InputError(
                f"{name}: column {reader.columns['word']} should hold the words, but it holds numbers only "
                f"({', '.join(words[:3])}); name the column of the words with --column word=NUMBER, or write "
                "--format text if each line is a sentence."
            )
    found = [] if role in given else [(where, value.strip()) for where, value in reader.first_targets()]
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
    ahead = _look_ahead(lines, _LINES_LOOKED_AT, "text or examples")
    if lines.path == lines.GIVEN:
        return "text"
    if (format := _detect_by_name(lines, ahead) or _detect_json(ahead, family)) is not None:
        return format
    if _has_header(ahead, trained):
        return "tsv" if "\t" in ahead[0] else "csv"
    if family == "tagging":
        return _detect_tagging(lines.name, ahead, trained, known)
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


def _detect_tagging(name: str, ahead: Sequence[str], trained: ReadSettings, known: Collection[str]) -> str:
    if looks_like_conllu(ahead):
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
        num_sentences = sum(_is_sentence(row[0], trained.scripts) for row in cells)
        return "text" if 2 * num_sentences >= len(cells) else "conll"
    if len(lengths) > 1:
        return "text"
    has_tags = all(row[-1] in known or row[-1] in PLACEHOLDERS for row in cells)
    if has_tags and len(rows) > 1:
        return "conll"
    if has_tags or (len(rows) > 1 and all(_TAG_LIKE.fullmatch(cell) for row in cells for cell in row[1:])):
        raise _ambiguous(name, rows[0], "a sentence, or one word with its columns", "text", "conll")
    return "text"


def _is_sentence(text: str, scripts: tuple[str, ...]) -> bool:
    """Return whether a text without spaces has more than one word."""
    has_many_letters = len(tokenize(text, scripts)) > _MOST_LETTERS_OF_A_WORD
    return has_many_letters or len(tokenize(text)) > _MOST_PIECES_OF_A_WORD


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
