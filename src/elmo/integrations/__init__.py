"""Adapters for other libraries, one module each, which imports its library."""

import io
import tempfile
import weakref
import zipfile
from pathlib import Path
from typing import TypeAlias

from elmo.errors import InputError
from elmo.extras import install_command
from elmo.inference.layers import Layers
from elmo.model import Elmo

ModelSource: TypeAlias = str | Path | Elmo | None
_open_models: "weakref.WeakValueDictionary[tuple[object, ...], Elmo]" = weakref.WeakValueDictionary()


def missing_package(package: str, extra: str) -> ImportError:
    """Return the error for an adapter whose library is not installed."""
    return ImportError(
        f"elmo.integrations.{extra} needs the package {package}; install it with: {install_command(extra)}"
    )


def open_shared(source: ModelSource, *, precision: str = "auto", device: str = "cpu") -> Elmo:
    """Return a model, which must not be changed: all callers that open the same model share one object."""
    if isinstance(source, Elmo):
        return source
    path = Path(source or "").expanduser()
    # A folder that has been saved again is another model.
    modified_ns = path.stat().st_mtime_ns if source is not None and path.exists() else None
    key = (None if source is None else str(source), modified_ns, precision, device)
    model = _open_models.get(key)
    if model is None:
        model = _open_models[key] = Elmo.from_pretrained(source, precision=precision, device=device)
    return model


def vector_length(model: Elmo, layers: Layers) -> int:
    """Return the length of a word's vector; InputError for layers="all", which is more than one vector."""
    shape = model.word_shape(layers)
    if len(shape) != 1:
        raise InputError("layers='all' gives several vectors per word; choose 'concat' to concatenate the layers.")
    return shape[0]


def save_model(model: Elmo, folder: Path) -> None:
    """Write a model folder; the weights keep their storage type."""
    model.save_pretrained(folder, storage=model.checkpoint().storage)


def model_to_bytes(model: Elmo) -> bytes:
    """Return the model's folder as a zip archive."""
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as temporary, zipfile.ZipFile(buffer, "w") as archive:
        folder = Path(temporary) / "model"
        save_model(model, folder)
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    return buffer.getvalue()


def model_from_bytes(content: bytes, *, precision: str = "auto", device: str = "cpu") -> Elmo:
    """Return the model in a zip archive written by `model_to_bytes`."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.zip"
        path.write_bytes(content)
        return Elmo.from_pretrained(path, precision=precision, device=device)
