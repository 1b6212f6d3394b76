"""Arrays whose number of rows is known only at the end, written row by row: .npy, HDF5, members of an .npz."""

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo.model import Array

_HDF5_ROWS_AT_ONCE = 1024


@contextmanager
def writing_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Give a zip archive to add members to; what stops the writing is what is told of it."""
    with path.open("wb") as file:
        archive = zipfile.ZipFile(file, "w")
        try:
            yield archive
        except BaseException:
            archive.fp = None  # closing it would complain of a member that is half written
            raise
        archive.close()


def open_member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Open an array of an .npz file for writing."""
    # A ZipInfo of its own has a fixed date: the same vectors give the same file.
    return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)


def write_header(file: IO[bytes], dtype: str, shape: tuple[int, ...]) -> None:
    """Write what stands in an .npy file before the numbers; as long for any number of rows."""
    import numpy as np

    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


@contextmanager
def growing_array(file: IO[bytes], row_shape: tuple[int, ...]) -> Iterator["Callable[[Array], None]"]:
    """Give what appends a row of float32 to an .npy file."""
    num_rows = 0

    def add(row: "Array") -> None:
        nonlocal num_rows
        file.write(row.astype("<f4", copy=False).tobytes())
        num_rows += 1

    write_header(file, "<f4", (0, *row_shape))
    yield add
    file.seek(0)
    write_header(file, "<f4", (num_rows, *row_shape))


@contextmanager
def growing_dataset(
    file: Any, name: str, row_shape: tuple[int, ...], dtype: Any
) -> Iterator[Callable[[Any], None]]:
    """Give what appends a row to a dataset of an HDF5 file; many rows are written at a time."""
    rows: list[Any] = []
    dataset = file.create_dataset(name, (0, *row_shape), dtype, maxshape=(None, *row_shape), chunks=True)

    def flush() -> None:
        if rows:
            dataset.resize(len(dataset) + len(rows), axis=0)
            dataset[-len(rows) :] = rows
            rows.clear()

    def add(row: Any) -> None:
        rows.append(row)
        if len(rows) == _HDF5_ROWS_AT_ONCE:
            flush()

    yield add
    flush()
