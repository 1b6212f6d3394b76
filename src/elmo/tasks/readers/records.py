"""Labelled data in any supported form -> the name of a file, or records in memory, for the readers.

Records in memory are stored as JSON lines in the folder of a run, so that the run can be resumed.
"""

import dataclasses
import glob
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from elmo.errors import InputError
from elmo.extras import require
from elmo.files.durable import replace_file
from elmo.files.sources import STDIN, expand_pattern
from elmo.tasks.settings import TARGETS, TEXT_ROLES, Records, Source, TaskInputs

Data: TypeAlias = Any  # a file name, pattern or folder, a DataFrame, a Dataset, a list of dicts, (texts, labels)
_ACCEPTED = "the name of a file or folder, a DataFrame, a Dataset, a list of dicts, or (texts, labels)"


def to_source(data: Data, family: str, name: str) -> Source:
    """Return file names as strings and other data as records; `name` is the name of the argument."""
    if isinstance(data, Records):
        return data
    if isinstance(data, str | Path):
        return str(data)
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        rows = data.to_dict("records")
    elif hasattr(data, "to_dicts"):  # polars
        rows = data.to_dicts()
    elif isinstance(data, tuple) and len(data) == 2:
        rows = _pair_up(*data, family=family, name=name)
    elif isinstance(data, Iterable) and not isinstance(data, bytes | Mapping):
        rows = list(data)  # a list of dicts, or a Dataset of the datasets library
    else:
        raise InputError(f"{name} is {type(data).__name__}; it must be {_ACCEPTED}.")
    return _to_records(rows, name)


def _to_records(rows: Sequence[Any], name: str) -> Records:
    if not rows:
        raise InputError(f"{name} has no rows; it must be {_ACCEPTED}.")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise InputError(f"{name}, row {number} is {row!r:.60}; it must be a dict of columns, as in {{'text': …}}.")
    try:
        return Records(name, tuple(json.loads(json.dumps(_without_missing(row), default=_plain)) for row in rows))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} has a value that JSON cannot represent ({error}); leave it out.") from error


def _pair_up(texts: Iterable[Any], labels: Iterable[Any], *, family: str, name: str) -> list[dict[str, Any]]:
    texts, labels = list(texts), list(labels)
    if len(texts) != len(labels):
        raise InputError(f"{name} has {len(texts)} texts and {len(labels)} labels; each text needs one.")
    if family not in TEXT_ROLES:
        raise InputError(f"{name} is a tuple, but {family} has more than texts and labels; use a list of dicts.")
    columns = TEXT_ROLES[family], TARGETS[family]
    return [dict(zip(columns, row, strict=True)) for row in zip(texts, labels, strict=True)]


def _without_missing(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Drop missing values, which pandas represents as NaN."""
    return {str(name): value for name, value in row.items() if not (isinstance(value, float) and value != value)}


def _plain(value: Any) -> Any:
    """Convert a NumPy number or array, or a pandas timestamp, to a JSON value."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def store_records(inputs: TaskInputs, folder: Path) -> TaskInputs:
    """Write records in memory to files of a folder, and return the inputs with their names."""
    for name in ("train", "dev", "test"):
        source = getattr(inputs, name)
        if isinstance(source, Records):
            path = folder / f"{name}.jsonl"
            replace_file(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in source.rows).encode())
            changes: dict[str, Any] = {name: str(path)}
            inputs = dataclasses.replace(inputs, **changes)
    return inputs


def list_files(name: str) -> list[str]:
    """List the files of a name, a pattern or a folder of texts, sorted."""
    if Path(name).is_dir():
        return sorted(str(path) for path in Path(name).glob("*/*") if path.is_file())
    return list(expand_pattern(name))


def absolute_path(name: str | None) -> str | None:
    """Return the absolute path of an existing file or folder, or of a pattern; return other names unchanged."""
    if name is None or name == STDIN:
        return name
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() or glob.has_magic(name) else name


def read_folders(name: str, encoding: str) -> Records:
    """Read a folder with one subfolder per label, which contains one text per file."""
    rows = []
    for path in list_files(name):
        try:
            text = Path(path).read_text(encoding=encoding)
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not {encoding}; name its encoding, as in --encoding latin-1.") from error
        rows.append({"text": " ".join(text.split()), "label": Path(path).parent.name, "file": path})
    if not rows:
        raise InputError(f"{name} is a folder without a folder of texts per label; name a file, or such a folder.")
    return Records(name, tuple(rows))


def read_parquet(name: str) -> Records:
    """Read a Parquet file."""
    try:
        rows = require("pyarrow.parquet", "data", name).read_table(name).to_pylist()
    except (OSError, ValueError) as error:
        raise InputError(f"{name} could not be read as Parquet: {error}.") from error
    return _to_records(rows, name)
