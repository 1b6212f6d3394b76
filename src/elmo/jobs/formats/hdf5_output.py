"""An HDF5 file for writing, whose failures come as one OSError.

The HDF5 library writes late, and after a full disk it complains of every object it cannot close. Here the
first failure is kept, later writes are swallowed, and the failure is raised where Python code can see it.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Check: TypeAlias = Callable[[], None]


@contextmanager
def open_hdf5_output(path: Path) -> Iterator[tuple[Any, Check]]:
    """Give the HDF5 file, and what raises the first failure to write it, to be called now and then."""
    import h5py

    with _Sink(path, "w+") as sink:
        try:
            with h5py.File(sink, "w") as file:
                yield file, sink.check
        except Exception:
            sink.check()  # the cause, if the library only stumbled over it
            raise
        sink.check()


class _Sink(io.FileIO):
    """The file as the HDF5 library sees it: writing never fails."""

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
        except (OSError, KeyboardInterrupt) as error:  # Ctrl-C too must wait until the library is left
            self.failure = error
        return num_bytes

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size) if self.failure is None else size or 0
        except OSError as error:
            self.failure = error
            return size or 0
