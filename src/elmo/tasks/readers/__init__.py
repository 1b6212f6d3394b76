"""Files of examples -> the reader of their format: the one of --format, or of the extension of the file's name.

Inputs to predict without a known extension are plain text.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from elmo.errors import InputError
from elmo.files.sources import STDIN, Lines
from elmo.tasks.examples import Reader
from elmo.tasks.readers.columns import list_names
from elmo.tasks.readers.conll import ConllReader
from elmo.tasks.readers.datasets import SemevalReader, SquadReader, TreeReader, WsdReader
from elmo.tasks.readers.plain_text import PlainTextReader
from elmo.tasks.readers.records import FILE_ADVICE, read_folders, read_parquet
from elmo.tasks.readers.tables import Table, TableKind, TableReader
from elmo.tasks.settings import ReadSettings, Records, Source

_TABLES = ("csv", "tsv", "jsonl", "json", "parquet")
_DATASETS: dict[str, Any] = {"trees": TreeReader, "semeval": SemevalReader, "squad": SquadReader, "wsd": WsdReader}
FORMATS: dict[str, tuple[str, ...]] = {
    "tagging": ("conll", "conllu", *_TABLES),
    "classification": (*_TABLES, "folders", "trec", "trees"),
    "pairs": _TABLES,
    "relations": ("semeval", *_TABLES),
    "question_answering": ("squad", *_TABLES),
    "senses": ("wsd",),
}
_EXTENSIONS = {
    ".conllu": "conllu", ".conll": "conll", ".iob": "conll", ".iob2": "conll", ".bio": "conll", ".csv": "csv",
    ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".xml": "wsd", ".ptb": "trees",
    ".parquet": "parquet",
}  # fmt: skip
_UNNAMED = {"tagging": "conll", "relations": "semeval"}  # of labelled files with another extension


class OpenedReader(NamedTuple):
    """A reader, and the settings that read other files the same way."""

    reader: Reader
    settings: ReadSettings


def open_reader(
    source: Source | Lines,
    family: str,
    settings: ReadSettings,
    *,
    labelled: bool = True,
    sense_entries: Collection[str] = (),
) -> OpenedReader:
    """Open examples of a family: a file, standard input ("-"), a folder, or records in memory.

    With `labelled`, every example must have its target. `sense_entries` are the lemmas that a sense task knows, for
    marked words of plain text.
    """
    settings = settings.with_columns(family)
    choices = FORMATS[family] if labelled else ("text", *FORMATS[family])
    name = source if isinstance(source, str) else source.name
    format = "json" if isinstance(source, Records) else settings.format or _find_format(source, family, labelled)
    if format not in choices:
        reason = "has no extension that determines its format" if format is None else f"is {format}"
        raise InputError(f"{name} {reason}, but {family} reads {', '.join(choices)}; set --format.")
    if settings.columns and (format in _DATASETS or format == "text"):
        raise InputError(f"--column was given, but {name} is {format}, which has no columns.")
    opened = _open(source, format, settings.encoding) if isinstance(source, str) else source
    if format == "json" and isinstance(opened, Lines) and "".join(opened.peek(1)).lstrip().startswith("{"):
        format = "jsonl"
    settings, tokenizer = replace(settings, format=format), settings.tokenizer(family)
    reader: Reader
    if isinstance(opened, Records) or format in (*_TABLES, "trec"):
        kind = "json" if isinstance(opened, Records) else cast(TableKind, format)
        table = Table(opened, kind, settings.header, list_names(family, settings.columns))
        reader = TableReader(table, family, settings, labelled=labelled)
        settings = reader.settings
    elif format == "text":
        reader = PlainTextReader(opened, family, tokenizer, sense_entries=sense_entries)
    elif format in _DATASETS:
        reader = _DATASETS[format](opened, tokenizer, labelled=labelled)
    else:
        reader = ConllReader(opened, is_conllu=format == "conllu", columns=settings.columns, labelled=labelled)
    return OpenedReader(reader, replace(settings, columns=reader.columns))


def open_labelled(source: Source, family: str, trained: ReadSettings, options: ReadSettings) -> OpenedReader:
    """Open labelled examples for a trained task: as in training if they have the same format, else as `options`."""
    format = options.format or _find_format(source, family) or trained.format
    return open_reader(source, family, _adapt(trained, format, options.with_columns(family)))


def open_input(
    source: str | Lines, family: str, trained: ReadSettings, options: ReadSettings, *, sense_entries: Collection[str]
) -> OpenedReader:
    """Open an input to predict: in the format of `options`, of its extension, or plain text.

    With columns or a header, an input without an extension has the format of training. `sense_entries` are the lemmas
    that a sense task knows.
    """
    options = options.with_columns(family)
    is_table = bool(options.columns) or options.header is not None
    format = options.format or _find_format(source, family, labelled=False)
    if format == "text" and is_table and options.format is None:
        format = trained.format
    settings = _adapt(trained, format, options)
    return open_reader(source, family, settings, labelled=False, sense_entries=sense_entries)


def _adapt(trained: ReadSettings, format: str | None, options: ReadSettings) -> ReadSettings:
    columns, header = options.columns, options.header
    if format == trained.format:
        columns = {role: name for role, name in trained.columns.items() if name not in columns.values()} | {**columns}
        header = trained.header if header is None else header
    return replace(trained, format=format, columns=columns, header=header, encoding=options.encoding)


def _find_format(source: Source | Lines, family: str, labelled: bool = True) -> str | None:
    """Return the format of an input by the extension of its name, or None."""
    if isinstance(source, Records):
        return "json"
    if isinstance(source, str) and source != STDIN and Path(source).is_dir():
        return "folders"
    extension = Lines(source).suffix if isinstance(source, str) else source.suffix
    if extension == ".json" and family == "question_answering":
        return "squad"
    if format := _EXTENSIONS.get(extension):
        return format
    if not labelled:
        return "text"
    return None if source == STDIN else _UNNAMED.get(family)


def _open(name: str, format: str, encoding: str) -> Records | Lines:
    if format == "folders":
        return read_folders(name, encoding)
    return read_parquet(name) if format == "parquet" else Lines(name, encoding=encoding, advice=FILE_ADVICE)
