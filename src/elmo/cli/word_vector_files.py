"""Files of word vectors: an array for each sentence, one row a word, and the words beside them."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.cli.growing_files import growing_dataset, open_member, write_header, writing_archive
from elmo.cli.json_lines import to_json
from elmo.cli.vector_files import Add, Writer, add_lines
from elmo.jobs.formats.hdf5_output import open_hdf5_output

if TYPE_CHECKING:
    from elmo.model import Array


@contextmanager
def _write_npz(path: Path) -> Iterator[Add]:
    import numpy as np

    num_sentences = 0
    with writing_archive(path) as archive, tempfile.TemporaryFile(dir=path.parent) as lines:

        def add(words: list[str], array: "Array") -> None:
            nonlocal num_sentences
            with open_member(archive, str(num_sentences)) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
            lines.write(f"{to_json(words)}\n".encode())
            num_sentences += 1

        yield add
        # numpy's arrays of text drop a NUL at the end of a word and pad every word to the longest.
        with open_member(archive, "words") as member:
            write_header(member, "|u1", (lines.tell(),))
            lines.seek(0)
            shutil.copyfileobj(lines, member)


@contextmanager
def _write_npy(path: Path) -> Iterator[Add]:
    import numpy as np

    with path.open("wb") as file:
        yield lambda words, array: np.save(file, array, allow_pickle=False)


@contextmanager
def _write_lines(path: Path) -> Iterator[Add]:
    with path.open("wb") as file:
        yield add_lines(file, "vectors")


@contextmanager
def _write_hdf5(path: Path) -> Iterator[Add]:
    import h5py

    num_sentences = 0
    with (
        open_hdf5_output(path) as (file, check),
        growing_dataset(file, "words", (), h5py.string_dtype("utf-8")) as add_words,
    ):

        def add(words: list[str], array: "Array") -> None:
            nonlocal num_sentences
            # The number names the sentence: its text may hold a slash, or occur twice.
            file.create_dataset(str(num_sentences), data=array)
            add_words(to_json(words))
            check()
            num_sentences += 1

        yield add


WORD_WRITERS: Mapping[str, Writer] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".jsonl": _write_lines,
    ".h5": _write_hdf5,
    ".hdf5": _write_hdf5,
}
