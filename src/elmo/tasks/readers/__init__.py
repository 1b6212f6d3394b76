"""Files of examples: which format a file has, and the reader of it.

The format is what the user says, else what the ending of the name says, else what the content cannot be mistaken
for (JSON, CoNLL-U, trees, …). Without any of these, a labelled file is a table, or CoNLL for tags, and a file to
predict is plain text.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from elmo.errors import InputError
from elmo.files.sources import STDIN, Lines
from elmo.tasks.examples import Reader
from elmo.tasks.readers.conll import ConllReader, looks_like_conllu
from elmo.tasks.readers.datasets import SemevalReader, SquadReader, TreeReader, WsdReader
from elmo.tasks.readers.plain_text import PlainTextReader
from elmo.tasks.readers.records import FILE_ADVICE, read_folders, read_parquet
from elmo.tasks.readers.tables import TREC_LINE, Table, TableKind, TableReader
from elmo.tasks.settings import TARGETS, ReadSettings, Records, Source

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
_KNOWN_FORMATS = frozenset(("text", *(name for names in FORMATS.values() for name in names)))
SUFFIXES = {
    ".conllu": "conllu", ".conll": "conll", ".iob": "conll", ".iob2": "conll", ".bio": "conll", ".csv": "csv",
    ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".xml": "wsd", ".ptb": "trees", ".parquet": "parquet",
}  # fmt: skip
PLACEHOLDERS = frozenset(("", "_", "-", "?", "O", "X"))  # for no label or tag
_NUM_LINES = 200  # that are looked at


class OpenedReader(NamedTuple):
    """A reader with what was detected, for reading other files alike."""

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

    `labelled`: their targets must be there. `sense_entries` are the lemmas that a sense task knows, for marked
    words of plain text.
    """
    settings = settings.with_columns(family)
    if isinstance(source, str):
        source = _open_source(source, settings)
    if isinstance(source, Records):
        format = "folders" if settings.format == "folders" else "json"
    else:
        format = settings.format or detect_format(source, family)
    choices = [name for name in ("text", *FORMATS[family]) if not labelled or name != "text"]
    if format not in _KNOWN_FORMATS:
        raise InputError(f"--format {format!r} is not known; choose one of {', '.join(choices)}.")
    if format == "text" and labelled:
        raise InputError(f"{source.name} is plain text, which has no labels; choose one of {', '.join(choices)}.")
    if format not in choices:
        raise InputError(f"{source.name} is {format}, but {family} reads {', '.join(choices)}; set --format.")
    if settings.columns and format in _DATASETS:
        raise InputError(f"--column was given, but {source.name} is {format}, which has no columns to choose from.")
    reader: Reader
    detected, tokenizer = replace(settings, format=format), settings.tokenizer(family)
    if isinstance(source, Records) or format not in ("text", "conll", "conllu", *_DATASETS):
        kind = "json" if isinstance(source, Records) else cast(TableKind, format)
        reader = TableReader(Table(source, kind, settings.header), family, settings, labelled=labelled)
        detected = replace(reader.settings, format=format)
    elif format == "text":
        reader = PlainTextReader(source, family, tokenizer, sense_entries=sense_entries)
    elif format in _DATASETS:
        reader = _DATASETS[format](source, tokenizer, labelled=labelled)
    else:
        reader = ConllReader(source, is_conllu=format == "conllu", columns=settings.columns, labelled=labelled)
    return OpenedReader(reader, replace(detected, columns=reader.columns))


def _open_source(name: str, settings: ReadSettings) -> Records | Lines:
    """Return the lines of a text file, or the records of a folder or a Parquet file."""
    if settings.format == "folders" or (name != STDIN and Path(name).is_dir()):
        return read_folders(name, settings.encoding)
    if settings.format in (None, "parquet") and Path(name).suffix == ".parquet" and Path(name).is_file():
        return read_parquet(name)
    return open_lines(name, settings.encoding)


def open_lines(name: str, encoding: str = "utf-8") -> Lines:
    """Open a text file; with another encoding than UTF-8 it is read whole."""
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        return _Utf8Lines(name, advice=FILE_ADVICE)
    try:
        texts = Path(name).read_text(encoding=encoding).removesuffix("\n").split("\n")
    except LookupError as error:
        raise InputError(
            f"--encoding {encoding!r} is not known; use for example latin-1, cp1252 or gb18030."
        ) from error
    except OSError as error:
        raise InputError(f"There is no file {name!r} that can be read; {FILE_ADVICE}.") from error
    except UnicodeError as error:
        raise InputError(f"{name} is not {encoding} ({error}); name another --encoding.") from error
    lines = Lines(name, texts=texts)
    lines.path = lines.name = name
    return lines


