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
from elmo.checkpoint.location import HDF5_SUFFIXES, check_expansion, check_file, unreadable
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
    path = find_model(source, revision=revision, local_files_only=local_files_only)
    try:
        check_file(path)
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
        raise unreadable(Path(error.filename or path), error) from error


def recognize(path: Path) -> Format | None:
    """Return the format of a model file or folder; None for a folder without a model."""
    if not path.is_dir():
        return "hdf5" if path.suffix in HDF5_SUFFIXES or hdf5.is_hdf5(path) else "tensorflow"
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
                _check_entries(archive.infolist(), path)
                archive.extractall(top)
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


def _check_entries(entries: list[zipfile.ZipInfo], path: Path) -> None:
    """Raise CheckpointError for an archive that would fill the disk or write outside its folder."""
    parts = [entry.filename.replace("\\", "/").split("/") for entry in entries]
    if len(parts) > _MAX_ENTRIES or max(map(len, parts), default=0) > _MAX_DEPTH:
        raise CheckpointError(f"{path} has more files or folders than any published model, so it was not opened.")
    for entry, names in zip(entries, parts, strict=True):
        if ".." in names or names[0] == "" or names[0].endswith(":"):
            raise CheckpointError(f"{path} has an entry outside its folder, {entry.filename!r}, so it was not opened.")
    check_expansion(sum(entry.file_size for entry in entries), path.stat().st_size, path)


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
        weights = path
        if path == folder:
            files = [entry for entry in folder.iterdir() if entry.name.endswith(HDF5_SUFFIXES)]
            if len(files) > 1:
                files = [entry for entry in files if hdf5.holds_weights(entry)]
            weights = _require_one(files, "HDF5 files with weights", folder)
        checkpoint = hdf5.read_hdf5(_find_options(folder, weights), weights)
    else:
        prefix = tensorflow.find_prefix(path)
        checkpoint = tensorflow.read_tensorflow(prefix, _find_options(folder, prefix))
    card = read_card(folder)
    # Without front matter, README.md may not be a model card.
    return replace(checkpoint, card=card) if card is not None and card.startswith("---\n") else checkpoint


def _find_options(folder: Path, weights: Path) -> Path:
    files = [entry for entry in folder.iterdir() if entry.name.endswith("options.json")]
    if not files:
        raise CheckpointError(f"{weights} has no options.json next to it; put the options file of these weights there.")
    if len(files) > 1:
        # elmo_X_weights.hdf5 belongs to elmo_X_options.json.
        options_name = re.sub(r"weights\.(hdf5|h5)$", "options.json", weights.name)
        files = [entry for entry in files if entry.name == options_name] or files
    return _require_one(files, "options files", folder)


def _require_one(files: list[Path], description: str, folder: Path) -> Path:
    if len(files) == 1:
        return files[0]
    if not files:
        raise CheckpointError(f"{folder} has no {description}; give the path of the .hdf5 file.")
    names = " and ".join(sorted(entry.name for entry in files))
    raise CheckpointError(f"{folder} has several {description}, {names}; keep one, or give the path of the .hdf5 file.")
