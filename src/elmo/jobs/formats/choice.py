"""The name of a format -> the format, imported when it is used."""

from elmo.jobs.formats.part_format import PartFormat
from elmo.jobs.settings import FileFormat


def open_format(name: FileFormat) -> PartFormat:
    """Give the format of that name."""
    if name == "parquet":
        from elmo.jobs.formats.parquet import PARQUET

        return PARQUET
    if name == "npy":
        from elmo.jobs.formats.npy import NPY

        return NPY
    from elmo.jobs.formats.hdf5 import HDF5

    return HDF5
