"""Rows, settings and a model -> one file whose ending says its format, or JSON lines on standard output.

Rows are written as they are computed, so that memory does not grow with the text. Formats: .jsonl, .npz, .npy,
and the .h5 and .parquet files of vector folders.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from elmo.errors import InputError
from elmo.files.arrays import growing_npy, open_member, writing_archive
from elmo.files.durable import output_file
from elmo.files.rows import to_json
from elmo.model import Elmo
from elmo.vectors.blocks import RowEmbedder
from elmo.vectors.formats import Add, Array, Block, Layout, write_hdf5, write_parquet
from elmo.vectors.rows import Entry
from elmo.vectors.settings import VectorSettings


def write_file(
    model: Elmo,
    entries: Iterable[Entry],
    path: Path | None,
    settings: VectorSettings,
    advance: Callable[[int], None] = lambda num_rows: None,
) -> tuple[int, int]:
    """Write the vectors of rows to a file, or to standard output (None); return the numbers of rows and words.

    Raises InputError for a row that cannot be read. `advance` is called with the number of rows of each block.
    """
    embedder = RowEmbedder(model, settings)
    num_rows = 0
    with _open_output(path, embedder.layout) as add:
        for block in embedder.blocks(entries):
            add(block)
            num_rows += len(block.indexes)
            advance(len(block.indexes))
        for entry in embedder.broken:
            raise InputError(f"Row {entry.index + 1:,} {entry.row.reason}.")  # type: ignore[union-attr]
    return num_rows, embedder.num_words


@contextmanager
def _open_output(path: Path | None, layout: Layout) -> Iterator[Add]:
    if path is None:
        yield _add_lines(sys.stdout.buffer, layout)
        return
    with output_file(path) as temporary, WRITERS[path.suffix.lower()](temporary, layout) as add:
        yield add


def _list_arrays(block: Block, layout: Layout) -> Iterator[Array]:
    """Yield the vectors of each row as Elmo.embed, encode or embed_spans return them; int8 as float32."""
    stored, start = block.arrays["vectors"], 0
    if "scales" in block.arrays:
        stored = stored.astype(np.float32) * block.arrays["scales"][..., None]
    for count in block.counts:
        array = stored[start : start + count]
        start += count
        if layout.unit == "sentences":
            yield array[0]
        else:
            yield array.transpose(1, 0, 2) if layout.unit == "words" and array.ndim == 3 else array


def _add_lines(file: IO[bytes], layout: Layout) -> Add:
    name = "vector" if layout.unit == "sentences" else "vectors"

    def add(block: Block) -> None:
        for place, array in enumerate(_list_arrays(block, layout)):
            row: dict[str, Any] = {"index": block.indexes[place], "words": block.words[place]}
            if block.ids[place] is not None:
                row["id"] = block.ids[place]
            if block.spans is not None:
                row["spans"] = block.spans[place]
            file.write(f'{to_json(row)[:-1]}, "{name}": {vectors_to_json(array)}}}\n'.encode())

    return add


def vectors_to_json(array: Array) -> str:
    """Return the nested lists of an array, each number with the nine digits that identify a float32."""
    if array.ndim > 1:
        return f"[{', '.join(vectors_to_json(row) for row in array)}]"
    return f"[{', '.join(map('{:.9g}'.format, array.tolist()))}]"


@contextmanager
def _write_jsonl(path: Path, layout: Layout) -> Iterator[Add]:
    with path.open("wb") as file:
        yield _add_lines(file, layout)


@contextmanager
def _write_npz(path: Path, layout: Layout) -> Iterator[Add]:
    """Write one array per row, named by its number, and `words`; or `vectors`, one row per sentence."""
    is_flat, num_rows = layout.unit == "sentences", 0
    rest_type = ("<f4", layout.vector_shape) if is_flat else ("|u1", ())
    with writing_archive(path) as archive, tempfile.TemporaryFile(dir=path.parent) as rest:
        with growing_npy(rest, *rest_type) as add_rows:

            def add(block: Block) -> None:
                nonlocal num_rows
                for words, array in zip(block.words, _list_arrays(block, layout), strict=True):
                    if is_flat:
                        add_rows(array[None])
                        continue
                    with open_member(archive, str(num_rows)) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
                    # numpy's arrays of text drop a NUL at the end of a word and pad every word to the longest.
                    add_rows(np.frombuffer(f"{to_json(words)}\n".encode(), np.uint8))
                    num_rows += 1

            yield add
        rest.seek(0)
        # The header at the beginning of a member cannot be changed, so the finished array is copied into it.
        with open_member(archive, "vectors" if is_flat else "words") as member:
            shutil.copyfileobj(rest, member)


@contextmanager
def _write_npy(path: Path, layout: Layout) -> Iterator[Add]:
    """Write the array of one sentence, or one row per sentence."""
    num_rows = 0
    with path.open("wb") as file:
        if layout.unit == "sentences":
            with growing_npy(file, "<f4", layout.vector_shape) as add_rows:
                yield lambda block: add_rows(np.stack(list(_list_arrays(block, layout))))
            return

        def add(block: Block) -> None:
            nonlocal num_rows
            num_rows += len(block.indexes)
            if num_rows > 1:
                raise InputError(_ONE_ARRAY.format("several sentences"))
            np.save(file, next(_list_arrays(block, layout)), allow_pickle=False)

        yield add
        if not num_rows:
            raise InputError(_ONE_ARRAY.format("no sentence"))


_ONE_ARRAY = "An .npy file holds one array, the words of one sentence, but {} came; write .npz, .h5 or .jsonl."
WRITERS: dict[str, Callable[[Path, Layout], AbstractContextManager[Add]]] = {
    ".jsonl": _write_jsonl,
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".h5": write_hdf5,
    ".hdf5": write_hdf5,
    ".parquet": write_parquet,
}
