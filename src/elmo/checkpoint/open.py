"""Open a model, whatever its format: found by source.py, recognized here, read by folder.py and formats/.

Which format a folder is: ours, then ELMoForManyLangs, then HDF5, then a TensorFlow checkpoint.
"""

import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar, get_args

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import CARD_FILE, is_model_folder, read_card, read_config, read_folder
from elmo.checkpoint.formats import hdf5, manylangs, tensorflow
from elmo.checkpoint.location import (
    HDF5_SUFFIXES,
    Location,
    as_path,
    check_file,
    list_folder,
    parent_of,
    unreadable,
)
from elmo.checkpoint.source import find_model
from elmo.config import TokenizationConfig
from elmo.errors import CheckpointError
from elmo.files.durable import current_folder

T = TypeVar("T")
Format = Literal["elmo", "manylangs", "hdf5", "tensorflow", "zip"]
MAX_MEMBERS, MAX_DEPTH = 1000, 32  # of an archive
_NOT_OURS = "__MACOSX"  # added to archives by macOS


def open_checkpoint(
    source: str | Path,
    *,
    format: Format | None = None,
    token_embeddings: str | Path | None = None,
    revision: str | None = None,
    local_files_only: bool = False,
) -> Checkpoint:
    """Open a model from wherever it is; see Elmo.from_pretrained for the arguments."""
    if format is not None and format not in get_args(Format):
        raise CheckpointError(f"The format {format!r} is unknown; choose one of {', '.join(get_args(Format))}.")
    path = find_model(source, revision=revision, local_files_only=local_files_only)
    cache = as_path(token_embeddings, "token_embeddings") if token_embeddings is not None else None
    is_zip = format == "zip" or (format is None and is_archive(path))
    return _open(path, is_zip, lambda place: _read(place, None if is_zip else format, cache))


def read_tokenization(source: str | Path) -> TokenizationConfig:
    """Return how a model splits text, without its weights; models of other formats than ours read words."""
    path = find_model(source)
    return _open(path, is_archive(path), _read_tokenization)


def _open(path: Path, is_zip: bool, read: Callable[[Location], T]) -> T:
    try:
        return read(_open_archive(path)) if is_zip else read_settled(path, read)
    except OSError as error:  # such as a folder without permission to list it
        raise unreadable(Path(error.filename or path), error) from error


def _read_tokenization(folder: Location) -> TokenizationConfig:
    return read_config(folder)[1].tokenization if is_model_folder(folder) else TokenizationConfig()


def read_settled(path: Path, read: Callable[[Path], T]) -> T:
    """Return what `read` makes of a model, of which another process may be replacing the files meanwhile."""
    folder = path if path.is_dir() else path.parent
    while True:
        current = current_folder(folder)
        before = current, folder.stat().st_mtime_ns
        try:
            return read(current if path == folder else current / path.name)
        except CheckpointError:
            if (current_folder(folder), folder.stat().st_mtime_ns) == before:
                raise


def recognize(folder: Location) -> Format | None:
    """Return the format of the model in a folder, or None if it holds none."""
    if is_model_folder(folder):
        return "elmo"
    if (folder / manylangs.ENCODER_FILE).is_file():
        return "manylangs"
    names = [entry.name for entry in list_folder(folder)]
    if any(name.endswith(HDF5_SUFFIXES) for name in names) and any(n.endswith("options.json") for n in names):
        return "hdf5"
    return "tensorflow" if any(name.endswith(".index") for name in names) else None


def is_archive(path: Path) -> bool:
    """Return whether a path is a zip archive, by its content; a damaged one is recognized by its name."""
    if not path.is_file() or path.suffix in HDF5_SUFFIXES:
        return False
    return path.suffix.lower() == ".zip" or zipfile.is_zipfile(path)


