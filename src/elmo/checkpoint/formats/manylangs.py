"""ELMoForManyLangs models: a folder of dictionaries and torch state dicts, published for 44 languages.

Their pickles are the only format that needs torch to be read.
"""

import io
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.formats.bilm import CNN_OPTIONS, LSTM_OPTIONS, Variable, import_weights, rename_options
from elmo.checkpoint.location import check_expansion, read_file, read_json, read_lines
from elmo.checkpoint.shapes import DIRECTIONS
from elmo.checkpoint.tensors import Array
from elmo.config import ModelConfig
from elmo.errors import CheckpointError, ConfigError
from elmo.extras import require
from elmo.text.characters import DictionaryAlphabet

ENCODER_FILE, TOKENS_FILE = "encoder.pkl", "token_embedder.pkl"
WORD_TABLE, CHARACTER_TABLE = "word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"
LSTM_NAMES = {
    "input_linearity.weight": "input_weight",
    "state_linearity.weight": "state_weight",
    "state_linearity.bias": "bias",
    "state_projection.weight": "projection_weight",
}


def read_manylangs(folder: Path) -> Checkpoint:
    """Open a model folder of ELMoForManyLangs."""
    settings = _read_settings(folder)
    state = {**_read_state_dict(folder / TOKENS_FILE), **_read_state_dict(folder / ENCODER_FILE)}
    words = _read_dictionary(folder, "word.dic", state, WORD_TABLE)
    characters = _read_dictionary(folder, "char.dic", state, CHARACTER_TABLE)
    if characters is not None:
        # The original program swaps the two boundaries, both in training and in inference.
        begin, end = DictionaryAlphabet.BEGIN_WORD, DictionaryAlphabet.END_WORD
        characters = tuple({begin: end, end: begin}.get(name, name) for name in characters)
    config = _make_config(settings, folder, state)
    return Checkpoint(
        config=config,
        weights=import_weights(list_variables(config), state, np.asarray, str(folder)),
        vocabulary=words,
        characters=characters,
        origin={"format": "manylangs", "source": folder.name},
    )


def _read_settings(folder: Path) -> Mapping[str, Any]:
    """Return the settings, empty if their file is missing."""
    settings = read_json(folder / "config.json")
    if "token_embedder" in settings:
        return settings
    # The path is from the machine that trained the model; the file that it names is in this folder.
    path = folder / Path(str(settings.get("config_path", "")).replace("\\", "/")).name
    return read_json(path) if path.is_file() else {}


def _read_dictionary(folder: Path, name: str, state: dict[str, Array], key: str) -> tuple[str, ...] | None:
    """Return the entries of an embedding, and reorder its rows in `state` to match; None without an embedding."""
    table, path = state.get(key), folder / name
    if table is None:
        return None
    if table.ndim != 2:
        raise CheckpointError(f"{key} in {folder} has shape {table.shape}; it must be a matrix.")
    rows: dict[str, int] = {}
    for line_number, line in enumerate(read_lines(path), start=1):
        entry, tab, row = line.removesuffix("\r").rpartition("\t")
        if not tab or not row.isdecimal() or len(row) > 18 or int(row) >= len(table):
            raise CheckpointError(f"{path}, line {line_number} is {line!r:.80}; give an entry, a tab and a row.")
        rows[entry] = int(row)
    entries = sorted(rows, key=rows.__getitem__)
    state[key] = table[[rows[entry] for entry in entries]]
    return tuple(entries)