class _Utf8Lines(Lines):
    """Lines whose error about bytes that are no UTF-8 names the flag that reads them."""

    def _decode(self, *arguments: Any) -> Any:
        try:
            yield from super()._decode(*arguments)
        except InputError as error:
            if "is not UTF-8" not in str(error):
                raise
            before, _, _ = str(error).rpartition("; ")
            raise InputError(f"{before}; name its encoding, as in --encoding latin-1.") from error


def detect_format(lines: Lines, family: str, *, labelled: bool = True) -> str:
    """Return the format of a file; one that is not `labelled`, to be predicted, may be plain text."""
    if not labelled and lines.path == lines.GIVEN:
        return "text"
    ahead = [line for line in lines.peek(_NUM_LINES) if line.strip()]
    if not ahead:
        raise InputError(f"{lines.name} is empty; {'' if labelled else 'text or '}examples were expected.")
    format = SUFFIXES.get(lines.suffix)
    if format in (None, "conll") and family == "tagging" and looks_like_conllu(ahead):
        return "conllu"
    format = format or _detect_json(ahead, family) or _detect_dataset(ahead, family)
    if format is not None:
        return format
    if labelled:
        has_tabs = all("\t" in line for line in ahead)
        return "conll" if family == "tagging" else "tsv" if has_tabs else "csv"
    if min(line.count("\t") for line in ahead) > (family in ("pairs", "question_answering")):
        raise InputError(
            f"{lines.name}: {ahead[0]!r:.60} has tabs, so it may be text or a row of columns; say which with "
            f"--format text or --format {'conll' if family == 'tagging' else 'tsv'}."
        )
    return "text"


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


def _detect_dataset(ahead: Sequence[str], family: str) -> str | None:
    if family == "senses":
        return "wsd" if ahead[0].lstrip().startswith("<") else None
    if family == "relations":
        return "semeval" if re.match(r'\d+\t"?.*<e1>', ahead[0]) else None
    if family == "classification" and all(re.match(r"\(\S+ +(\(.*|[^\s()]+)\)$", line.strip()) for line in ahead):
        return "trees"
    return "trec" if family == "classification" and all(map(TREC_LINE.match, ahead)) else None


# --- input of a trained task


def open_labelled(source: Source, family: str, trained: ReadSettings, asked: ReadSettings) -> OpenedReader:
    """Open labelled examples: as in training if they have the same format, else as `asked`."""
    asked = asked.with_columns(family)
    opened = _open_source(source, asked) if isinstance(source, str) else source
    format = asked.format
    if format is None and isinstance(opened, Lines):
        format = trained.format if source == STDIN else detect_format(opened, family)
    return open_reader(opened, family, _adapt(trained, format or "json", asked))


def open_input(
    source: str | Lines,
    family: str,
    trained: ReadSettings,
    asked: ReadSettings,
    *,
    known: Collection[str],
    sense_entries: Collection[str],
) -> OpenedReader:
    """Open an input to predict: as `asked`, else as its name or content says, else as plain text.

    `known` are the labels or tags of the task, `sense_entries` the lemmas that a sense task knows.
    """
    asked = asked.with_columns(family)
    opened = _open_source(source, asked) if isinstance(source, str) else source
    format = asked.format
    is_table = bool(asked.columns) or asked.header is not None
    if isinstance(opened, Lines) and format is None:
        format = detect_format(opened, family, labelled=is_table and opened.path != opened.GIVEN)
    if format == "text" and is_table:
        raise InputError("--column and --header are for tables, but the input is plain text.")
    reader = open_reader(opened, family, _adapt(trained, format, asked), labelled=False, sense_entries=sense_entries)
    if TARGETS.get(family) not in asked.columns:
        _check_targets(reader.reader, TARGETS.get(family, ""), known)
    return reader


def _adapt(trained: ReadSettings, format: str | None, asked: ReadSettings) -> ReadSettings:
    if format != trained.format:
        return replace(trained, format=format, columns=asked.columns, header=asked.header, encoding=asked.encoding)
    kept = {role: name for role, name in trained.columns.items() if name not in asked.columns.values()}
    header = trained.header if asked.header is None else asked.header
    return replace(trained, columns={**kept, **asked.columns}, header=header, encoding=asked.encoding)


def _check_targets(reader: Reader, role: str, known: Collection[str]) -> None:
    """Raise InputError if predictions would replace an unnamed column, most of which holds something else."""
    targets = [(place, value.strip()) for place, value in reader.first_targets()]
    foreign = [(place, value) for place, value in targets if value not in known and value not in PLACEHOLDERS]
    if known and 2 * len(foreign) > len(targets):
        place, value = foreign[0]
        raise InputError(
            f"{place}: {value!r:.60} stands where the {role} is expected, and would be replaced, but it is no "
            f"{role} of this task; write --format text if each line is a text, put quotes around a text that "
            "holds the delimiter, or name the column with --label-column NUMBER."
        )
