"""A part as one HDF5 file: an array per row, named by its index in the input, and the rows beside it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py

from elmo.files.arrays import add_dataset, open_hdf5_output
from elmo.vectors.formats import (
    ROWS_ENDING,
    Add,
    Block,
    Layout,
    PartFormat,
    PartReader,
    RowLines,
    StoredRow,
    file_at,
    write_rows,
)

ENDING = ".h5"
_SCALES = "scales"


@contextmanager
def _write(stem: Path, layout: Layout) -> Iterator[Add]:
    with open_hdf5_output(file_at(stem, ENDING)) as (file, check), file_at(stem, ROWS_ENDING).open("wb") as rows:

        def add(block: Block) -> None:
            start = 0
            for index, count in zip(block.indexes, block.counts, strict=True):
                # The one vector of a sentence needs no axis of its own.
                place = start if layout.unit == "sentences" else slice(start, start + count)
                add_dataset(file, str(index), block.vectors[place])
                if block.scales is not None:
                    add_dataset(file.require_group(_SCALES), str(index), block.scales[place])
                start += count
            write_rows(rows, block)
            check()

        yield add


class _Hdf5Reader(PartReader):
    def __init__(self, stem: Path, layout: Layout) -> None:
        self._layout = layout
        self._rows = RowLines(stem)
        self._file = h5py.File(file_at(stem, ENDING), "r")

    def read(self, position: int) -> StoredRow:
        row = self._rows.row(position)
        vectors, scales = self._file[str(row[0])][...], None
        if self._layout.dtype == "int8":
            scales = self._file[f"{_SCALES}/{row[0]}"][...]
        if self._layout.unit == "sentences":
            vectors, scales = vectors[None], None if scales is None else scales[None]
        return StoredRow(*row, vectors, scales)

    def read_names(self) -> Iterator[tuple[int, str | None]]:
        return self._rows.names()

    def close(self) -> None:
        self._file.close()


HDF5 = PartFormat(_write, _Hdf5Reader)