def _make_config(settings: Mapping[str, Any], folder: Path, state: Mapping[str, Array]) -> ModelConfig:
    """Return the configuration; our defaults are the settings of the published models."""
    try:
        encoder, embedder = settings.get("encoder", {}), settings.get("token_embedder", {})
        for section, name, known in ((encoder, "encoder", "elmo"), (embedder, "token_embedder", "cnn")):
            if section.get("name", known).lower() != known:
                raise CheckpointError(
                    f"The model in {folder} has the {name} {section['name']!r}; only {known!r} is supported."
                )
        lstm = {setting: value or None for setting, value in rename_options(encoder, LSTM_OPTIONS).items()}
        values: dict[str, Any] = {
            "encoder": {**lstm, "forget_bias": 0.0},  # included in the learned bias
            "characters": None,
            "begin_word": "<bos>",
            "end_word": "<eos>",
            "unknown_word": "<oov>",
        }
        if CHARACTER_TABLE in state:
            num_characters, dim = state[CHARACTER_TABLE].shape
            sizes = {"num_characters": num_characters, "embedding_dim": dim}
            values["characters"] = {**rename_options(embedder, CNN_OPTIONS), **sizes, "alphabet": "dictionary"}
        if WORD_TABLE in state:
            num_words, dim = state[WORD_TABLE].shape
            max_length = embedder.get("max_characters_per_token", 50) - 2
            values["words"] = {"num_words": num_words, "embedding_dim": dim, "max_word_length": max_length}
        return ModelConfig.from_dict(values)
    except (TypeError, AttributeError, ConfigError) as error:
        raise CheckpointError(f"The settings of the model in {folder} are not valid: {error}") from error


def list_variables(config: ModelConfig) -> Iterator[Variable]:
    """Yield the variables of a model.

    Highway gates are negated: ours weight the transform, theirs the input, and 1 - sigmoid(x) = sigmoid(-x).
    """
    prefix, characters = "tokens.characters", config.characters
    yield Variable(WORD_TABLE, ("tokens.words.weight",))
    yield Variable(CHARACTER_TABLE, (f"{prefix}.embedding.weight",))
    for leaf in ("weight", "bias"):
        yield Variable(f"projection.{leaf}", (f"tokens.projection.{leaf}",))
        for index in range(len(characters.filters) if characters else 0):
            yield Variable(f"convolutions.{index}.{leaf}", (f"{prefix}.convolutions.{index}.{leaf}",))
        for index in range(characters.num_highways if characters else 0):
            weights = tuple(f"{prefix}.highways.{index}.{name}.{leaf}" for name in ("transform", "gate"))
            yield Variable(f"highways._layers.{index}.{leaf}", weights, _split_highway)
    for prefix, direction in zip(("forward", "backward"), DIRECTIONS, strict=True):
        for layer in range(config.encoder.num_layers):
            for leaf, weight_leaf in LSTM_NAMES.items():
                yield Variable(f"{prefix}_layer_{layer}.{leaf}", (f"{direction}.layers.{layer}.{weight_leaf}",))


def _split_highway(weight: Any) -> list[Any]:
    half = len(weight) // 2
    return [weight[:half], -weight[half:]]


def _read_state_dict(path: Path) -> dict[str, Array]:
    # `elmo convert` writes the model in our own format, which needs no torch.
    torch = require("torch", "torch", f"Opening ELMoForManyLangs pickles such as {path.name}")
    pickled = io.BytesIO(read_file(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about other pickle protocols, which the error below reports
            if zipfile.is_zipfile(pickled):
                entries = zipfile.ZipFile(pickled).infolist()
                check_expansion(sum(entry.file_size for entry in entries), len(pickled.getbuffer()), path)
            pickled.seek(0)
            content = torch.load(pickled, map_location="cpu", weights_only=True)
    except CheckpointError:
        raise
    except Exception as error:  # the type depends on the damage
        raise CheckpointError(
            f"{path} is not a torch file of plain tensors; it is damaged, another kind of file, or holds code "
            "that would run on loading, so it was not opened."
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds a {type(content).__name__}; a state dict was expected.")
    for name, tensor in content.items():
        is_dense = isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.is_floating_point()
        # The storage of an expanded tensor is smaller than the tensor.
        is_whole = is_dense and tensor.untyped_storage().nbytes() >= tensor.numel() * tensor.element_size()
        if not isinstance(name, str) or not is_whole:
            raise CheckpointError(f"{path} has something other than a dense tensor of numbers under {name!r}.")
    return {name: tensor.detach().to(torch.float32).numpy() for name, tensor in content.items()}
