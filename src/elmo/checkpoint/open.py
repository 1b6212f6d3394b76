"""A folder, a file, an archive, an alias or a hub id -> Checkpoint, whatever the format.

Which format a folder is: ours, then ELMoForManyLangs, then HDF5, then a TensorFlow checkpoint.
"""

import re
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import is_model_folder, read_folder
from elmo.checkpoint.formats import hdf5, manylangs, tensorflow
from elmo.checkpoint.hub import fetch_from_hub
from elmo.checkpoint.location import Location, parent_of
from elmo.checkpoint.official import OFFICIAL, fetch_official
from elmo.checkpoint.run_folder import RUN_FILE, best_checkpoint
from elmo.errors import CheckpointError

Format = Literal["elmo", "manylangs", "hdf5", "tensorflow", "zip"]
HDF5_SUFFIXES = (".hdf5", ".h5")


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
    cache = Path(token_embeddings) if token_embeddings is not None else None
    if format == "zip" or (format is None and path.is_file() and path.suffix == ".zip"):
        try:
            return _read_located(_open_zip(path), None, cache)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
            raise CheckpointError(f"{path} is damaged: {error}; get the archive again.") from error
    return _read_located(path, format, cache)


def find_model(source: str | Path, *, revision: str | None = None, local_files_only: bool = False) -> Path:
    """Give where a model is on disk, fetched first if it is named by an alias or a hub id."""
    path = Path(source).expanduser()
    if (path / RUN_FILE).is_file():
        return best_checkpoint(path)
    if path.exists() or path.with_name(path.name + ".index").exists():
        return path
    name = str(source)
    if name in OFFICIAL:
        return fetch_official(name, local_files_only=local_files_only)
    if isinstance(source, str) and re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not name.startswith("."):
        return fetch_from_hub(name, revision=revision, local_files_only=local_files_only)
    raise CheckpointError(
        f"No model was found at {name!r}; give a folder, an .hdf5 or .zip file, a hub id such as 'name/model', "
        f"or one of {', '.join(OFFICIAL)}."
    )


def _open_zip(path: Path) -> Location:
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} is not a whole zip archive: {error}.") from error
    for name in archive.namelist():
        member = PurePosixPath(name.replace("\\", "/"))
        if member.is_absolute() or ".." in member.parts or re.match(r"[A-Za-z]:", name):
            raise CheckpointError(
                f"{path} has a member {name!r} that would leave its folder; no published model has one, so the "
                "archive was not opened."
            )
    root = zipfile.Path(archive)
    while len(entries := list(root.iterdir())) == 1 and entries[0].is_dir():
        root = entries[0]
    return root


def _read_located(path: Location, format: Format | None, token_embeddings: Path | None) -> Checkpoint:
    if path.is_dir():
        format = format or _detect(path)
    elif format is None and isinstance(path, Path):
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
    if is_model_folder(folder):
        return "elmo"
    if (folder / manylangs.ENCODER_FILE).is_file():
        return "manylangs"
    names = [entry.name for entry in folder.iterdir()]
    if any(name.endswith(HDF5_SUFFIXES) for name in names) and any(n.endswith("options.json") for n in names):
        return "hdf5"
    if any(name.endswith(".index") for name in names):
        return "tensorflow"
    raise CheckpointError(
        f"{folder} holds no model: expected config.json with weights.safetensors, encoder.pkl, an options.json "
        "with an HDF5 file, or a TensorFlow checkpoint."
    )


def _read_hdf5(path: Location, token_embeddings: Path | None) -> Checkpoint:
    folder: Location = path if path.is_dir() else parent_of(path)
    weights = path
    if path.is_dir():
        files = [entry for entry in folder.iterdir() if entry.name.endswith(HDF5_SUFFIXES)]
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
    files = [entry for entry in folder.iterdir() if entry.name.endswith("options.json")]
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
