"""Write arrays to .npy and HDF5 files piece by piece.

The number of rows need not be known in advance. A failed write raises OSError, for HDF5 too.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Array: TypeAlias = npt.NDArray[Any]


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


@contextmanager
def open_hdf5_output(path: Path) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Yield an HDF5 file, and a function, to be called regularly, that raises the first write error."""
    import h5py

    with _Hdf5Sink(path, "w+") as sink:
        try:
            with h5py.File(sink, "w") as file:
                yield file, sink.check
        finally:
            sink.check()  # the cause of other errors


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
