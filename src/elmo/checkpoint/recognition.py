"""Which format the model in a folder has, by the names of its files: ours, then those of other programs."""

from typing import Literal

from elmo.checkpoint.folder import is_model_folder
from elmo.checkpoint.formats import manylangs
from elmo.checkpoint.location import Location, list_folder

Format = Literal["elmo", "manylangs", "hdf5", "tensorflow", "zip"]
HDF5_SUFFIXES = (".hdf5", ".h5")


def recognize(folder: Location) -> Format | None:
    """Give the format, or None where a folder holds no model."""
    if is_model_folder(folder):
        return "elmo"
    if (folder / manylangs.ENCODER_FILE).is_file():
        return "manylangs"
    names = [entry.name for entry in list_folder(folder)]
    if any(name.endswith(HDF5_SUFFIXES) for name in names) and any(n.endswith("options.json") for n in names):
        return "hdf5"
    if any(name.endswith(".index") for name in names):
        return "tensorflow"
    return None
