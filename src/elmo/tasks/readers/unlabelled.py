"""What the input of a trained task is if nobody says so: plain text, CoNLL, a table or another format.

A line of words is never taken for one row of CoNLL or of a table; what may be either is refused.
"""

import csv
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from elmo.errors import InputError
from elmo.files.rows import SeparatedRows
from elmo.tasks.readers.columns import TARGETS
from elmo.tasks.readers.conll import ConllReader, looks_like_conllu
from elmo.tasks.readers.formats import FORMATS, SUFFIXES, ReadSettings
from elmo.tasks.readers.lines import Lines
from elmo.tasks.readers.reader import Reader
from elmo.tasks.readers.table_examples import TableReader
from elmo.tasks.readers.tables import MOST_NAME_WORDS, get_field
from elmo.tasks.readers.usual_names import USUAL_NAMES
from elmo.text.tokenize import tokenize

LINES_LOOKED_AT = 1000
# A line without spaces that cuts into so many words is a sentence of a script without spaces.
MOST_PIECES_OF_A_WORD = 3
# What stands for no label or tag.
PLACEHOLDERS = frozenset(("", "_", "-", "?", "O", "X"))
_TAG_LIKE = re.compile(r"[^a-z]+|[A-Z]+-\S+|[*(][^\s]*")
_TABLES = ("csv", "tsv")
_COMMENT = re.compile(r"#|-DOCSTART-")


