"""A folder, a file, an archive, an alias or a hub id -> Checkpoint, whatever the format.

Which format a folder is: ours, then ELMoForManyLangs, then HDF5, then a TensorFlow checkpoint.
"""

import re
from pathlib import Path
from typing import get_args

from elmo.checkpoint.archive import is_archive, open_archive
from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.embedded import EMBEDDED
from elmo.checkpoint.folder import read_folder
from elmo.checkpoint.formats import hdf5, manylangs, tensorflow
from elmo.checkpoint.hub import fetch_from_hub
from elmo.checkpoint.location import Location, as_path, check_file, list_folder, parent_of, unreadable
from elmo.checkpoint.official import OFFICIAL, fetch_official
from elmo.checkpoint.recognition import HDF5_SUFFIXES, Format, recognize
from elmo.checkpoint.run_folder import RUN_FILE, best_checkpoint
from elmo.errors import CheckpointError

FILE_SUFFIXES = (*HDF5_SUFFIXES, ".zip", ".json", ".index")


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
        raise CheckpointError(f"The format {format!r} is not known; choose one of {', '.join(get_args(Format))}.")
    path = find_model(source, revision=revision, local_files_only=local_files_only)
    cache = as_path(token_embeddings, "token_embeddings") if token_embeddings is not None else None
    try:
        if format == "zip" or (format is None and is_archive(path)):
            return _read_located(open_archive(path), None, cache)
        return _read_located(path, format, cache)
    except OSError as error:  # such as a folder that may not be looked into
        raise unreadable(Path(error.filename or path), error) from error


def find_model(source: str | Path, *, revision: str | None = None, local_files_only: bool = False) -> Path:
    """Give where a model is on disk, fetched first if it is named by an alias or a hub id."""
    path = as_path(source, "The model")
    name = str(source)
    try:
        is_run = (path / RUN_FILE).is_file()
        is_local = path.exists() or path.parent.joinpath(f"{path.name}.index").exists()
    except OSError as error:
        raise unreadable(path, error) from error
    if revision is not None and (is_local or name in EMBEDDED or name in OFFICIAL):
        raise CheckpointError(
            f"revision was given, but {name!r} is no model of the hub, which alone has revisions; leave it out."
        )
    if is_local:
        return best_checkpoint(path) if is_run else path
    if name in EMBEDDED:
        return EMBEDDED[name]
    if name in OFFICIAL:
        return fetch_official(name, local_files_only=local_files_only)
    if isinstance(source, str) and _may_be_on_hub(name):
        try:
            return fetch_from_hub(name, revision=revision, local_files_only=local_files_only)
        except CheckpointError as error:
            message = str(error)
            raise CheckpointError(
                f"There is no local file or folder {name!r}, and {message[0].lower()}{message[1:]}"
            ) from error.__cause__
    raise CheckpointError(
        f"No model was found at {name!r}; give a folder, an .hdf5 or .zip file, a hub id such as 'name/model', "
        f"or one of {', '.join([*EMBEDDED, *OFFICIAL])}."
    )


def _may_be_on_hub(name: str) -> bool:
    """Tell a hub id from the misspelled path of a file."""
    if not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) or name.lower().endswith(FILE_SUFFIXES):
        return False
    return not Path(name.split("/")[0]).exists()


def _read_located(path: Location, format: Format | None, token_embeddings: Path | None) -> Checkpoint:
    if path.is_dir():
        format = format or _detect(path)
    elif format is None and isinstance(path, Path):
        if path.exists():  # it may also be the prefix of several files
            check_file(path)
        format = "hdf5" if path.suffix in HDF5_SUFFIXES or _is_hdf5(path) else "tensorflow"
    if token_embeddings is not None and format != "hdf5":
        raise CheckpointError(
            f"token_embeddings was given, but {path} is of the format {format!r}; only HDF5 models "
            "have such files."
        )
    if format == "elmo":
        return read_folder(path)
    if format == "manylangs":
        return manylangs.read_manylangs(path)
    if format == "hdf5":
        return _read_hdf5(path, token_embeddings)
    return _read_tensorflow(path)


def _detect(folder: Location) -> Format:
    if format := recognize(folder):
        return format
    raise CheckpointError(
        f"{folder} holds no model: expected config.json with weights.safetensors, encoder.pkl, an options.json "
        "with an HDF5 file, or a TensorFlow checkpoint."
    )


def _read_hdf5(path: Location, token_embeddings: Path | None) -> Checkpoint:
    folder: Location = path if path.is_dir() else parent_of(path)
    weights = path
    if path.is_dir():
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
    options = _find_options(prefix.parent, prefix.name)
    assert isinstance(options, Path)
    return tensorflow.read_tensorflow(prefix, options)


def _find_options(folder: Location, weights_name: str) -> Location:
    files = [entry for entry in list_folder(folder) if entry.name.endswith("options.json")]
    if len(files) > 1:
        # elmo_X_weights.hdf5 goes with elmo_X_options.json.
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


def _is_hdf5(path: Path) -> bool:
    import h5py

    return bool(h5py.is_hdf5(path))
