"""Choose the reader of a file of examples by --format, or else by the extension of the file name.

Unlabelled files without a known extension are read as plain text.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.files.sources import split_extensions
from elmo.tasks.readers.conll import ConllReader
from elmo.tasks.readers.datasets import SemevalReader, SquadReader, TreeReader, WsdReader
from elmo.tasks.readers.plain_text import PlainTextReader
from elmo.tasks.readers.reader import Lines, Reader
from elmo.tasks.readers.records import list_files, read_folders, read_parquet
from elmo.tasks.readers.tables import TableReader
from elmo.tasks.settings import ReadSettings, Records, Source

_TABLE_FAMILIES = ("tagging", "classification", "pairs", "relations", "question_answering")


@dataclass(frozen=True)
class Format:
    """A format of examples: the families that support it, its file extensions, and its reader."""

    families: tuple[str, ...] = _TABLE_FAMILIES
    extensions: tuple[str, ...] = ()
    reader: Callable[..., Reader] = TableReader


FORMATS = {
    "conll": Format(("tagging",), ("conll", "iob", "iob2", "bio"), ConllReader),
    "conllu": Format(("tagging",), ("conllu",), ConllReader),
    "semeval": Format(("relations",), (), SemevalReader),
    "squad": Format(("question_answering",), (), SquadReader),
    "wsd": Format(("senses",), ("xml",), WsdReader),
    "csv": Format(extensions=("csv",)),
    "tsv": Format(extensions=("tsv",)),
    "jsonl": Format(extensions=("jsonl", "ndjson")),
    "json": Format(extensions=("json",)),
    "parquet": Format(extensions=("parquet",)),
    "folders": Format(("classification",)),
    "trec": Format(("classification",)),
    "trees": Format(("classification",), ("ptb",), TreeReader),
}
# For prediction only. Word senses need the lemma and the part of speech, which plain text lacks.
_PLAIN_TEXT = {"text": Format(_TABLE_FAMILIES, (), PlainTextReader)}
_DEFAULT_FORMATS = {"tagging": "conll", "relations": "semeval"}  # of labelled files with an unknown extension


def read_examples(
    source: Source,
    family: str,
    read: ReadSettings,
    *,
    trained: ReadSettings | None = None,
) -> tuple[list[Any], ReadSettings]:
    """Read all labelled examples of files or records; return them and the settings they were read with.

    If there are several files, the first determines the settings of the others. See open_reader for `trained`.
    """
    examples: list[Any] = []
    name = source if isinstance(source, str) else source.name
    is_pattern = isinstance(source, str) and not Path(source).is_dir()
    for path in list_files(name) if is_pattern else [source]:
        reader = open_reader(path, family, read, trained=trained)
        trained = reader.settings
        examples += reader
    if family == "pairs":  # SNLI's label of pairs on which the annotators disagreed
        examples = [pair for pair in examples if pair.target != "-"]
    if not examples or trained is None:
        raise InputError(f"{name} has no examples with a label; nothing can be learned or measured.")
    return examples, trained


def open_reader(
    source: Source | Lines,
    family: str,
    settings: ReadSettings,
    *,
    trained: ReadSettings | None = None,
    labelled: bool = True,
) -> Reader:
    """Open examples of a family: a file, standard input ("-"), a folder, or records in memory.

    A file of the same format as the training data is read with their settings, `trained`, except where `settings`
    override them. With `labelled`, every example must have a target.
    """
    settings = settings.with_columns(family)
    format = settings.format or _find_format(source, family, labelled)
    if trained is not None:
        format = format or trained.format
        settings = trained.with_changes(settings, format)
    formats = FORMATS if labelled else {**_PLAIN_TEXT, **FORMATS}
    choices = [name for name, known in formats.items() if family in known.families]
    name = source if isinstance(source, str) else source.name
    if format not in choices:
        reason = "has no extension that determines its format" if format is None else f"is read as {format!r}"
        raise InputError(f"{name} {reason}, but {family} reads {', '.join(choices)}; set --format.")
    settings = replace(settings, format=format)
    reader = TableReader if isinstance(source, Records) else formats[format].reader
    if settings.columns and reader not in (TableReader, ConllReader):
        raise InputError(f"--column was given, but {name} is {format}, which has no columns.")
    if format == "folders":
        source = read_folders(name, settings.encoding)
    elif format == "parquet":
        source = read_parquet(name)
    elif isinstance(source, str):
        source = Lines(source, encoding=settings.encoding)
    return reader(source, family, settings, labelled=labelled)


def _find_format(source: Source | Lines, family: str, labelled: bool) -> str | None:
    """Return the format for the extension of an input's name, or None if the extension is unknown."""
    if isinstance(source, Records):
        return "json"
    path = Path(source if isinstance(source, str) else source.path)
    if path.is_dir():
        return "folders"
    extension, _ = split_extensions(path)
    if extension == "json" and family == "question_answering":
        return "squad"
    named = next((name for name, format in FORMATS.items() if extension in format.extensions), None)
    return named or (_DEFAULT_FORMATS.get(family) if labelled else "text")
