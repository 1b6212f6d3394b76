"""An HDF5 file -> float32 tensors by name, or a CheckpointError; what the names mean is not known here."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo.checkpoint.location import Location, check_expansion, check_file, read_file
from elmo.errors import CheckpointError, first_line

MOST_LINKS = 10_000
# What h5py raises where a file is damaged, depending on the byte that is wrong.
_DAMAGE = (
    OSError,
    RuntimeError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    MemoryError,
    SystemError,
)


class Hdf5File:
    """An open file; made by open_hdf5."""

    def __init__(self, file: Any, path: Location) -> None:
        self._file, self._path = file, path

    def __contains__(self, name: str) -> bool:
        with _telling_damage(self._path):
            return name in self._file

    def list_tensors(self) -> list[str]:
        """Give the names of all datasets, those in groups too."""
        import h5py

        names: list[str] = []

        def visit(name: str | bytes, entry: Any) -> None:
            if isinstance(entry, h5py.Dataset):
                # h5py gives the bytes of a name that is not UTF-8.
                names.append(name if isinstance(name, str) else name.decode(errors="replace"))

        with _telling_damage(self._path):
            self._file.visititems(visit)
        return names

    def read_tensor(self, name: str) -> Tensor:
        """Read a dataset of numbers of any type and byte order as float32."""
        import h5py

        with _telling_damage(self._path):
            entry = self._file[name]
            if not isinstance(entry, h5py.Dataset) or entry.shape is None or entry.dtype.kind not in "fiu":
                kind = f"values of type {entry.dtype}" if isinstance(entry, h5py.Dataset) else "a group"
                raise CheckpointError(
                    f"{self._path} has {kind} under {name!r}; an array of numbers was expected, so it is "
                    "damaged or of another program."
                )
            if entry.external or entry.is_virtual:
                raise CheckpointError(
                    f"{self._path} takes {name!r} from another file; a model holds its own numbers, so it was not "
                    "opened."
                )
            # A wrong bit in the shape would otherwise ask for any amount of memory.
            num_stored = entry.id.get_storage_size()
            if entry.chunks is None and entry.nbytes > num_stored:
                raise ValueError(f"{name} ends before its {entry.nbytes} bytes")
            check_expansion(entry.nbytes, num_stored, f"{self._path}, {name!r},")
            with np.errstate(all="ignore"):  # what float32 cannot hold is infinite, and refused as such
                return torch.from_numpy(np.array(entry[...], dtype=np.float32))


@contextlib.contextmanager
def open_hdf5(path: Location) -> Iterator[Hdf5File]:
    """Open an HDF5 file from disk or from inside an archive."""
    import h5py

    check_file(path)
    source = path if isinstance(path, Path) else io.BytesIO(read_file(path))
    with contextlib.ExitStack() as stack:
        with _telling_damage(path):
            file = stack.enter_context(h5py.File(source, "r"))
            _check_links(file, path)
        yield Hdf5File(file, path)


def _check_links(file: Any, path: Location) -> None:
    """Refuse a file that reaches into others, before any of its names is followed."""
    import h5py

    num_links, waiting = 0, [file]
    while waiting:
        group = waiting.pop()
        for name in group:
            link = group.get(name, getlink=True)
            num_links += 1
            if num_links > MOST_LINKS:
                raise CheckpointError(f"{path} has more than {MOST_LINKS} entries, which no model has.")
            if not isinstance(link, h5py.HardLink | h5py.SoftLink):
                raise CheckpointError(
                    f"{path} has under {name!r} a link to another file; a model holds its own numbers, so it was "
                    "not opened."
                )
            if isinstance(link, h5py.HardLink) and group.get(name, getclass=True) is h5py.Group:
                waiting.append(group[name])


@contextlib.contextmanager
def _telling_damage(path: Location) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        reason = first_line(error).strip("'\"")
        raise CheckpointError(
            f"{path} is not a whole HDF5 file ({reason}); it may be cut off, damaged or another kind of file."
        ) from error
