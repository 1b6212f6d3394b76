"""Where vectors go: standard output, or a file whose ending says its format, whole or not there.

The formats themselves are in word_vector_files.py and sentence_vector_files.py. Sentences are added one by
one and written at once, so that memory stays flat however long the text is.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from elmo.cli.json_lines import vector_line
from elmo.cli.writing_aside import file_written_aside
from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.model import Array

Add: TypeAlias = "Callable[[list[str], Array], None]"  # takes the words and the vectors of the next sentence
Writer: TypeAlias = Callable[[Path], AbstractContextManager[Add]]
ENDINGS = (".npz", ".npy", ".jsonl", ".h5", ".hdf5")


def is_folder(path: Path | None) -> bool:
    """Whether a folder of vectors is meant: a name without an ending, or a folder whose ending is no format's."""
    if path is None or str(path) == "-" or path.suffix.lower() in ENDINGS:
        return False
    return path.is_dir() or (not path.suffix and not path.name.startswith("."))


def check_output(path: Path | None) -> Path | None:
    """Refuse a file whose ending says no format; None, or -, is standard output."""
    if path is None or str(path) == "-":
        return None
    if path.suffix.lower() not in ENDINGS:
        raise InputError(
            f"--output is {str(path)!r}; its ending says the format, so give {', '.join(ENDINGS)}, or a name "
            "without an ending for a folder."
        )
    return path


@contextmanager
def open_output(path: Path | None, writers: Mapping[str, Writer], *, name: str) -> Iterator[Add]:
    """Give what adds one sentence to the output; `name` is what JSON calls the vectors."""
    if path is None:
        yield add_lines(sys.stdout.buffer, name)
        return
    with file_written_aside(path) as aside, writers[path.suffix.lower()](aside) as add:
        yield add


def add_lines(file: IO[bytes], name: str) -> Add:
    """Give what writes a sentence as one line of JSON."""
    num_sentences = 0

    def add(words: list[str], array: "Array") -> None:
        nonlocal num_sentences
        file.write(vector_line(num_sentences, words, name, array))
        num_sentences += 1

    return add
