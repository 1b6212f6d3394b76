"""Write arrays to .npy, .npz and HDF5 files piece by piece, and memory-map .npy files.

The number of rows need not be known in advance. A failed write raises OSError, for HDF5 too.
"""

import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from elmo.errors import first_line

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Array: TypeAlias = npt.NDArray[Any]


def read_npy(path: Path) -> Array:
    """Memory-map an .npy file; raise ValueError if it is damaged, because NumPy may then raise any exception."""
    try:
        return cast(Array, np.load(path, mmap_mode="r"))
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path.name} is not a complete array ({first_line(error):.80})") from error


def write_npy(path: Path, array: Array) -> None:
    """Write an .npy file without NumPy's `tofile`, which does not report a full disk."""
    content = io.BytesIO()
    np.save(content, array)
    path.write_bytes(content.getbuffer())


@contextmanager
def growing_npy(file: IO[bytes], dtype: str, row_shape: tuple[int, ...]) -> Iterator[Callable[[Array], None]]:
    """Yield a function that appends an array of rows to an .npy file."""
    num_rows = 0

    def write_header() -> None:  # its length does not depend on the number of rows
        header = {"descr": dtype, "fortran_order": False, "shape": (num_rows, *row_shape)}
        np.lib.format.write_array_header_1_0(file, header)

    def append(rows: Array) -> None:
        nonlocal num_rows
        file.write(np.ascontiguousarray(rows, dtype).tobytes())
        num_rows += len(rows)

    write_header()
    yield append
    file.seek(0)
    write_header()


def open_member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Open an array of an .npz file for writing."""
    # A new ZipInfo has a fixed date, so the same vectors give the same file.
    return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)


@contextmanager
def open_hdf5_output(path: Path) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Yield an HDF5 file, and a function, to be called regularly, that raises the first write error."""
    import h5py

    with _Hdf5Sink(path, "w+") as sink:
        try:
            with h5py.File(sink, "w") as file:
                yield file, sink.check
        except Exception:
            sink.check()  # raise the cause instead, if there is one
            raise
        sink.check()


class _Hdf5Sink(io.FileIO):
    """The file that the HDF5 library writes to; its methods never raise.

    A write error would make the library crash the process. The first error is stored, later writes do nothing, and
    `check` raises the error.
    """

    failure: BaseException | None = None

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def write(self, content: "ReadableBuffer") -> int:
        rest = memoryview(content).cast("B")
        num_bytes = len(rest)
        try:
            while rest and self.failure is None:
                rest = rest[super().write(rest) :]
        except (OSError, KeyboardInterrupt) as error:  # Ctrl-C must also wait until the library returns
            self.failure = error
        return num_bytes

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size) if self.failure is None else size or 0
        except OSError as error:
            self.failure = error
            return size or 0
