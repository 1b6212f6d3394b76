"""bilm-tf, AllenNLP and NLPL models: options.json, one HDF5 file of weights, and an optional vocabulary file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import writing_model
from elmo.checkpoint.formats import bilm
from elmo.checkpoint.location import HDF5_SUFFIXES, check_expansion, open_file, read_json, read_lines
from elmo.checkpoint.tensors import Array
from elmo.errors import CheckpointError, ElmoError, first_line
from elmo.text.vocabulary import format_lines

WEIGHTS_KEY, TOKEN_CACHE_KEY = "RNN_0", "embedding"
_PREFIXES = ("RNN_", "CNN", "char_embed", TOKEN_CACHE_KEY)  # of all variables but the softmax
OPTIONS_FILE, WEIGHTS_FILE, VOCABULARY_FILE = "options.json", "weights.hdf5", "vocab.txt"
FILES = (OPTIONS_FILE, WEIGHTS_FILE, VOCABULARY_FILE)
VOCABULARY_NAMES = ("vocab.txt", "vocab.txt.gz", "vocabulary.txt", "vocabulary.txt.gz")


def read_hdf5(options: Path, weights: Path) -> Checkpoint:
    """Open a model of the original programs; a word-level model may have its word vectors in a second HDF5 file."""
    config = bilm.read_options(read_json(options), str(options))
    with open_hdf5(weights) as file:
        if WEIGHTS_KEY not in file:
            raise CheckpointError(f"{weights} is an HDF5 file without {WEIGHTS_KEY}, so it holds no ELMo weights.")
        arrays = {name: dataset for name, dataset in _list_datasets(file).items() if name.startswith(_PREFIXES)}
        if config.words and TOKEN_CACHE_KEY not in arrays:
            arrays |= _read_token_cache(weights)
        imported = bilm.import_weights(bilm.list_variables(config), arrays, _read_array, str(weights))
    origin = {"format": "hdf5", "source": weights.name}
    return Checkpoint(config=config, weights=imported, vocabulary=read_vocabulary(weights.parent), origin=origin)


def write_hdf5(checkpoint: Checkpoint, folder: str | Path) -> None:
    """Write options.json, weights.hdf5 and vocab.txt for the original programs, whose format has no softmax."""
    import h5py

    config = replace(checkpoint.config, softmax=None)
    options = bilm.write_options(config)
    with writing_model(checkpoint, folder, FILES) as new:
        if checkpoint.vocabulary is not None:
            options["n_tokens_vocab"] = len(checkpoint.vocabulary)
            (new / VOCABULARY_FILE).write_bytes(format_lines(checkpoint.vocabulary))
        with h5py.File(new / WEIGHTS_FILE, "w") as file:
            for name, array in bilm.export_weights(config, checkpoint.weights).items():
                file.create_dataset(name, data=array)
        (new / OPTIONS_FILE).write_bytes(f"{json.dumps(options, indent=2)}\n".encode())


def holds_weights(path: Path) -> bool:
    """Return whether an HDF5 file has the weights of a language model, not just cached word vectors."""
    with open_hdf5(path) as file:
        return WEIGHTS_KEY in file


def read_vocabulary(folder: Path) -> tuple[str, ...] | None:
    """Return the vocabulary in a model's folder: a file with a usual name, or the only one with "vocab" in its name."""
    paths = [folder / name for name in VOCABULARY_NAMES if (folder / name).is_file()][:1]
    paths = paths or [path for path in folder.iterdir() if fnmatch(path.name, "*vocab*.txt*")]
    return tuple(line.strip() for line in read_lines(paths[0])) if len(paths) == 1 else None


def _read_token_cache(weights: Path) -> dict[str, Array]:
    """Read the word vectors that bilm-tf's dump_token_embeddings wrote to a file in the folder of the weights."""
    for path in sorted(weights.parent.iterdir()):
        if path.name.endswith(HDF5_SUFFIXES) and path.name != weights.name:
            with open_hdf5(path) as file:
                if TOKEN_CACHE_KEY in file and WEIGHTS_KEY not in file:
                    return {TOKEN_CACHE_KEY: _read_array(file[TOKEN_CACHE_KEY])}
    return {}


def _list_datasets(file: Any) -> dict[str, Any]:
    """Return all datasets by name, including those in groups."""
    import h5py

    datasets: dict[str, Any] = {}

    def add(name: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset):
            datasets[name] = entry

    file.visititems(add)
    return datasets


def _read_array(dataset: Any) -> Array:
    """Read a dataset of numbers of any type and byte order as float32."""
    if isinstance(dataset, np.ndarray):
        return dataset
    path, name = dataset.file.filename, dataset.name.strip("/")
    if dataset.shape is None or dataset.dtype.kind not in "fiu":
        raise CheckpointError(f"{name} in {path} has the type {dataset.dtype}; it must be an array of numbers.")
    if dataset.external or dataset.is_virtual:
        raise CheckpointError(f"{name} in {path} is a link to another file; all weights must be in one file.")
    # A damaged shape could otherwise allocate any amount of memory.
    num_stored_bytes = dataset.id.get_storage_size()
    if dataset.chunks is None and dataset.nbytes > num_stored_bytes:
        raise ValueError(f"{name} ends before its {dataset.nbytes} bytes")
    check_expansion(dataset.nbytes, num_stored_bytes, f"{path}, {name!r},")
    with np.errstate(all="ignore"):  # values too large for float32 become infinite and are rejected later
        return np.array(dataset[...], dtype=np.float32)


@contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open an HDF5 file; errors in this context are raised as CheckpointError."""
    import h5py

    open_file(path).close()  # h5py does not distinguish an unreadable file from a damaged one
    try:
        with h5py.File(path, "r") as file:
            yield file
    except ElmoError:
        raise
    except Exception as error:  # the type depends on the damage
        reason = first_line(error).strip("'\"")
        raise CheckpointError(
            f"{path} is not a complete HDF5 file ({reason}); it may be truncated, damaged or another kind of file."
        ) from error