def _open_archive(path: Path) -> Location:
    """Return the only folder of an archive that holds a model, or its top if none does; nothing is unpacked."""
    check_file(path)
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{path} is not a complete zip archive: {error}.") from error
    names = archive.namelist()
    if len(names) > MAX_MEMBERS or any(name.count("/") > MAX_DEPTH for name in names):
        raise CheckpointError(
            f"{path} has more than {MAX_MEMBERS} members or {MAX_DEPTH} nested folders; no published model has, "
            "so the archive was not opened."
        )
    for name in names:
        member = PurePosixPath(name.replace("\\", "/"))
        if not member.parts or member.is_absolute() or ".." in member.parts or re.match(r"[A-Za-z]:", name):
            raise CheckpointError(
                f"{path} has a member {name!r}, which is no path inside the archive; no published model has one, "
                "so the archive was not opened."
            )
    root: Location = zipfile.Path(archive)
    models, waiting = [], [root]
    while waiting:
        folder = waiting.pop()
        if recognize(folder):
            models.append(folder)
        else:
            waiting += [entry for entry in list_folder(folder) if entry.is_dir() and entry.name != _NOT_OURS]
    if len(models) > 1:
        names = [folder.name for folder in sorted(models, key=str)]
        raise CheckpointError(
            f"{path} holds several models ({' and '.join(names[:3])}); unpack it and give the path of one."
        )
    return models[0] if models else root


def _read(path: Location, format: Format | None, token_embeddings: Path | None) -> Checkpoint:
    if path.is_dir():
        format = format or recognize(path)
        if format is None:
            raise CheckpointError(
                f"{path} holds no model: expected config.json with weights.safetensors, encoder.pkl, an "
                "options.json with an HDF5 file, or a TensorFlow checkpoint."
            )
    elif format is None and isinstance(path, Path):
        if path.exists():  # it may also be the prefix of several files
            check_file(path)
        format = "hdf5" if path.suffix in HDF5_SUFFIXES or hdf5.is_hdf5(path) else "tensorflow"
    if token_embeddings is not None and format != "hdf5":
        raise CheckpointError(
            f"token_embeddings was given, but {path} has the format {format!r}; only HDF5 models have such files."
        )
    if format == "elmo":
        return read_folder(path)
    if format == "manylangs":
        return _add_card(manylangs.read_manylangs(path), path)
    read = _read_hdf5(path, token_embeddings) if format == "hdf5" else _read_tensorflow(path)
    return _add_card(read, path if path.is_dir() else parent_of(path))


def _add_card(checkpoint: Checkpoint, folder: Location) -> Checkpoint:
    """Return the model with the card beside it; a README.md without front matter may be about anything."""
    card = read_card(folder / CARD_FILE)
    return replace(checkpoint, card=card) if card is not None and card.startswith("---\n") else checkpoint


def _read_hdf5(path: Location, token_embeddings: Path | None) -> Checkpoint:
    folder, weights = parent_of(path), path
    if path.is_dir():
        folder = path
        files = [entry for entry in list_folder(folder) if entry.name.endswith(HDF5_SUFFIXES)]
        if len(files) > 1 or token_embeddings is not None:
            files = [entry for entry in files if hdf5.holds_weights(entry)]
        weights = _only(files, "HDF5 files with weights", folder)
    return hdf5.read_hdf5(_find_options(folder, weights.name), weights, token_embeddings=token_embeddings)


def _read_tensorflow(path: Location) -> Checkpoint:
    if not isinstance(path, Path):
        raise CheckpointError("A TensorFlow checkpoint cannot be read inside a zip archive; unpack it first.")
    if path.is_dir():
        prefix = tensorflow.find_prefix(path)
        if prefix is None:
            raise CheckpointError(f"{path} holds no TensorFlow checkpoint (no file ends in .index).")
    else:
        prefix = Path(re.sub(r"\.(index|data-\d+-of-\d+)$", "", str(path)))
        if not Path(f"{prefix}.index").is_file():
            raise CheckpointError(
                f"{path} is not a model: expected a folder, an .hdf5 file, a .zip archive or the prefix of a "
                "TensorFlow checkpoint."
            )
    return tensorflow.read_tensorflow(prefix, _find_options(prefix.parent, prefix.name))


def _find_options(folder: Location, weights_name: str) -> Location:
    files = [entry for entry in list_folder(folder) if entry.name.endswith("options.json")]
    if len(files) > 1:
        # elmo_X_weights.hdf5 belongs to elmo_X_options.json.
        own_name = re.sub(r"weights\.(hdf5|h5)$", "options.json", weights_name)
        files = [entry for entry in files if entry.name == own_name] or files
    return _only(files, "options files", folder)


def _only(files: list[Location], what: str, folder: Location) -> Location:
    if len(files) == 1:
        return files[0]
    if not files:
        raise CheckpointError(f"{folder} has no {what}; put the one that belongs to the weights there.")
    names = " and ".join(sorted(entry.name for entry in files))
    raise CheckpointError(f"{folder} has several {what}, {names}; keep one, or give the path of the .hdf5 file.")
