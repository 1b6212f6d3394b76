"""Shared by the old names: opening their models, and running batches with a carried or zero state."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.download import fetch_url
from elmo.checkpoint.formats.hdf5 import read_hdf5
from elmo.checkpoint.source import OFFICIAL, fetch_official, official_alias_of
from elmo.config import ModelConfig
from elmo.device import ModuleRuntime
from elmo.errors import CheckpointError, InputError
from elmo.inference.layers import Layers
from elmo.model import Elmo
from elmo.nn.bilm import BiLM, LayerStates
from elmo.text.batch import CharBatch

Array = npt.NDArray[np.float32]


def open_model(checkpoint: Checkpoint, *, stateful: bool, device: str = "cpu") -> Elmo:
    """Return a model that works like the original programs: literal boundaries, state kept between calls."""
    return Elmo(checkpoint, device=device, state="carry" if stateful else "zero", literal_boundaries=True)


def open_files(options_file: str | Path, weight_file: str | Path) -> Checkpoint:
    """Open a model of two files, each a path or an address; they need not be in one folder."""
    aliases = [official_alias_of(str(file)) for file in (options_file, weight_file)]
    folders = {alias: fetch_official(alias) for alias in set(aliases) if alias is not None}
    options, weights = (
        _locate(file, folders[alias] if alias else None, name)
        for file, alias, name in zip((options_file, weight_file), aliases, ("options_file", "weight_file"), strict=True)
    )
    return read_hdf5(options, weights)


def _locate(file: str | Path, official_folder: Path | None, name: str) -> Path:
    if not isinstance(file, str | Path):
        raise CheckpointError(f"{name} is {file!r}; give the path or the address of a model's file.")
    if official_folder is not None:
        return official_folder / PurePosixPath(str(file)).name
    if is_address(file):
        return fetch_url(str(file))
    path = Path(file).expanduser()
    if not path.is_file():
        raise CheckpointError(
            f"{name} is {str(file)!r}, but there is no such file; give the path or the address of a model's "
            f"file, or an address of the official models ({', '.join(OFFICIAL)})."
        )
    return path


def is_address(source: str | Path) -> bool:
    """Return whether a source has to be downloaded."""
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def check_batch_size(batch_size: int, name: str = "batch_size") -> None:
    """Raise InputError for a batch size that is not a number of sentences."""
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise InputError(f"{name} is {batch_size!r}; it must be a whole number of sentences, 1 or more.")


class OldEmbedder:
    """What the old embedders share: a model, whose state is kept from call to call if it is `stateful`."""

    def __init__(self, *, stateful: bool) -> None:
        self._stateful = stateful
        self._opened: Elmo | None = None

    @property
    def _model(self) -> Elmo:
        if self._opened is None:
            raise InputError("No model is loaded; call load(directory) first.")
        return self._opened

    def _open(self, checkpoint: Checkpoint, device: str = "cpu") -> None:
        self._opened = open_model(checkpoint, stateful=self._stateful, device=device)

    def reset_state(self) -> None:
        """Set the LSTM state to zero."""
        if self._stateful and self._opened is not None:
            self._opened.reset_state()

    def _embed(self, sentences: Sequence[list[str]], batch_size: int, layers: Layers) -> list[Array]:
        """Return the vectors of sentences, `batch_size` at a time in their order."""
        arrays: list[Array] = []
        for start in range(0, len(sentences), batch_size):
            arrays += self._model.embed(sentences[start : start + batch_size], layers=layers)
        return arrays


class BatchReader:
    """Runs a biLM over batches as part of a task network, with or without gradients."""

    def __init__(self, bilm: BiLM, config: ModelConfig, *, stateful: bool, gradients: bool) -> None:
        self._runtime = ModuleRuntime(bilm, config, carry=stateful, gradients=gradients)

    def read(self, batch: CharBatch) -> LayerStates:
        """Return all layers of a batch, boundaries included, from the carried state or from zero."""
        return self._runtime.run(batch)

    def reset_state(self) -> None:
        """Set the carried state, if there is one, to zero."""
        self._runtime.reset_state()
