"""Open a model, whatever its format: found by source.py, recognized here, read by folder.py and formats/.

Which format a folder is: ours, then ELMoForManyLangs, then HDF5, then a TensorFlow checkpoint.
"""

import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import CARD_FILE, is_model_folder, read_card, read_folder
from elmo.checkpoint.formats import hdf5, manylangs, tensorflow
from elmo.checkpoint.location import HDF5_SUFFIXES, Location, as_path, check_file, list_folder, parent_of, unreadable
from elmo.checkpoint.source import find_model
from elmo.errors import CheckpointError
from elmo.files.durable import current_folder

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
    cache = None if token_embeddings is None else as_path(token_embeddings, "token_embeddings")
    try:
        if format == "zip" or (format is None and is_archive(path)):
            return _read(_open_archive(path), None, cache)
        folder = path if path.is_dir() else path.parent
        while True:  # another process may be replacing the files
            current = current_folder(folder)
            modified = folder.stat().st_mtime_ns
            try:
                return _read(current if path == folder else current / path.name, format, cache)
            except CheckpointError:
                if (current_folder(folder), folder.stat().st_mtime_ns) == (current, modified):
                    raise
    except OSError as error:  # such as a folder without permission to list it
        raise unreadable(Path(error.filename or path), error) from error


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
    folders = [re.split(r"[/\\]", name.removesuffix("/")) for name in names]
    if len(names) > MAX_MEMBERS or any(len(parts) > MAX_DEPTH or {"", ".."} & {*parts} for parts in folders):
        raise CheckpointError(
            f"{path} has more than {MAX_MEMBERS} members or {MAX_DEPTH} nested folders, or a member whose name is "
            "not a path inside the archive; no published model has, so the archive was not opened."
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
    is_folder = path.is_dir()
    if format is None and is_folder:
        format = recognize(path)
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
    folder = path if is_folder else parent_of(path)
    if format == "elmo":
        return read_folder(path)
    if format == "manylangs":
        checkpoint = manylangs.read_manylangs(path)
    elif format == "hdf5":
        weights = path
        if is_folder:
            files = [entry for entry in list_folder(folder) if entry.name.endswith(HDF5_SUFFIXES)]
            if len(files) > 1 or token_embeddings is not None:
                files = [entry for entry in files if hdf5.holds_weights(entry)]
            weights = _only(files, "HDF5 files with weights", folder)
        checkpoint = hdf5.read_hdf5(_find_options(folder, weights), weights, token_embeddings=token_embeddings)
    else:
        if not isinstance(path, Path):
            raise CheckpointError("A TensorFlow checkpoint cannot be read inside a zip archive; unpack it first.")
        prefix = tensorflow.find_prefix(path)
        checkpoint = tensorflow.read_tensorflow(prefix, _find_options(folder, prefix))
    card = read_card(folder / CARD_FILE)
    # A README.md without front matter may be about anything.
    return replace(checkpoint, card=card) if card is not None and card.startswith("---\n") else checkpoint


def _find_options(folder: Location, weights: Location) -> Location:
    files = [entry for entry in list_folder(folder) if entry.name.endswith("options.json")]
    if len(files) > 1:
        # elmo_X_weights.hdf5 belongs to elmo_X_options.json.
        own_name = re.sub(r"weights\.(hdf5|h5)$", "options.json", weights.name)
        files = [entry for entry in files if entry.name == own_name] or files
    return _only(files, "options files", folder)


def _only(files: list[Location], what: str, folder: Location) -> Location:
    if len(files) == 1:
        return files[0]
    if not files:
        raise CheckpointError(f"{folder} has no {what}; put the one that belongs to the weights there.")
    names = " and ".join(sorted(entry.name for entry in files))
    raise CheckpointError(f"{folder} has several {what}, {names}; keep one, or give the path of the .hdf5 file.")
