"""A zip archive -> the folder inside it that holds the model. Nothing is unpacked."""

import re
import zipfile
from pathlib import Path, PurePosixPath

from elmo.checkpoint.location import Location, check_file, list_folder
from elmo.checkpoint.recognition import HDF5_SUFFIXES, recognize
from elmo.errors import CheckpointError

MOST_MEMBERS, MOST_FOLDERS = 1000, 32
_NOT_OURS = "__MACOSX"  # what macOS adds to archives


def is_archive(path: Path) -> bool:
    """Tell whether a path is a zip archive, by what is in it; a damaged one is known by its name."""
    if not path.is_file() or path.suffix in HDF5_SUFFIXES:
        return False
    return path.suffix.lower() == ".zip" or zipfile.is_zipfile(path)


def open_archive(path: Path) -> Location:
    """Give the only folder of an archive that holds a model, or its top where none does."""
    check_file(path)
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{path} is not a whole zip archive: {error}.") from error
    names = archive.namelist()
    if len(names) > MOST_MEMBERS or any(name.count("/") > MOST_FOLDERS for name in names):
        raise CheckpointError(
            f"{path} has more than {MOST_MEMBERS} members, or more than {MOST_FOLDERS} folders inside each other; "
            "no published model has, so the archive was not opened."
        )
    for name in names:
        member = PurePosixPath(name.replace("\\", "/"))
        if member.is_absolute() or ".." in member.parts or re.match(r"[A-Za-z]:", name):
            raise CheckpointError(
                f"{path} has a member {name!r} that would leave its folder; no published model has one, so the "
                "archive was not opened."
            )
    root: Location = zipfile.Path(archive)
    found = _model_folders(root)
    if len(found) > 1:
        raise CheckpointError(
            f"{path} holds several models ({' and '.join(folder.name for folder in found[:3])}); unpack it and "
            "give the path of one."
        )
    return found[0] if found else root


def _model_folders(root: Location) -> list[Location]:
    found: list[Location] = []
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        if recognize(folder):
            found.append(folder)
        else:
            waiting += [entry for entry in list_folder(folder) if entry.is_dir() and entry.name != _NOT_OURS]
    return sorted(found, key=str)
