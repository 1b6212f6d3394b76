"""The texts of a command: sentences, files of any kind, standard input and --text -> rows, none left out."""

import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo.corpus.rows import Columns, Row, open_rows
from elmo.errors import InputError
from elmo.files.sources import STDIN, BrokenRow, Kind, Source, check_text, describe_file, expand_pattern

_ADVICE = "a sentence that looks like the name of a file goes after --text"
_PATH_LIKE = re.compile(
    r".*\.(txt|jsonl|csv|tsv|parquet|conllu)(\.(gz|xz|bz2|zst))?|\S*[\\/*]\S*|\S+\.[A-Za-z0-9]{1,8}", re.DOTALL
)


def split_inputs(inputs: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the names of files, and the sentences, among what was typed; a name of a file wins."""
    files: list[str] = []
    sentences: list[str] = []
    for text in inputs or ():
        if not text.strip():
            raise InputError(f"The sentence {text!r} is empty; give some words, or the name of a file.")
        is_file = text == STDIN or _exists(text) or _PATH_LIKE.fullmatch(text) is not None
        (files if is_file else sentences).append(text)
    return files, sentences


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


class TextInput:
    """Everything a command reads, checked before the work begins; iterating stops at the first broken row."""

    def __init__(
        self,
        inputs: Sequence[str] | None,
        texts: Sequence[str] | None = None,
        *,
        output: Path | None = None,
        kind: Kind | None = None,
        columns: Columns | None = None,
    ) -> None:
        """`kind` is the format of all files, None the one of their endings."""
        files, sentences = split_inputs(inputs)
        names = [path for name in files for path in expand_pattern(name, advice=_ADVICE)]
        self.texts = [*sentences, *(texts or ())]
        if not names and not self.texts:
            raise InputError("Nothing to read; give a sentence, name text files, or - for standard input.")
        if names.count(STDIN) > 1:
            raise InputError("Standard input (-) was named more than once, but it can be read only once.")
        self.sources = [self._describe(name, kind) for name in names]
        self._columns = columns or Columns()
        self.bytes_read = 0
        for source in self.sources:
            if output is not None and output.exists() and source.name != STDIN and output.samefile(source.path):
                raise InputError(f"{source.name} is both input and output; give --output another name.")
        for text in self.texts:
            check_text(text, "The sentence")

    @staticmethod
    def _describe(name: str, kind: Kind | None) -> Source:
        if name != STDIN:
            return describe_file(name, kind, advice=_ADVICE)
        if kind == "parquet":
            raise InputError("Parquet cannot be read from standard input; name the file.")
        return Source(STDIN, Path(), kind or "txt")

    @property
    def num_bytes(self) -> int | None:
        """The size of all the input, or None if some of it, such as a pipe, has no size."""
        if any(source.name == STDIN for source in self.sources):
            return None
        sizes = [source.path.stat() for source in self.sources]
        if not all(stat.S_ISREG(size.st_mode) for size in sizes):
            return None
        return sum(size.st_size for size in sizes) + sum(len(text.encode()) for text in self.texts)

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows; `bytes_read` says how much was read before the last one was yielded."""
        before = 0
        for source in self.sources:
            with open_rows(source, self._columns) as (rows, bytes_of_file):
                for row in rows:
                    if isinstance(row, BrokenRow):
                        raise row.to_error(source.label, source.unit)
                    self.bytes_read = before + (bytes_of_file() if source.path.is_file() else 0)
                    yield row
            before = self.bytes_read
        for number, text in enumerate(self.texts, start=1):
            self.bytes_read += len(text.encode())
            yield Row(number, text)


def text_of(row: Row) -> str:
    """Return the text of a row on one line; words are joined by spaces."""
    return " ".join(row.content.split() if isinstance(row.content, str) else row.content)
