"""Files of sentence vectors: one array, one row a sentence."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.cli.growing_files import growing_array, growing_dataset, open_member, writing_archive
from elmo.cli.vector_files import Add, Writer, add_lines
from elmo.jobs.formats.hdf5_output import open_hdf5_output

if TYPE_CHECKING:
    from elmo.model import Array


@contextmanager
def _write_npz(path: Path, shape: tuple[int, ...]) -> Iterator[Add]:
    with writing_archive(path) as archive, tempfile.TemporaryFile(dir=path.parent) as file:
        with growing_array(file, shape) as add_vector:
            yield lambda words, vector: add_vector(vector)
        file.seek(0)
        # A member of an archive cannot be gone back to, so the whole array is copied into it.
        with open_member(archive, "vectors") as member:
            shutil.copyfileobj(file, member)


@contextmanager
def _write_npy(path: Path, shape: tuple[int, ...]) -> Iterator[Add]:
    with path.open("wb") as file, growing_array(file, shape) as add_vector:
        yield lambda words, vector: add_vector(vector)


@contextmanager
def _write_lines(path: Path) -> Iterator[Add]:
    with path.open("wb") as file:
        yield add_lines(file, "vector")


@contextmanager
def _write_hdf5(path: Path, shape: tuple[int, ...]) -> Iterator[Add]:
    with (
        open_hdf5_output(path) as (file, check),
        growing_dataset(file, "vectors", shape, "float32") as add_vector,
    ):

        def add(words: list[str], vector: "Array") -> None:
            add_vector(vector)
            check()

        yield add


def sentence_writers(shape: tuple[int, ...]) -> Mapping[str, Writer]:
    """Give the formats, by the file's ending, for vectors of one shape."""
    write_hdf5 = partial(_write_hdf5, shape=shape)
    return {
        ".npz": partial(_write_npz, shape=shape),
        ".npy": partial(_write_npy, shape=shape),
        ".jsonl": _write_lines,
        ".h5": write_hdf5,
        ".hdf5": write_hdf5,
    }
