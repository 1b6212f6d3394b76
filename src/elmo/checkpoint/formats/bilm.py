"""Conversion from and to the names and shapes of bilm-tf: options.json <-> ModelConfig, variables <-> weights.

Shared by HDF5 files (bilm-tf, AllenNLP, NLPL) and TensorFlow checkpoints. No file is opened here.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo.checkpoint.shapes import DIRECTIONS, Shape, expected_shapes
from elmo.checkpoint.tensors import Array
from elmo.checkpoint.weights import list_some
from elmo.config import EncoderConfig, ModelConfig
from elmo.errors import CheckpointError, ConfigError
from elmo.text.characters import Utf8Alphabet

# Files have no row for the padding id; a zero row is prepended.
NUM_FILE_CHARACTERS = Utf8Alphabet.NUM_IDS - 1


# Option of bilm-tf -> our setting, and its default.
_REQUIRED = object()
_LSTM_OPTIONS = {
    "dim": ("cell_dim", _REQUIRED),
    "projection_dim": ("output_dim", _REQUIRED),
    "n_layers": ("num_layers", 1),
    "cell_clip": ("cell_clip", None),
    "proj_clip": ("projection_clip", None),
    "use_skip_connections": ("residual", False),
}
_CNN_OPTIONS = {
    "filters": ("filters", _REQUIRED),
    "embedding.dim": ("embedding_dim", _REQUIRED),
    "n_highway": ("num_highways", 0),
    "activation": ("activation", "relu"),
    "max_characters_per_token": ("max_characters", 50),
}


def read_options(options: Mapping[str, Any], source: str, *, with_softmax: bool = False) -> ModelConfig:
    """Return the ModelConfig for an options.json; `source` names the file in errors."""
    faults: list[str] = []

    def get_option(path: str, default: Any = _REQUIRED) -> Any:
        value: Any = options
        for key in path.split("."):
            value = value.get(key, default) if isinstance(value, Mapping) else default
        if value is _REQUIRED:
            faults.append(f"'{path}' is missing")
        return value

    def get_section(section: str, table: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
        return {setting: get_option(f"{section}.{option}", default) for option, (setting, default) in table.items()}

    lstm = get_section("lstm", _LSTM_OPTIONS)
    values: dict[str, Any] = {"encoder": lstm, "characters": None, "token_projection": False}
    lstm["projected"] = lstm["cell_dim"] != lstm["output_dim"]
    lstm["residual"] = bool(lstm["residual"])
    if options.get("char_cnn") is not None:
        values["characters"] = get_section("char_cnn", _CNN_OPTIONS)
        values["characters"]["num_highways"] = values["characters"]["num_highways"] or 0
        if (num_characters := get_option("char_cnn.n_characters", 262)) not in (261, 262):
            faults.append(f"'char_cnn.n_characters' is {num_characters!r}, 261 or 262 was expected")
    else:
        values["words"] = {"num_words": get_option("n_tokens_vocab"), "embedding_dim": lstm["output_dim"]}
    if with_softmax:
        values["softmax"] = {"num_words": get_option("n_tokens_vocab")}
    if options.get("bidirectional") is False:
        faults.append("'bidirectional' is false, but vectors need both directions")
    if faults:
        raise CheckpointError(f"{source} does not describe an ELMo model: {'; '.join(faults)}.")
    try:
        if values["characters"]:
            num_features = sum(int(channels) for _, channels in values["characters"]["filters"])
            values["token_projection"] = num_features != lstm["output_dim"]
        return ModelConfig.from_dict(values)
    except (ConfigError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{source} does not describe an ELMo model: {error}") from error


def write_options(config: ModelConfig) -> dict[str, Any]:
    """Return the options.json for a model; CheckpointError if bilm-tf cannot express its configuration."""
    encoder, characters = config.encoder, config.characters
    faults = []
    if not isinstance(encoder, EncoderConfig):
        faults.append(f"its encoder is a {encoder.kind}, not an LSTM")
    elif encoder.forget_bias != 1.0:
        faults.append(f"its forget bias is {encoder.forget_bias:g}, not 1")
    elif encoder.projected == (encoder.cell_dim == encoder.output_dim):
        faults.append("its cells are projected to their own size")
    if characters and characters.alphabet != "utf-8":
        faults.append("its characters come from a dictionary, not from UTF-8 bytes")
    if characters and config.words:
        faults.append("it reads both words and characters")
    if config.token_projection == (config.num_features == encoder.output_dim):
        faults.append("its word vectors are projected to their own size")
    if faults:
        raise CheckpointError(f"This model cannot be written as bilm-tf HDF5: {'; '.join(faults)}.")
    options: dict[str, Any] = {
        "bidirectional": True,
        "lstm": {option: getattr(encoder, setting) for option, (setting, _) in _LSTM_OPTIONS.items()},
    }
    if characters:
        cnn: dict[str, Any] = {option: getattr(characters, setting) for option, (setting, _) in _CNN_OPTIONS.items()}
        cnn["embedding"] = {"dim": cnn.pop("embedding.dim")}
        # The old programs need 262 for inference, although the file has one row fewer.
        options["char_cnn"] = {**cnn, "n_characters": Utf8Alphabet.NUM_IDS}
    if size := config.words or config.softmax:
        options["n_tokens_vocab"] = size.num_words
    return options


@dataclass(frozen=True)
class Variable:
    """A variable of another program's file, the names of the weights it holds, and conversions in both directions."""

    name: str
    shape: Shape
    weights: tuple[str, ...]
    to_weights: Callable[[Any], list[Any]] = lambda variable: [variable]
    from_weights: Callable[[list[Array]], Array] = lambda weights: weights[0]


