"""Vectors, sentence by sentence -> JSON lines on standard output, or one file whose ending says its format.

Each sentence is written at once, so that memory does not grow with the text.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from elmo.cli.text_input import Sentence
from elmo.errors import InputError
from elmo.files.durable import output_file
from elmo.files.rows import to_json
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.model import Array

Add: TypeAlias = "Callable[[list[str], Array], None]"  # takes the words and the vectors of the next sentence
Result: TypeAlias = "tuple[Sentence, list[str], Array]"  # what was read, its words, its vectors
ENDINGS = (".npz", ".npy", ".jsonl", ".h5", ".hdf5")


def is_folder(path: Path | None) -> bool:
    """Return whether --output means a folder: a name without an ending, or a folder without one of ours."""
    if path is None or str(path) == "-" or path.suffix.lower() in ENDINGS:
        return False
    return path.is_dir() or (not path.suffix and not path.name.startswith("."))


def check_output(path: Path | None) -> Path | None:
    """Return the file to write, None for standard output; InputError if its ending says no format."""
    if path is None or str(path) == "-":
        return None
    if path.suffix.lower() not in ENDINGS:
        raise InputError(
            f"--output is {str(path)!r}; its ending says the format, so use {', '.join(ENDINGS)}, or a name "
            "without an ending for a folder."
        )
    return path


def write_vectors(
    results: Iterable[Result], path: Path | None, *, shape: tuple[int, ...] | None, num_bytes: int | None
) -> None:
    """Write all results with a progress bar.

    `shape` is that of one vector per sentence, or None for an array per sentence with one row per word;
    `num_bytes` is the size of the input if it is known.
    """
    num_sentences = num_words = 0
    with (
        progress_bar(unit="sentences", num_bytes=num_bytes, prints=path is None) as advance,
        _open_output(path, shape) as add,
    ):
        for sentence, words, array in results:
            add(words, array)
            advance(sentence.num_bytes)
            num_sentences += 1
            num_words += len(words)
    if path is not None:
        print(f"Wrote {path} (sentences: {num_sentences:,}, words: {num_words:,}).")


@contextmanager
def _open_output(path: Path | None, shape: tuple[int, ...] | None) -> Iterator[Add]:
    name = "vectors" if shape is None else "vector"
    if path is None:
        yield _add_lines(sys.stdout.buffer, name)
        return
    ending = path.suffix.lower()
    with output_file(path) as temporary:
        if ending == ".jsonl":
            with temporary.open("wb") as file:
                yield _add_lines(file, name)
        else:
            with _WRITERS[ending](temporary, shape) as add:
                yield add


def _add_lines(file: IO[bytes], name: str) -> Add:
    num_sentences = 0

    def add(words: list[str], array: "Array") -> None:
        nonlocal num_sentences
        line = f'{{"index": {num_sentences}, "words": {to_json(words)}, "{name}": {vectors_to_json(array)}}}\n'
        file.write(line.encode("utf-8"))
        num_sentences += 1

    return add


def vectors_to_json(array: "Array") -> str:
    """Return the nested lists of an array, each number with the nine digits that identify a float32."""
    if array.ndim > 1:
        return f"[{', '.join(vectors_to_json(part) for part in array)}]"
    return f"[{', '.join(map('{:.9g}'.format, array.tolist()))}]"


# Word vectors (no `shape`) are an array per sentence, named by its number, and the words of all sentences beside
# them: a line of JSON each. Sentence vectors are one array with a row per sentence.


@contextmanager
def _write_npz(path: Path, shape: tuple[int, ...] | None) -> Iterator[Add]:
    import numpy as np

    from elmo.files.arrays import growing_npy, open_member, writing_archive

    num_sentences = 0
    with writing_archive(path) as archive, tempfile.TemporaryFile(dir=path.parent) as rest:
        with growing_npy(rest, *(("|u1", ()) if shape is None else ("<f4", shape))) as add_rows:

            def add(words: list[str], array: "Array") -> None:
                nonlocal num_sentences
                if shape is not None:
                    add_rows(array[None])
                    return
                with open_member(archive, str(num_sentences)) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
                # numpy's arrays of text drop a NUL at the end of a word and pad every word to the longest.
                add_rows(np.frombuffer(f"{to_json(words)}\n".encode(), np.uint8))
                num_sentences += 1

            yield add
        rest.seek(0)
        # The header at the beginning of a member cannot be changed, so the finished array is copied into it.
        with open_member(archive, "words" if shape is None else "vectors") as member:
            shutil.copyfileobj(rest, member)


@contextmanager
def _write_npy(path: Path, shape: tuple[int, ...] | None) -> Iterator[Add]:
    import numpy as np

    from elmo.files.arrays import growing_npy

    with path.open("wb") as file:
        if shape is None:
            yield lambda words, array: np.save(file, array, allow_pickle=False)
        else:
            with growing_npy(file, "<f4", shape) as add_rows:
                yield lambda words, vector: add_rows(vector[None])


@contextmanager
def _write_hdf5(path: Path, shape: tuple[int, ...] | None) -> Iterator[Add]:
    import h5py

    from elmo.files.arrays import add_dataset, growing_dataset, open_hdf5_output

    num_sentences = 0
    rows = ("words", (), h5py.string_dtype("utf-8")) if shape is None else ("vectors", shape, "float32")
    with open_hdf5_output(path) as (file, check), growing_dataset(file, *rows) as add_row:

        def add(words: list[str], array: "Array") -> None:
            nonlocal num_sentences
            if shape is None:
                # The number names the sentence: its text may contain a slash, or occur twice.
                add_dataset(file, str(num_sentences), array)
            add_row(to_json(words) if shape is None else array)
            check()
            num_sentences += 1

        yield add


_WRITERS = {".npz": _write_npz, ".npy": _write_npy, ".h5": _write_hdf5, ".hdf5": _write_hdf5}
