"""A part as one Parquet file: one row per sentence, its vectors an Arrow list of vectors of a fixed size."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from elmo.errors import InputError
from elmo.vectors.formats import Add, Array, Block, Layout, PartFormat, PartReader, StoredRow, file_at

ENDING = ".parquet"
_ROW_GROUPS_KEPT = 2
_ROW_GROUP_BYTES = 8 << 20  # what is decoded to read one row


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "Parquet needs pyarrow; install it with: pip install 'modern-elmo[data]', or store the vectors as npy."
        ) from error
    return pyarrow, pyarrow.parquet


def _vector_type(layout: Layout) -> Any:
    arrow, _ = _import_pyarrow()
    kinds = {"float32": arrow.float32(), "float16": arrow.float16(), "int8": arrow.int8()}
    return _nest(kinds[layout.dtype], layout.vector_shape)


def _nest(kind: Any, shape: tuple[int, ...]) -> Any:
    arrow, _ = _import_pyarrow()
    for size in reversed(shape):
        kind = arrow.list_(kind, size)
    return kind


def make_schema(layout: Layout) -> Any:
    """Return the columns of a part; a sentence has one `vector`, everything else a list of `vectors`."""
    arrow, _ = _import_pyarrow()
    columns = [("index", arrow.int64()), ("id", arrow.string()), ("words", arrow.list_(arrow.string()))]
    if layout.unit == "spans":
        columns.append(("spans", arrow.list_(arrow.list_(arrow.int32(), 2))))
    for one, several, kind in _vector_columns(layout):
        single = layout.unit == "sentences"
        columns.append((one, kind) if single else (several, arrow.list_(kind)))
    return arrow.schema(columns)


def _vector_columns(layout: Layout) -> list[tuple[str, str, Any]]:
    arrow, _ = _import_pyarrow()
    columns = [("vector", "vectors", _vector_type(layout))]
    if layout.dtype == "int8":
        columns.append(("scale", "scales", _nest(arrow.float32(), layout.vector_shape[:-1])))
    return columns


@contextmanager
def _write(stem: Path, layout: Layout) -> Iterator[Add]:
    arrow, parquet = _import_pyarrow()
    schema = make_schema(layout)
    is_small = layout.dtype == "int8"
    with (
        file_at(stem, ENDING).open("wb") as file,
        parquet.ParquetWriter(
            file,
            schema,
            compression="none",  # vectors do not compress
            write_statistics=False,
            # Parquet has no one-byte numbers; as entries of a dictionary of 256 they take one byte each.
            use_dictionary=is_small,
        ) as writer,
    ):

        def add(block: Block) -> None:
            num_groups = max(1, -(-block.vectors.nbytes // _ROW_GROUP_BYTES))
            rows_in_group = max(1, -(-len(block.indexes) // num_groups))
            writer.write_table(_make_table(arrow, schema, block, layout), row_group_size=rows_in_group)

        yield add


def _make_table(arrow: Any, schema: Any, block: Block, layout: Layout) -> Any:
    columns = [arrow.array(block.indexes, arrow.int64()), arrow.array(block.ids, arrow.string())]
    columns.append(arrow.array(block.words, schema.field("words").type))
    if block.spans is not None:
        columns.append(arrow.array(block.spans, schema.field("spans").type))
    offsets = np.concatenate([[0], np.cumsum(block.counts)]).astype(np.int32)
    for array in (block.vectors, block.scales):
        if array is None:
            continue
        values = arrow.array(array.reshape(-1))
        for size in reversed(array.shape[1:]):
            values = arrow.FixedSizeListArray.from_arrays(values, size)
        if layout.unit != "sentences":
            values = arrow.ListArray.from_arrays(arrow.array(offsets), values)
        columns.append(values)
    return arrow.Table.from_arrays(columns, schema=schema)


class _ParquetReader(PartReader):
    def __init__(self, stem: Path, layout: Layout) -> None:
        _, parquet = _import_pyarrow()
        self._layout = layout
        self._file = parquet.ParquetFile(file_at(stem, ENDING), memory_map=True)
        groups = self._file.metadata
        sizes = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._groups: OrderedDict[int, _RowGroup] = OrderedDict()

    def read(self, position: int) -> StoredRow:
        number = int(np.searchsorted(self._starts, position, side="right")) - 1
        if number not in self._groups:
            table = self._file.read_row_group(number, use_threads=False)
            self._groups[number] = _RowGroup(table.combine_chunks(), self._layout)
            if len(self._groups) > _ROW_GROUPS_KEPT:
                self._groups.popitem(last=False)
        self._groups.move_to_end(number)
        return self._groups[number].row(position - int(self._starts[number]))

    def read_names(self) -> Iterator[tuple[int, str | None]]:
        for batch in self._file.iter_batches(columns=["index", "id"], use_threads=False):
            yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)

    def close(self) -> None:
        self._groups.clear()
        self._file.close()


class _RowGroup:
    """Rows that were decoded together; their arrays are views of Arrow's memory."""

    def __init__(self, table: Any, layout: Layout) -> None:
        self._table, self._has_spans = table, layout.unit == "spans"
        single = layout.unit == "sentences"
        self._offsets = np.arange(table.num_rows + 1)
        arrays: list[Array | None] = []
        shapes = (layout.vector_shape, layout.vector_shape[:-1])
        names = [one if single else several for one, several, _ in _vector_columns(layout)]
        for name, shape in zip(names, shapes, strict=False):
            column = table.column(name).chunk(0)
            if not single:
                self._offsets = column.offsets.to_numpy()
                column = column.values
            arrays.append(_flatten(column).reshape(-1, *shape))
        self._vectors, self._scales = arrays[0], arrays[1] if len(arrays) > 1 else None

    def row(self, position: int) -> StoredRow:
        start, end = self._offsets[position], self._offsets[position + 1]
        index, given_id, words = (self._table.column(n)[position].as_py() for n in ("index", "id", "words"))
        spans = None
        if self._has_spans:
            spans = [(first, last) for first, last in self._table.column("spans")[position].as_py()]
        assert self._vectors is not None
        scales = None if self._scales is None else self._scales[start:end]
        return StoredRow(index, given_id, words, spans, self._vectors[start:end], scales)


def _flatten(column: Any) -> Array:
    while hasattr(column, "flatten") and hasattr(column.type, "value_type"):
        column = column.flatten()
    array: Array = column.to_numpy(zero_copy_only=True)
    return array


PARQUET = PartFormat(_write, _ParquetReader)
