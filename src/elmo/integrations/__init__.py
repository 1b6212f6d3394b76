"""Our model inside other people's tools, one module per library; each imports its library only when it is used."""

import io
import tempfile
import weakref
import zipfile
from pathlib import Path
from typing import Any, TypeAlias

from elmo.errors import InputError
from elmo.extras import install_command
from elmo.inference.layers import Layers
from elmo.model import Elmo

ModelSource: TypeAlias = str | Path | Elmo | None
_open_models: "weakref.WeakValueDictionary[tuple[object, ...], Elmo]" = weakref.WeakValueDictionary()


def missing_package(package: str, extra: str) -> ImportError:
    """Return the error of an adapter whose library is not installed."""
    return ImportError(
        f"elmo.integrations.{extra} needs the package {package}; install it with: {install_command(extra)}"
    )


def open_shared(source: ModelSource, *, precision: str = "auto", device: str = "cpu") -> Elmo:
    """Return a model for reading only: as long as somebody uses it, those who ask for the same one share it.

    A model that is to be changed must be opened with Elmo.from_pretrained instead.
    """
    if isinstance(source, Elmo):
        return source
    key = (None if source is None else str(source), _identify(source), precision, device)
    model = _open_models.get(key)
    if model is None:
        model = _open_models[key] = Elmo.from_pretrained(source, precision=precision, device=device)
    return model


def _identify(source: str | Path | None) -> tuple[int, int] | None:
    """Tell a folder or file from one that has taken its place since."""
    if source is None or not Path(source).expanduser().exists():
        return None
    state = Path(source).expanduser().stat()
    return state.st_ino, state.st_mtime_ns


def vector_length(model: Elmo, layers: Layers) -> int:
    """Return the length of a word's vector; InputError for layers="all", which is more than one vector."""
    shape = model.word_shape(layers)
    if len(shape) != 1:
        raise InputError("layers is 'all', but one vector per word is needed; choose 'concat' to join the layers.")
    return shape[0]


def save_model(model: Elmo, folder: Path) -> None:
    """Write a model folder with the weights as they were stored, so that nothing is rounded and nothing grows."""
    storage: Any = model.checkpoint().storage
    model.save_pretrained(folder, storage=storage)


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
    """Open what model_to_bytes returned."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.zip"
        path.write_bytes(content)
        return Elmo.from_pretrained(path, precision=precision, device=device)
