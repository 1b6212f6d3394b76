"""Open a model of any format: source.py locates it, this module detects its format, folder.py and formats/ read it.

A folder is tested for our own format first, then for ELMoForManyLangs, HDF5 and a TensorFlow checkpoint.
"""

import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import is_model_folder, read_card, read_folder
from elmo.checkpoint.formats import hdf5, manylangs, tensorflow
from elmo.checkpoint.location import HDF5_SUFFIXES, check_expansion, unreadable
from elmo.checkpoint.source import find_model
from elmo.errors import CheckpointError
from elmo.files.durable import current_folder

Format = Literal["elmo", "manylangs", "hdf5", "tensorflow"]
# Exceptions that zipfile raises for damaged or encrypted archives, apart from OSError.
_ARCHIVE_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, LookupError, RuntimeError, ValueError)
_MACOS_FOLDER = "__MACOSX"  # added to archives by macOS
_MAX_ENTRIES, _MAX_DEPTH = 10_000, 50  # limits for an archive


def open_checkpoint(
    source: str | Path,
    *,
    format: Format | None = None,
    revision: str | None = None,
    local_files_only: bool = False,
) -> Checkpoint:
    """Open a model; see Elmo.from_pretrained for the arguments."""
    if format is not None and format not in get_args(Format):
        raise CheckpointError(f"The format {format!r} is unknown; choose one of {', '.join(get_args(Format))}.")
    try:
        path = find_model(source, revision=revision, local_files_only=local_files_only)
        if is_archive(path):
            with _unpack(path) as folder:
                return _read(folder, format)
        folder = path if path.is_dir() else path.parent
        while True:  # another process may be replacing the files
            current = current_folder(folder)
            modified = folder.stat().st_mtime_ns
            try:
                return _read(current if path == folder else current / path.name, format)
            except CheckpointError:
                if (current_folder(folder), folder.stat().st_mtime_ns) == (current, modified):
                    raise
    except OSError as error:  # such as a folder without permission to list it
        raise unreadable(error.filename or source, error) from error


def recognize(path: Path) -> Format | None:
    """Return the format of a model file or folder; None for a folder without a model."""
    if path.suffix in HDF5_SUFFIXES:
        return "hdf5"
    if not path.is_dir():
        import h5py

        return "hdf5" if path.is_file() and h5py.is_hdf5(path) else "tensorflow"
    if is_model_folder(path):
        return "elmo"
    if (path / manylangs.ENCODER_FILE).is_file():
        return "manylangs"
    names = [entry.name for entry in path.iterdir()]
    if any(name.endswith(HDF5_SUFFIXES) for name in names) and any(n.endswith("options.json") for n in names):
        return "hdf5"
    return "tensorflow" if any(name.endswith(".index") for name in names) else None


def is_archive(path: Path) -> bool:
    """Return whether a path is a zip archive, judged by its content or, if it is damaged, by its name."""
    if not path.is_file() or path.suffix in HDF5_SUFFIXES:
        return False
    return path.suffix.lower() == ".zip" or zipfile.is_zipfile(path)


@contextmanager
def _unpack(path: Path) -> Iterator[Path]:
    """Unpack an archive temporarily, and yield the one folder with a model, or the top folder if there is none."""
    with TemporaryDirectory(prefix="elmo-", ignore_cleanup_errors=True) as temporary:
        top = Path(temporary) / path.name
        try:
            with path.open("rb") as file, zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                depth = max((entry.filename.count("/") for entry in entries), default=0)
                if len(entries) > _MAX_ENTRIES or depth > _MAX_DEPTH:
                    raise CheckpointError(f"{path} has more files or folders than any model, so it was not opened.")
                check_expansion(sum(entry.file_size for entry in entries), path.stat().st_size, path)
                archive.extractall(top)  # never outside `top`
        except _ARCHIVE_DAMAGE as error:
            raise CheckpointError(f"{path} is not a complete zip archive: {error}; download it again.") from error
        folders = [top, *(entry for entry in sorted(top.rglob("*")) if entry.is_dir())]
        models = [folder for folder in folders if _MACOS_FOLDER not in folder.parts and recognize(folder)]
        if len(models) > 1:
            names = " and ".join(folder.name for folder in models[:3])
            raise CheckpointError(f"{path} holds several models ({names}); unpack it and give the path of one.")
        try:
            yield models[0] if models else top
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(str(top), str(path))) from error


def _read(path: Path, format: Format | None) -> Checkpoint:
    folder = path if path.is_dir() else path.parent
    format = format or recognize(path)
    if format is None:
        raise CheckpointError(
            f"{path} holds no model: expected config.json with weights.safetensors, encoder.pkl, an options.json with "
            "an HDF5 file, or a TensorFlow checkpoint."
        )
    if format == "elmo":
        return read_folder(path)
    if format == "manylangs":
        checkpoint = manylangs.read_manylangs(path)
    elif format == "hdf5":
        weights = path if path != folder else _find_weights(folder)
        checkpoint = hdf5.read_hdf5(_find_options(folder, weights), weights)
    else:
        prefix = tensorflow.find_prefix(path)
        checkpoint = tensorflow.read_tensorflow(prefix, _find_options(folder, prefix))
    card = read_card(folder)
    # Without front matter, README.md may not be a model card.
    return replace(checkpoint, card=card) if card is not None and card.startswith("---\n") else checkpoint


def _find_weights(folder: Path) -> Path:
    """Return the HDF5 file with weights; others may hold word vectors."""
    files = [entry for entry in folder.iterdir() if entry.name.endswith(HDF5_SUFFIXES)]
    if len(files) > 1:
        files = [file for file in files if hdf5.holds_weights(file)]
    return _require_one(files, "HDF5 files with weights", folder)


def _find_options(folder: Path, weights: Path) -> Path:
    files = [entry for entry in folder.iterdir() if entry.name.endswith("options.json")]
    # elmo_X_weights.hdf5 belongs to elmo_X_options.json.
    options_name = re.sub(r"weights\.(hdf5|h5)$", "options.json", weights.name)
    return _require_one([file for file in files if file.name == options_name] or files, "options files", folder)


def _require_one(files: list[Path], description: str, folder: Path) -> Path:
    if len(files) != 1:
        names = " and ".join(sorted(file.name for file in files))
        content = f"several {description}, {names}" if files else f"no {description}"
        raise CheckpointError(f"{folder} has {content}; put the options and the weights of one model in a folder.")
    return files[0]