def choose_settings(
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
        format = SUFFIXES.get(lines.suffix) or _with_columns(lines, family, trained)
    named = format or _recognize(lines, family, trained, known)
    if named == "text":
        if columns or header is not None:
            raise InputError("--column and --header are for tables, but the input is plain text.")
        return replace(trained, format="text", columns={}, header=None, delimiter=None, num_columns=None)
    if named != trained.format:
        return replace(trained, format=named, columns=columns, header=header, delimiter=None, num_columns=None)
    kept = {role: name for role, name in trained.columns.items() if name not in columns.values()}
    header = trained.header if header is None else header
    return replace(trained, format=named, columns={**kept, **columns}, header=header)


def check_targets(
    reader: Reader, name: str, family: str, known: Collection[str], given: Mapping[str, str]
) -> None:
    """Refuse to overwrite a column without a name that holds something else than what the task predicts."""
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
    elif isinstance(reader, TableReader) and reader.is_positional:
        role = TARGETS[family]
        column = reader.columns.get(role)
        if column is None or role in given:
            return
        values = ((str(row.place), str(get_field(row.fields, column) or "")) for row in reader.first_rows)
        _check_known(values, known, role)


def _check_known(values: Iterable[tuple[str, str]], known: Collection[str], role: str) -> None:
    """Raise InputError if most of the values, each with its place, are no targets of the task."""
    found = [(where, value.strip()) for where, value in values]
    foreign = [(where, value) for where, value in found if value not in known and value not in PLACEHOLDERS]
    if known and 2 * len(foreign) > len(found):
        raise refuse_replacing(*foreign[0], role)


def refuse_replacing(where: str, value: str, role: str) -> InputError:
    """Return the error about a value that a prediction would replace although it is no target of the task."""
    return InputError(
        f"{where}: {value!r:.60} stands where the {role} is expected, and would be replaced, but it is no {role} "
        "of this task; write --format text if each line is a text, put quotes around a text that holds the "
        f"delimiter, or name the column with --column {role}=NUMBER."
    )


def _with_columns(lines: Lines, family: str, trained: ReadSettings) -> str:
    ahead = [line for line in lines.peek(LINES_LOOKED_AT) if line.strip()]
    if ahead and (found := _recognize_json(ahead, family)) is not None:
        return found
    if ahead and all("\t" in line for line in ahead) and family != "tagging":
        return "tsv"
    if trained.format in FORMATS[family] and trained.format not in ("jsonl", "json", "tsv", None):
        return str(trained.format)
    return "conll" if family == "tagging" else "csv"


def _recognize(lines: Lines, family: str, trained: ReadSettings, known: Collection[str]) -> str:
    everything = lines.peek(LINES_LOOKED_AT)
    ahead = [line for line in everything if line.strip()]
    if not ahead:
        raise InputError(f"{lines.name} is empty; text or examples were expected.")
    if lines.path == lines.GIVEN:
        return "text"
    format = SUFFIXES.get(lines.suffix)
    if format is not None:
        return "conllu" if format == "conll" and looks_like_conllu(ahead) else format
    if (found := _recognize_json(ahead, family)) is not None:
        return found
    if _has_header(ahead, trained):
        return "tsv" if "\t" in ahead[0] else "csv"
    if family == "tagging":
        return _recognize_tagging(lines.name, ahead, known)
    if family == "senses":
        return "wsd" if ahead[0].lstrip().startswith("<") else "text"
    if family == "classification" and all(_is_tree(line, known) for line in ahead):
        return "trees"
    if family == "relations" and re.match(r'\d+\t"?.*<e1>', ahead[0]):
        return "semeval"
    return _recognize_rows(lines.name, ahead, family, trained, known)


def _recognize_json(ahead: Sequence[str], family: str) -> str | None:
    first = ahead[0].strip()
    if re.match(r"\[\s*(\{|$)", first):
        return "json"
    if not re.match(r'\{\s*("|\}|$)', first):
        return None
    try:
        content = json.loads(first)
    except json.JSONDecodeError:
        return "squad" if family == "spans" else "jsonl"  # which tells where it is damaged
    return "squad" if family == "spans" and "data" in content else "jsonl"


def _has_header(ahead: Sequence[str], trained: ReadSettings) -> bool:
    """Whether the first of several lines names columns as the training data or public data sets do."""
    if len(ahead) < 2 or (trained.header is False and trained.format in _TABLES):
        return False
    wanted = {name.lower() for name in trained.columns.values() if not name.isdecimal()}
    delimiter = next((each for each in "\t,;|" if each in ahead[0]), ",")
    cells = [cell.strip().strip('"').lower() for cell in ahead[0].split(delimiter)]
    if len(set(cells)) < len(cells) or any(len(cell.split()) > MOST_NAME_WORDS for cell in cells):
        return False
    return bool(wanted.intersection(cells)) or bool(USUAL_NAMES.intersection(cells))


def _recognize_tagging(name: str, ahead: Sequence[str], known: Collection[str]) -> str:
    if looks_like_conllu(list(ahead)):
        return "conllu"
    rows = [line for line in ahead if not _COMMENT.match(line)] or list(ahead)
    if any("\t" in line for line in rows):
        return _recognize_tabbed(name, rows)
    cells = [line.split() for line in rows]
    lengths = {len(row) for row in cells}
    if lengths == {1}:
        pieces = sorted(len(tokenize(row[0])) for row in cells)
        return "text" if pieces[len(pieces) // 2] > MOST_PIECES_OF_A_WORD else "conll"
    if len(lengths) > 1:
        return "text"
    has_tags = all(row[-1] in known or row[-1] in PLACEHOLDERS for row in cells)
    if has_tags and len(rows) > 1:
        return "conll"
    if has_tags or (len(rows) > 1 and all(_TAG_LIKE.fullmatch(cell) for row in cells for cell in row[1:])):
        raise _ambiguous(name, rows[0], "a sentence, or one word with its columns", "text", "conll")
    return "text"


def _recognize_tabbed(name: str, rows: Sequence[str]) -> str:
    num_tabs = {line.count("\t") for line in rows}
    has_phrases = any(len(cell.split()) > 2 for line in rows for cell in line.split("\t"))
    if len(num_tabs) == 1 and not has_phrases:
        return "conll"
    raise _ambiguous(name, next(line for line in rows if "\t" in line), "a sentence or a row", "text", "conll")


def _recognize_rows(
    name: str, ahead: Sequence[str], family: str, trained: ReadSettings, known: Collection[str]
) -> str:
    """Tell text from a table without a header, which must have known labels where training had them."""
    role = TARGETS[family]
    column = trained.columns.get(role, "")
    for format, delimiters in (("tsv", "\t"), ("csv", ",;|")):
        is_trained = format == trained.format and trained.delimiter is not None
        for delimiter in (trained.delimiter or "") if is_trained else delimiters:
            rows = _split_rows(ahead, delimiter, format)
            if len({len(row) for row in rows}) != 1 or len(rows[0]) < 2:
                continue
            targets = [int(column) - 1] if column.isdecimal() and trained.header is False else []
            if any(at < len(rows[0]) and _are_known([row[at] for row in rows], known) for at in targets):
                return format
    num_tabs = {line.count("\t") for line in ahead}
    is_pair = family in ("pairs", "spans")
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
