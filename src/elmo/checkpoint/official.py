"""The four models that AI2 published: alias -> the folder of the cache with their options and weights.

The environment variable ELMO_MIRROR replaces the address they are downloaded from.
"""

import difflib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from elmo.checkpoint.download import cache_folder, fetch_url
from elmo.checkpoint.formats.bilm import read_options
from elmo.checkpoint.location import read_json
from elmo.config import EncoderConfig
from elmo.errors import CheckpointError

BASE_ADDRESS = "https://allennlp.s3.amazonaws.com/models/elmo/"
# Hosts and paths under which the same storage bucket has been quoted over the years.
_KNOWN_BASES = (
    "allennlp.s3.amazonaws.com/models/elmo/",
    "allennlp.s3-us-west-2.amazonaws.com/models/elmo/",
    "allennlp.s3.us-west-2.amazonaws.com/models/elmo/",
    "s3-us-west-2.amazonaws.com/allennlp/models/elmo/",
    "s3.us-west-2.amazonaws.com/allennlp/models/elmo/",
    "s3.amazonaws.com/allennlp/models/elmo/",
)
_TFHUB_PATHS = tuple(f"/google/elmo/{version}" for version in (1, 2, 3))


@dataclass(frozen=True)
class OfficialModel:
    """One published model; `stem` names its folder on the server and its files."""

    alias: str
    stem: str
    cell_dim: int
    output_dim: int
    num_highways: int
    num_layers: int = 2

    @property
    def options_path(self) -> str:
        """Where the options file is below the base address."""
        return f"{self.stem}/elmo_{self.stem}_options.json"

    @property
    def weights_path(self) -> str:
        """Where the weights file is below the base address."""
        return f"{self.stem}/elmo_{self.stem}_weights.hdf5"

    def check_options(self, path: Path) -> None:
        """Raise CheckpointError unless `path` holds the options of this very model."""
        check_json(path)
        config = read_options(read_json(path), "it")
        assert isinstance(config.encoder, EncoderConfig)
        for name, value, expected in (
            ("lstm.n_layers", config.encoder.num_layers, self.num_layers),
            ("lstm.dim", config.encoder.cell_dim, self.cell_dim),
            ("lstm.projection_dim", config.encoder.output_dim, self.output_dim),
            ("char_cnn.n_highway", config.characters and config.characters.num_highways, self.num_highways),
        ):
            if value != expected:
                raise CheckpointError(f"it has {name} {value}, but the model {self.alias!r} has {expected}")


OFFICIAL: dict[str, OfficialModel] = {
    model.alias: model
    for model in (
        OfficialModel("small", "2x1024_128_2048cnn_1xhighway", 1024, 128, 1),
        OfficialModel("medium", "2x2048_256_2048cnn_1xhighway", 2048, 256, 1),
        OfficialModel("original", "2x4096_512_2048cnn_2xhighway", 4096, 512, 2),
        OfficialModel("original-5.5b", "2x4096_512_2048cnn_2xhighway_5.5B", 4096, 512, 2),
    )
}


def fetch_official(alias: str, *, cache: Path | None = None, local_files_only: bool = False) -> Path:
    """Download an official model unless the cache has it, and return the folder with its two files."""
    if alias not in OFFICIAL:
        near = difflib.get_close_matches(alias, OFFICIAL, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise CheckpointError(f"No official model is called {alias!r}; {hint}known: {', '.join(OFFICIAL)}.")
    model = OFFICIAL[alias]
    cache = cache_folder() if cache is None else cache
    base = (os.environ.get("ELMO_MIRROR") or BASE_ADDRESS).rstrip("/") + "/"
    # The small file first: a wrong address shows before hundreds of megabytes are on their way.
    for path, check in ((model.options_path, model.check_options), (model.weights_path, check_hdf5)):
        folder = f"official/{alias}"
        fetch_url(base + path, cache=cache, folder=folder, local_files_only=local_files_only, check=check)
    return cache / "official" / alias


def official_alias_of(url: str) -> str | None:
    """Return the official model that a public address of its options, weights or TF-Hub page belongs to."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https"):
        return None
    host = (parts.hostname or "").removeprefix("www.")
    if host == "tfhub.dev":
        # The TensorFlow module has the weights of the original model.
        return "original" if parts.path.rstrip("/") in _TFHUB_PATHS else None
    for model in OFFICIAL.values():
        for path in (model.options_path, model.weights_path):
            if host + parts.path in {base + path for base in _KNOWN_BASES}:
                return model.alias
    return None


def check_hdf5(path: Path) -> None:
    """Raise CheckpointError unless `path` is an HDF5 file."""
    import h5py

    if not h5py.is_hdf5(path):
        raise CheckpointError(f"it is not an HDF5 file but begins with {_beginning(path)!r}")


def check_json(path: Path) -> None:
    """Raise CheckpointError unless `path` holds one JSON object."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"it is not JSON but begins with {_beginning(path)!r}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"it is a JSON {type(value).__name__}, not an object")


def _beginning(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(40).decode("utf-8", errors="replace")