def list_variables(config: ModelConfig) -> Iterator[Variable]:
    """Yield the variables of a model, for import and export."""
    shapes = expected_shapes(config)

    def same(name: str, weight: str) -> Variable:
        return Variable(name, shapes[weight], (weight,))

    def transposed(name: str, weight: str) -> Variable:
        shape = shapes[weight][::-1]
        return Variable(name, shape, (weight,), lambda variable: [variable.T], lambda weights: weights[0].T)

    if config.characters:
        dim, prefix = config.characters.embedding_dim, "tokens.characters"
        yield Variable(
            "char_embed",
            (NUM_FILE_CHARACTERS, dim),
            (f"{prefix}.embedding.weight",),
            lambda table: [np.concatenate([np.zeros_like(table[:1]), table])],
            lambda weights: weights[0][1:],
        )
        for index, (width, channels) in enumerate(config.characters.filters):
            yield Variable(
                f"CNN/W_cnn_{index}",
                (1, width, dim, channels),  # as a weight: (channels, d, width)
                (f"{prefix}.convolutions.{index}.weight",),
                lambda kernel: [kernel[0].transpose(2, 1, 0)],
                lambda weights: weights[0].transpose(2, 1, 0)[None],
            )
            yield same(f"CNN/b_cnn_{index}", f"{prefix}.convolutions.{index}.bias")
        for index in range(config.characters.num_highways):
            for name, module in (("carry", "gate"), ("transform", "transform")):
                yield transposed(f"CNN_high_{index}/W_{name}", f"{prefix}.highways.{index}.{module}.weight")
                yield same(f"CNN_high_{index}/b_{name}", f"{prefix}.highways.{index}.{module}.bias")
    if config.words:
        yield same("embedding", "tokens.words.weight")
    if config.token_projection:
        yield transposed("CNN_proj/W_proj", "tokens.projection.weight")
        yield same("CNN_proj/b_proj", "tokens.projection.bias")
    encoder = config.encoder
    assert isinstance(encoder, EncoderConfig)
    for index, direction in enumerate(DIRECTIONS):
        for layer in range(encoder.num_layers):
            stack = f"MultiRNNCell/Cell{layer}/" if encoder.num_layers > 1 else ""
            cell, module = f"RNN_{index}/RNN/{stack}LSTMCell", f"{direction}.layers.{layer}"
            yield Variable(  # input rows, then state rows
                f"{cell}/W_0",
                (2 * encoder.output_dim, 4 * encoder.cell_dim),
                (f"{module}.input_weight", f"{module}.state_weight"),
                lambda kernel: np.split(_swap_gates(kernel.T), 2, axis=1),
                lambda weights: _swap_gates(np.concatenate(weights, axis=1)).T,
            )
            yield Variable(
                f"{cell}/B",
                (4 * encoder.cell_dim,),
                (f"{module}.bias",),
                lambda bias: [_swap_gates(bias)],
                lambda weights: _swap_gates(weights[0]),
            )
            if encoder.projected:
                yield transposed(f"{cell}/W_P_0", f"{module}.projection_weight")
    if config.softmax:
        yield same("softmax/W", "softmax.weight")
        yield same("softmax/b", "softmax.bias")


def import_weights(
    variables: Iterable[Variable],
    names: Collection[str],
    read: Callable[[str], Array],
    source: str,
    spellings: Callable[[str], Iterable[str]] = lambda name: [name],
) -> dict[str, Array]:
    """Read all variables; `names` are the names in the file, and `spellings` returns the possible names of a variable.

    Raises a CheckpointError that lists all variables that are missing, misshapen or unknown.
    """
    weights: dict[str, Array] = {}
    faults, unread = [], set(names)
    for variable in variables:
        name = next((name for name in spellings(variable.name) if name in names), None)
        if name is None:
            faults.append(f"{variable.name} is missing")
            continue
        unread.discard(name)
        array = read(name)
        if variable.name == "char_embed" and array.shape[:1] == (NUM_FILE_CHARACTERS + 1,):
            array = array[:NUM_FILE_CHARACTERS]  # some models have 262 rows; no id refers to the last
        if array.shape != variable.shape:
            faults.append(f"{variable.name} has shape {array.shape}, the settings need {variable.shape}")
        else:
            arrays = map(np.ascontiguousarray, variable.to_weights(array))
            weights.update(zip(variable.weights, arrays, strict=True))
    faults += [f"{name} is in the file, but not in the settings" for name in sorted(unread)]
    if faults:
        raise CheckpointError(
            f"The weights in {source} do not fit its settings: {list_some(faults)}; use files of the same model."
        )
    return weights


def export_weights(config: ModelConfig, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Return all variables of bilm-tf by name."""
    return {
        variable.name: variable.from_weights([weights[name] for name in variable.weights])
        for variable in list_variables(config)
    }


def _swap_gates(array: Array) -> Array:
    """Reorder the gates i, j, f, o to i, f, j, o along the first axis; it is its own inverse."""
    first, second, third, fourth = np.split(array, 4)
    return np.concatenate([first, third, second, fourth])
