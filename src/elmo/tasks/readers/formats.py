"""Which format a file is, by its name and by what stands in it, and the reader of it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast, get_args

from elmo.errors import InputError
from elmo.tasks.readers.conll import ConllReader, looks_like_conllu
from elmo.tasks.readers.lines import STDIN, Lines
from elmo.tasks.readers.plain_text import PlainTextReader
from elmo.tasks.readers.reader import Reader
from elmo.tasks.readers.semeval import SemevalReader
from elmo.tasks.readers.squad import SquadReader
from elmo.tasks.readers.table_examples import PairTarget, TableReader
from elmo.tasks.readers.tables import Table
from elmo.tasks.readers.trees import TreeReader
from elmo.tasks.readers.wsd import WsdReader

FormatName: TypeAlias = Literal[
    "text", "conll", "conllu", "csv", "tsv", "jsonl", "json", "trees", "semeval", "squad", "wsd"
]
_TABLES = ("csv", "tsv", "jsonl", "json")
FORMATS: dict[str, tuple[str, ...]] = {
    "tagging": ("conll", "conllu", *_TABLES),
    "classification": (*_TABLES, "trees"),
    "pairs": _TABLES,
    "relations": ("semeval", *_TABLES),
    "spans": ("squad", *_TABLES),
    "senses": ("wsd",),
}
SUFFIXES = {
    ".conllu": "conllu", ".conll": "conll", ".iob": "conll", ".iob2": "conll", ".bio": "conll", ".csv": "csv",
    ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".xml": "wsd", ".ptb": "trees",
}  # fmt: skip


@dataclass(frozen=True)
class ReadSettings:
    """How files of examples are read; what is None or missing is found out."""

    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    header: bool | None = None
    pair_target: PairTarget = "auto"
    split_on_spaces: bool = False
    integer_labels: bool = False  # JSON had whole numbers for labels, so predictions are written as such
    # Of a table without names of columns, which others like it are compared with.
    delimiter: str | None = None
    num_columns: int | None = None


@dataclass(frozen=True)
class OpenedReader:
    """A reader with what was found out, for reading other files alike."""

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
    lines = source if isinstance(source, Lines) else Lines(source)
    recognized = _recognize(lines, family)  # which tells of an empty file too
    format = settings.format or recognized
    choices = [name for name in ("text", *FORMATS[family]) if not labelled or name != "text"]
    if format not in get_args(FormatName):
        raise InputError(f"--format {format!r} is not known; choose one of {', '.join(choices)}.")
    if format == "text" and labelled:
        raise InputError(f"{lines.name} is plain text, which has no labels; choose one of {', '.join(choices)}.")
    if format not in choices:
        raise InputError(f"{lines.name} is {format}, but {family} reads {', '.join(choices)}; set --format.")
    if format == "text":
        plain = PlainTextReader(lines, family, on_spaces=settings.split_on_spaces, sense_entries=sense_entries)
        return OpenedReader(plain, replace(settings, format=format, columns={}))
    reader = _make_reader(lines, family, cast(FormatName, format), settings, labelled=labelled)
    # A file of the same kind is read in the same way, even where guessing might differ.
    found = replace(settings, format=format, columns=reader.columns)
    if isinstance(reader, TableReader):
        has_header = reader.has_header if format in ("csv", "tsv") else None
        found = replace(
            found,
            header=has_header,
            pair_target=reader.pair_target,
            split_on_spaces=reader.on_spaces,
            integer_labels=reader.has_integer_labels,
            delimiter=reader.delimiter if reader.is_positional else None,
            num_columns=reader.num_columns if reader.is_positional else None,
        )
    return OpenedReader(reader, found)


def _make_reader(
    lines: Lines, family: str, format: FormatName, settings: ReadSettings, *, labelled: bool
) -> Reader:
    if settings.columns and format in ("trees", "semeval", "squad", "wsd"):
        raise InputError(f"--column was given, but {lines.name} is {format}, which has no columns to choose from.")
    match format:
        case "conll" | "conllu":
            return ConllReader(lines, is_conllu=format == "conllu", columns=settings.columns, labelled=labelled)
        case "trees":
            return TreeReader(lines)
        case "semeval":
            return SemevalReader(lines, labelled=labelled)
        case "squad":
            return SquadReader(lines, labelled=labelled)
        case "wsd":
            return WsdReader(lines, labelled=labelled)
        case "text":
            raise AssertionError("plain text is opened without columns")
        case _:
            table = Table(lines, format, header=settings.header, delimiter=settings.delimiter)
            _check_num_columns(table, lines.name, settings)
            return TableReader(
                table, lines.name, family, columns=settings.columns, labelled=labelled,
                pair_target=settings.pair_target, on_spaces=settings.split_on_spaces,
                integer_labels=settings.integer_labels,
            )  # fmt: skip


def _check_num_columns(table: Table, name: str, settings: ReadSettings) -> None:
    """Refuse more columns than the table had that a task was trained on: the end of a text would be lost."""
    if settings.num_columns is not None and not table.has_header and len(table.names) > settings.num_columns:
        raise InputError(
            f"{name}, line 1: {len(table.names)} columns, but the table that training read has "
            f"{settings.num_columns}; put quotes around a text that holds {table.delimiter!r}."
        )


def format_of_file(path: str, family: str) -> str | None:
    """Give the format that a file's name and content stand for; None for standard input."""
    return None if path == STDIN else _recognize(Lines(path), family)


def _recognize(lines: Lines, family: str) -> str:
    ahead = [line for line in lines.peek(100) if line.strip()]
    if not ahead:
        raise InputError(f"{lines.name} is empty; examples were expected.")
    format = SUFFIXES.get(lines.suffix) or _recognize_content(ahead[0].lstrip(), ahead, family)
    if format == "conll" and looks_like_conllu(ahead):
        return "conllu"
    return format


def _recognize_content(first: str, ahead: list[str], family: str) -> str:
    if first.startswith("["):
        return "json"
    if first.startswith("{"):
        is_squad = family == "spans" and ('"data"' in first[:2000] or not first.rstrip().endswith("}"))
        return "squad" if is_squad else "jsonl"
    if family == "tagging":
        return "conll"
    if family == "classification" and first.startswith("(") and first.rstrip().endswith(")"):
        return "trees"
    if family == "relations" and "<e1>" in first and first.split("\t")[0].isdigit():
        return "semeval"
    if family == "senses":
        return "wsd"
    return "tsv" if all("\t" in line for line in ahead) else "csv"
