"""bilm-tf, AllenNLP and NLPL models: options.json + one HDF5 file of weights, and the vocabulary beside them."""

import gzip
import io
import json
import zlib
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import card_names, write_card, writing_model
from elmo.checkpoint.formats import bilm
from elmo.checkpoint.formats.hdf5_file import open_hdf5
from elmo.checkpoint.location import (
    LONGEST_LIST_BYTES,
    Location,
    check_expansion,
    list_folder,
    parent_of,
    read_file,
    read_json,
    too_long,
)
from elmo.config import ModelConfig, WordConfig
from elmo.errors import CheckpointError
from elmo.text.vocabulary import format_lines

WEIGHTS_KEY, TOKEN_CACHE_KEY = "RNN_0", "embedding"
OPTIONS_FILE, WEIGHTS_FILE, VOCABULARY_FILE = "options.json", "weights.hdf5", "vocab.txt"
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
        unread = {name for name in file.list_tensors() if _is_part(name, from_cache=cached is not None)}

        def find(name: str) -> Tensor | None:
            if name == TOKEN_CACHE_KEY and cached is not None:
                return cached
            for candidate in (name, name.replace("RNN/LSTMCell", "RNN/MultiRNNCell/Cell0/LSTMCell")):
                if candidate in file:
                    unread.discard(candidate)
                    return file.read_tensor(candidate)
            return None

        tensors = bilm.import_weights(config, find, str(weights), unread)
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
    names = (OPTIONS_FILE, WEIGHTS_FILE, VOCABULARY_FILE, *card_names(checkpoint, folder))
    with writing_model(folder, names) as aside:
        write_card(checkpoint, aside)
        if checkpoint.vocabulary is not None:
            options["n_tokens_vocab"] = len(checkpoint.vocabulary)
            (aside / VOCABULARY_FILE).write_bytes(format_lines(checkpoint.vocabulary))
        with h5py.File(aside / WEIGHTS_FILE, "w") as file:
            for name, tensor in bilm.export_weights(config, checkpoint.weights).items():
                file.create_dataset(name, data=tensor.detach().cpu().numpy())
        (aside / OPTIONS_FILE).write_bytes(f"{json.dumps(options, indent=2)}\n".encode())


def holds_weights(path: Location) -> bool:
    """Tell whether a file is HDF5 with the weights of a language model, not just cached word vectors."""
    with open_hdf5(path) as file:
        return WEIGHTS_KEY in file


def find_vocabulary(folder: Location) -> Location | None:
    """Find the vocabulary beside a model: a usual name, or the only file called something with vocab."""
    for name in VOCABULARY_NAMES:
        if (folder / name).is_file():
            return folder / name
    named = [
        path for path in list_folder(folder) if "vocab" in path.name and path.name.endswith((".txt", ".txt.gz"))
    ]
    return named[0] if len(named) == 1 else None


def read_vocabulary(path: Location) -> tuple[str, ...]:
    """Read a vocabulary file, one word a line, plain or gzipped."""
    content = read_file(path, max_bytes=LONGEST_LIST_BYTES)
    try:
        if path.name.endswith(".gz"):
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
                packed, content = content, file.read(LONGEST_LIST_BYTES + 1)
            check_expansion(len(content), len(packed), str(path))
            if len(content) > LONGEST_LIST_BYTES:
                raise too_long(path, LONGEST_LIST_BYTES)
        text = content.decode("utf-8")
    except (gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not a UTF-8 vocabulary file: {error}.") from error
    lines = text.removesuffix("\n").split("\n")
    return tuple(line.strip() for line in lines)


def _find_token_cache(weights: Location) -> Location | None:
    for path in list_folder(parent_of(weights)):
        if path.name.endswith((".hdf5", ".h5")) and path.name != weights.name:
            with open_hdf5(path) as file:
                if TOKEN_CACHE_KEY in file and WEIGHTS_KEY not in file:
                    return path
    return None


def _read_token_cache(path: Location) -> Tensor:
    with open_hdf5(path) as file:
        if TOKEN_CACHE_KEY not in file:
            raise CheckpointError(f"{path} has no dataset '{TOKEN_CACHE_KEY}'; it holds no cached word vectors.")
        table = file.read_tensor(TOKEN_CACHE_KEY)
    if table.dim() != 2:
        raise CheckpointError(
            f"{path} has an '{TOKEN_CACHE_KEY}' of shape {tuple(table.shape)}; a vector a word was expected."
        )
    return table


def _is_part(name: str, *, from_cache: bool) -> bool:
    """Tell whether a dataset must be asked for by the options; cached vectors stand for the words' own part."""
    token_parts = () if from_cache else ("CNN", "char_embed", TOKEN_CACHE_KEY)
    return name.startswith(("RNN_", *token_parts))


def _with_words(config: ModelConfig, words: WordConfig, source: str) -> ModelConfig:
    if words.embedding_dim != config.encoder.output_dim:
        raise CheckpointError(
            f"{source} has vectors of {words.embedding_dim} values; this model's words have "
            f"{config.encoder.output_dim}."
        )
    return replace(config, characters=None, words=words, token_projection=False)
