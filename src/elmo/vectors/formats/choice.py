"""The name of a format -> the format, imported when it is used."""

from elmo.vectors.formats.part_format import PartFormat
from elmo.vectors.settings import FileFormat


def open_format(name: FileFormat) -> PartFormat:
    """Give the format of that name."""
    if name == "parquet":
        from elmo.vectors.formats.parquet import PARQUET

        return PARQUET
    if name == "npy":
        from elmo.vectors.formats.npy import NPY

        return NPY
    from elmo.vectors.formats.hdf5 import HDF5

    return HDF5
