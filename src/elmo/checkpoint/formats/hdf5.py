"""bilm-tf, AllenNLP and NLPL models: options.json + one HDF5 file of weights, and the vocabulary beside them."""

import contextlib
import gzip
import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import read_json
from elmo.checkpoint.formats import bilm
from elmo.checkpoint.location import Location, parent_of
from elmo.config import ModelConfig, WordConfig
from elmo.errors import CheckpointError

WEIGHTS_KEY, TOKEN_CACHE_KEY = "RNN_0", "embedding"
VOCABULARY_NAMES = ("vocab.txt", "vocab.txt.gz", "vocabulary.txt", "vocabulary.txt.gz")


def read_hdf5(options: Location, weights: Location, *, token_embeddings: Location | None = None) -> Checkpoint:
    """Open a model of the original programs.

    `token_embeddings` is a file of bilm-tf's dump_token_embeddings: its vectors then stand for the words of
    the vocabulary in place of the character network.
    """
    config = bilm.read_options(read_json(options), str(options))
    folder_vocabulary = find_vocabulary(parent_of(weights))
    with open_hdf5(weights) as file:
        if WEIGHTS_KEY not in file:
            raise CheckpointError(f"{weights} is an HDF5 file without {WEIGHTS_KEY}, so it holds no ELMo weights.")
        if token_embeddings is None and config.words and TOKEN_CACHE_KEY not in file:
            token_embeddings = _find_token_cache(weights)
        cached = _read_token_cache(token_embeddings) if token_embeddings else None
        if cached is not None:
            words = WordConfig(num_words=cached.shape[0], embedding_dim=cached.shape[1])
            config = _with_words(config, words, str(token_embeddings))

        def find(name: str) -> Tensor | None:
            if name == TOKEN_CACHE_KEY and cached is not None:
                return cached
            for candidate in (name, name.replace("RNN/LSTMCell", "RNN/MultiRNNCell/Cell0/LSTMCell")):
                if candidate in file:
                    return torch.from_numpy(file[candidate][...])
            return None

        tensors = bilm.import_weights(config, find, str(weights))
    return Checkpoint(
        config=config,
        weights=tensors,
        vocabulary=read_vocabulary(folder_vocabulary) if folder_vocabulary else None,
        origin={"format": "hdf5", "source": weights.name},
    )


def write_hdf5(checkpoint: Checkpoint, folder: Path) -> None:
    """Write options.json, weights.hdf5 and vocab.txt for the old programs; the softmax has no place there."""
    import h5py

    config = replace(checkpoint.config, softmax=None)
    options = bilm.write_options(config)
    folder.mkdir(parents=True, exist_ok=True)
    if checkpoint.vocabulary is not None:
        options["n_tokens_vocab"] = len(checkpoint.vocabulary)
        _replace(folder / "vocab.txt", "".join(f"{word}\n" for word in checkpoint.vocabulary).encode("utf-8"))
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, tensor in bilm.export_weights(config, checkpoint.weights).items():
            file.create_dataset(name, data=tensor.to(torch.float32).numpy())
    _replace(folder / "weights.hdf5", content.getvalue())
    _replace(folder / "options.json", (json.dumps(options, indent=2) + "\n").encode("utf-8"))


@contextlib.contextmanager
def open_hdf5(path: Location) -> Iterator[Any]:
    """Open an HDF5 file from disk or from inside an archive, or say in one sentence why not."""
    import h5py

    if not path.is_file():
        raise CheckpointError(f"{path} does not exist; give the path of a model's HDF5 file.")
    source = path if isinstance(path, Path) else io.BytesIO(path.read_bytes())
    try:
        with h5py.File(source, "r") as file:
            yield file
    except OSError as error:
        raise CheckpointError(
            f"{path} is not a whole HDF5 file ({error}); it may be cut off or another kind of file."
        ) from error


def holds_weights(path: Location) -> bool:
    """Tell whether a file is HDF5 with the weights of a language model, not just cached word vectors."""
    with open_hdf5(path) as file:
        return WEIGHTS_KEY in file


def find_vocabulary(folder: Location) -> Location | None:
    """Find the vocabulary beside a model: a usual name, or the only file called something with vocab."""
    for name in VOCABULARY_NAMES:
        if (folder / name).is_file():
            return folder / name
    named = [path for path in folder.iterdir() if "vocab" in path.name and path.name.endswith((".txt", ".txt.gz"))]
    return named[0] if len(named) == 1 else None


def read_vocabulary(path: Location) -> tuple[str, ...]:
    """Read a vocabulary file, one word a line, plain or gzipped."""
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.name.endswith(".gz") else content).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not a UTF-8 vocabulary file: {error}.") from error
    lines = text.removesuffix("\n").split("\n")
    return tuple(line.strip() for line in lines)


def _find_token_cache(weights: Location) -> Location | None:
    for path in parent_of(weights).iterdir():
        if path.name.endswith((".hdf5", ".h5")) and path.name != weights.name:
            with open_hdf5(path) as file:
                if TOKEN_CACHE_KEY in file and WEIGHTS_KEY not in file:
                    return path
    return None


def _read_token_cache(path: Location) -> Tensor:
    with open_hdf5(path) as file:
        if TOKEN_CACHE_KEY not in file:
            raise CheckpointError(f"{path} has no dataset '{TOKEN_CACHE_KEY}'; it holds no cached word vectors.")
        return torch.from_numpy(file[TOKEN_CACHE_KEY][...])


def _with_words(config: ModelConfig, words: WordConfig, source: str) -> ModelConfig:
    if words.embedding_dim != config.encoder.output_dim:
        raise CheckpointError(
            f"{source} has vectors of {words.embedding_dim} values; this model's words have "
            f"{config.encoder.output_dim}."
        )
    return replace(config, characters=None, words=words, token_projection=False)


def _replace(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.saving-{os.getpid()}")
    try:
        aside.write_bytes(content)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
