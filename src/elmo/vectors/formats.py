"""The file formats for rows and their vectors; rows are written in blocks, so memory does not grow.

The parts of a folder give random access to rows. npy: memory-mapped files with all vectors and the offsets of each
row, and a JSON Lines file with the other fields of the rows. parquet: one row per sentence, whose vectors are an Arrow
list of fixed-size vectors. Single files can be .parquet, .h5, .jsonl, .npz and .npy.
"""

import json
import zipfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.extras import require
from elmo.files.arrays import growing_npy, open_hdf5_output, write_npy
from elmo.files.rows import to_json
from elmo.inference.context import Span
from elmo.vectors.settings import DType, FileFormat, Unit

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]  # "vectors", and "scales" for int8
_OFFSETS, _ROWS = ".offsets.npy", ".rows.jsonl"
_FIELDS = ("index", "id", "words", "text", "spans")
_ROW_GROUP_BYTES = 8 << 20  # decoded as a whole to read one row of a Parquet file


@dataclass(frozen=True)
class VectorRow:
    """One sentence of the input with its vectors.

    `vectors`: for words as returned by Elmo.embed, (T, 2D) or (L+1, T, 2D); for sentences by Elmo.encode, (2D,) or
    (L+1, 2D); for spans by Elmo.embed_spans, (N, 2D) or (N, L+1, 2D). int8 vectors are returned as float32, other
    types unchanged; if the format allows it, the array is a view of the file.
    """

    index: int  # of the row in the input, from 0
    id: str | None
    words: list[str]
    spans: list[Span] | None
    vectors: Array
    text: str | None = None  # the original text; None if the input had words


@dataclass(frozen=True)
class Layout:
    """The unit, data type and shape of all vectors in a folder."""

    unit: Unit
    dtype: DType
    vector_shape: tuple[int, ...]  # (2D,) or, for all layers, (L+1, 2D)

    @property
    def arrays(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The NumPy type and the shape of each stored array, per vector: the vector and, for int8, its scale."""
        dtype = {"float32": "<f4", "float16": "<f2", "int8": "|i1"}[self.dtype]
        stored = {"vectors": (dtype, self.vector_shape)}
        return stored if self.dtype != "int8" else {**stored, "scales": ("<f4", self.vector_shape[:-1])}


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a part, with all their vectors in one array."""

    rows: Sequence[dict[str, Any]]  # index, id and words; text and spans if the rows have them
    counts: Sequence[int]  # the number of vectors of each row
    arrays: Arrays  # (sum of counts, *shape in the layout)


Add = Callable[[Block], None]


class PartReader(NamedTuple):
    """Functions that read a row of a part at a position, from 0: its fields, and its stored arrays, (count, *shape)."""

    layout: Layout
    read_fields: Callable[[int], dict[str, Any]]
    read_arrays: Callable[[int], Arrays]

    def read(self, position: int) -> VectorRow:
        """Return the row at a position."""
        row, vectors = self.read_fields(position), _restore(self.read_arrays(position), self.layout)
        spans = [(start, end) for start, end in row["spans"]] if "spans" in row else None
        return VectorRow(row["index"], row["id"], row["words"], spans, vectors, row.get("text"))


def _restore(stored: Arrays, layout: Layout) -> Array:
    """Return the vectors of a row in the form of Elmo.embed, encode or embed_spans; int8 becomes float32."""
    vectors = stored["vectors"]
    if "scales" in stored:
        vectors = vectors.astype(np.float32) * stored["scales"][..., None]
    if layout.unit == "sentences":
        vectors = vectors[0]
    return vectors.transpose(1, 0, 2) if layout.unit == "words" and vectors.ndim == 3 else vectors


def part_stem(number: int) -> str:
    """Return the common prefix of the names of a part's files."""
    return f"part-{number:05d}"


def part_path(folder: Path, number: int, file_format: FileFormat) -> Path:
    """Return the path of a part; for npy, the common prefix of its files."""
    return folder / (part_stem(number) + (".parquet" if file_format == "parquet" else ""))


# --- npy


@contextmanager
def _write_npy(stem: Path, layout: Layout) -> Iterator[Add]:
    with ExitStack() as stack:
        rows = stack.enter_context(stem.with_suffix(_ROWS).open("wb"))
        add_arrays = {}
        for name, (dtype, shape) in layout.arrays.items():
            file = stack.enter_context(stem.with_suffix(f".{name}.npy").open("wb"))
            add_arrays[name] = stack.enter_context(growing_npy(file, dtype, shape))
        counts = [0]

        def add(block: Block) -> None:
            rows.writelines(f"{to_json(row)}\n".encode() for row in block.rows)
            for name, array in block.arrays.items():
                add_arrays[name](array)
            counts.extend(block.counts)

        yield add
        write_npy(stem.with_suffix(_OFFSETS), np.cumsum(counts, dtype=np.int64))


def _read_npy(stem: Path, layout: Layout) -> PartReader:
    lines = stem.with_suffix(_ROWS).read_bytes().splitlines()  # parsed on demand, because most rows may not be needed
    offsets = np.load(stem.with_suffix(_OFFSETS))
    # Copy-on-write, so that a view of a file is writable like any array.
    arrays = {name: np.asarray(np.load(stem.with_suffix(f".{name}.npy"), mmap_mode="c")) for name in layout.arrays}

    def read_arrays(position: int) -> Arrays:
        return {name: array[offsets[position] : offsets[position + 1]] for name, array in arrays.items()}

    return PartReader(layout, lambda position: json.loads(lines[position]), read_arrays)


# --- Parquet


def _column_name(name: str, layout: Layout) -> str:
    """Return the column of an array: a sentence has one `vector`, everything else a list of `vectors`."""
    return name.removesuffix("s") if layout.unit == "sentences" else name


@contextmanager
def _write_parquet(path: Path, layout: Layout) -> Iterator[Add]:
    parquet = require("pyarrow.parquet", "data", "Parquet")
    arrays = {name: np.zeros((0, *shape), dtype) for name, (dtype, shape) in layout.arrays.items()}
    schema = _make_table(Block([], [], arrays), layout).schema
    with (
        path.open("wb") as file,
        parquet.ParquetWriter(
            file,
            schema,
            compression="none",  # vectors do not compress
            write_statistics=False,
            # Parquet has no one-byte numbers; as entries of a dictionary of 256 they take one byte each.
            use_dictionary=layout.dtype == "int8",
        ) as writer,
    ):

        def add(block: Block) -> None:
            num_groups = max(1, -(-block.arrays["vectors"].nbytes // _ROW_GROUP_BYTES))
            rows_in_group = max(1, -(-len(block.rows) // num_groups))
            writer.write_table(_make_table(block, layout), row_group_size=rows_in_group)

        yield add


def _make_table(block: Block, layout: Layout) -> Any:
    import pyarrow as arrow

    types = {"index": arrow.int64(), "id": arrow.string(), "words": arrow.list_(arrow.string()), "text": arrow.string()}
    if layout.unit == "spans":
        types["spans"] = arrow.list_(arrow.list_(arrow.int32(), 2))
    columns = {
        name: arrow.array([row.get(name) for row in block.rows], field_type) for name, field_type in types.items()
    }
    offsets = arrow.array(np.cumsum([0, *block.counts], dtype=np.int32))
    for name, array in block.arrays.items():
        values = arrow.array(array.reshape(-1))
        for size in reversed(array.shape[1:]):
            values = arrow.FixedSizeListArray.from_arrays(values, size)
        is_sentence = layout.unit == "sentences"
        columns[_column_name(name, layout)] = values if is_sentence else arrow.ListArray.from_arrays(offsets, values)
    return arrow.table(columns)


def _read_parquet(path: Path, layout: Layout) -> PartReader:
    file = require("pyarrow.parquet", "data", "Parquet").ParquetFile(path, memory_map=True)
    fields = [name for name in file.schema_arrow.names if name in _FIELDS]
    rows = file.read(columns=fields, use_threads=False).to_pylist()
    columns = {name: _column_name(name, layout) for name in layout.arrays}
    sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    starts = [0, *accumulate(sizes)]

    @lru_cache(1)
    def read_group(number: int) -> Any:
        return file.read_row_group(number, columns=list(columns.values()), use_threads=False)

    def read_arrays(position: int) -> Arrays:
        number, arrays = bisect_right(starts, position) - 1, {}
        row = read_group(number).slice(position - starts[number], 1)
        for name, (_, shape) in layout.arrays.items():
            column = row.column(columns[name]).chunk(0)
            while hasattr(column.type, "value_type"):
                column = column.flatten()
            arrays[name] = column.to_numpy(zero_copy_only=True).reshape(-1, *shape)
        return arrays

    return PartReader(layout, rows.__getitem__, read_arrays)


Writer: TypeAlias = Callable[[Path, Layout], AbstractContextManager[Add]]
PART_WRITERS: dict[FileFormat, Writer] = {"npy": _write_npy, "parquet": _write_parquet}
PART_READERS: dict[FileFormat, Callable[[Path, Layout], PartReader]] = {"npy": _read_npy, "parquet": _read_parquet}


# --- single files


def _list_vectors(block: Block, layout: Layout) -> Iterator[Array]:
    start = 0
    for count in block.counts:
        yield _restore({name: array[start : start + count] for name, array in block.arrays.items()}, layout)
        start += count


def line_writer(file: IO[bytes], layout: Layout) -> Add:
    """Return the function that adds blocks to a stream of JSON lines."""
    name = "vector" if layout.unit == "sentences" else "vectors"

    def add(block: Block) -> None:
        for row, array in zip(block.rows, _list_vectors(block, layout), strict=True):
            names = [field for field in ("index", "words", "id", "spans") if row.get(field) is not None]
            line = to_json({field: row[field] for field in names})
            file.write(f'{line[:-1]}, "{name}": {vectors_to_json(array)}}}\n'.encode())

    return add


def vectors_to_json(array: Array) -> str:
    """Return the nested lists of an array, each number with the nine digits that identify a float32."""
    if array.ndim > 1:
        return f"[{', '.join(vectors_to_json(row) for row in array)}]"
    return f"[{', '.join(map('{:.9g}'.format, array.tolist()))}]"


@contextmanager
def _write_jsonl(path: Path, layout: Layout) -> Iterator[Add]:
    with path.open("wb") as file:
        yield line_writer(file, layout)


@contextmanager
def _write_hdf5(path: Path, layout: Layout) -> Iterator[Add]:
    import h5py

    with open_hdf5_output(path) as (file, check):
        rows = file.create_dataset("rows", (0,), h5py.string_dtype("utf-8"), maxshape=(None,), chunks=True)

        def add(block: Block) -> None:
            start = 0
            for row, count in zip(block.rows, block.counts, strict=True):
                # A sentence has only one vector, so its array has no axis for the number of vectors.
                vectors = start if layout.unit == "sentences" else slice(start, start + count)
                for name, array in block.arrays.items():
                    prefix = "" if name == "vectors" else f"{name}/"
                    file.create_dataset(f"{prefix}{row['index']}", data=array[vectors])
                start += count
            rows.resize(len(rows) + len(block.rows), axis=0)
            rows[-len(block.rows) :] = list(map(to_json, block.rows))
            check()

        yield add


@contextmanager
def _write_npz(path: Path, layout: Layout) -> Iterator[Add]:
    """Write one array per row, named by its number, and `words`; or `vectors`, one row per sentence."""
    sentences, words = list[Array](), list[str]()
    with zipfile.ZipFile(path, "w") as archive:

        def write(name: str, array: Array) -> None:
            # A new ZipInfo has a fixed date, so the same vectors give the same file.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)

        def add(block: Block) -> None:
            for row, array in zip(block.rows, _list_vectors(block, layout), strict=True):
                if layout.unit == "sentences":
                    sentences.append(array)
                else:
                    write(str(len(words)), array)
                    words.append(f"{to_json(row['words'])}\n")

        yield add
        if layout.unit == "sentences":
            write("vectors", np.array(sentences, np.float32).reshape(-1, *layout.vector_shape))
        else:  # NumPy's text arrays drop a final NUL and pad every word to the longest
            write("words", np.frombuffer("".join(words).encode(), np.uint8))


@contextmanager
def _write_one_npy(path: Path, layout: Layout) -> Iterator[Add]:
    """Write the array of one sentence, or one row per sentence."""
    num_rows = 0
    message = "An .npy file holds the words of exactly one sentence; write .npz, .h5 or .jsonl for other texts."
    with path.open("wb") as file:
        if layout.unit == "sentences":
            with growing_npy(file, "<f4", layout.vector_shape) as add_rows:
                yield lambda block: add_rows(np.stack(list(_list_vectors(block, layout))))
            return

        def add(block: Block) -> None:
            nonlocal num_rows
            num_rows += len(block.rows)
            if num_rows > 1:
                raise InputError(message)
            np.save(file, next(_list_vectors(block, layout)), allow_pickle=False)

        yield add
    if not num_rows:
        raise InputError(message)


FILE_WRITERS: dict[str, Writer] = {
    ".jsonl": _write_jsonl,
    ".npz": _write_npz,
    ".npy": _write_one_npy,
    ".h5": _write_hdf5,
    ".hdf5": _write_hdf5,
    ".parquet": _write_parquet,
}
