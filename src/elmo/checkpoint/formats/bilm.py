"""Conversion from and to the names and shapes of bilm-tf: options.json <-> ModelConfig, variables <-> weights.

Shared by HDF5 files (bilm-tf, AllenNLP, NLPL) and TensorFlow checkpoints. No file is opened here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from elmo.checkpoint.shapes import DIRECTIONS
from elmo.checkpoint.tensors import Array
from elmo.checkpoint.weights import list_some
from elmo.config import EncoderConfig, ModelConfig
from elmo.errors import CheckpointError, ConfigError
from elmo.text.characters import Utf8Alphabet

# Files have no row for the padding id; a zero row is prepended.
NUM_FILE_CHARACTERS = Utf8Alphabet.NUM_IDS - 1
Entry = TypeVar("Entry")

# Options of bilm-tf and ELMoForManyLangs -> our settings.
LSTM_OPTIONS = {
    "dim": "cell_dim",
    "projection_dim": "output_dim",
    "n_layers": "num_layers",
    "cell_clip": "cell_clip",
    "proj_clip": "projection_clip",
    "use_skip_connections": "residual",
}
CNN_OPTIONS = {
    "filters": "filters",
    "n_highway": "num_highways",
    "activation": "activation",
    "max_characters_per_token": "max_characters",
}


def rename_options(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return our settings; options that are missing are left out."""
    return {setting: options[option] for option, setting in names.items() if option in options}


def read_options(options: Mapping[str, Any], source: str, *, with_softmax: bool = False) -> ModelConfig:
    """Return the ModelConfig for an options.json; `source` names the file in errors."""
    try:
        lstm = {"n_layers": 1, "cell_clip": None, "proj_clip": None, "use_skip_connections": False, **options["lstm"]}
        dim, cnn = lstm["projection_dim"], options.get("char_cnn")
        values: dict[str, Any] = {"characters": None, "token_projection": False}
        values["encoder"] = {**rename_options(lstm, LSTM_OPTIONS), "projected": lstm["dim"] != dim}
        values["encoder"]["residual"] = bool(lstm["use_skip_connections"])
        if cnn is None:
            values["words"] = {"num_words": options["n_tokens_vocab"], "embedding_dim": dim}
        else:
            if (num_characters := cnn.get("n_characters", Utf8Alphabet.NUM_IDS)) not in (261, 262):
                raise ValueError(f"'n_characters' is {num_characters!r}; 261 or 262 was expected.")
            characters = rename_options(cnn, CNN_OPTIONS)
            characters |= {"num_highways": cnn.get("n_highway") or 0, "embedding_dim": cnn["embedding"]["dim"]}
            values["characters"] = characters
            values["token_projection"] = sum(channels for _, channels in cnn["filters"]) != dim
        if with_softmax:
            values["softmax"] = {"num_words": options["n_tokens_vocab"]}
        if options.get("bidirectional") is False:
            raise ValueError("'bidirectional' is false, but vectors need both directions.")
        return ModelConfig.from_dict(values)
    except KeyError as error:
        raise CheckpointError(f"{source} does not describe an ELMo model: {error} is missing.") from error
    except (ConfigError, TypeError, ValueError, AttributeError) as error:
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
    lstm = {option: getattr(encoder, setting) for option, setting in LSTM_OPTIONS.items()}
    options: dict[str, Any] = {"bidirectional": True, "lstm": lstm}
    if characters:
        cnn = {option: getattr(characters, setting) for option, setting in CNN_OPTIONS.items()}
        # Inference in the old programs needs 262 characters, although the file has one row fewer.
        options["char_cnn"] = {
            **cnn,
            "embedding": {"dim": characters.embedding_dim},
            "n_characters": Utf8Alphabet.NUM_IDS,
        }
    if size := config.words or config.softmax:
        options["n_tokens_vocab"] = size.num_words
    return options


@dataclass(frozen=True)
class Variable:
    """A variable of another program's file, the names of the weights it holds, and conversions in both directions."""

    name: str
    weights: tuple[str, ...]
    to_weights: Callable[[Any], list[Any]] = lambda variable: [variable]
    from_weights: Callable[[list[Array]], Array] = lambda weights: weights[0]


def list_variables(config: ModelConfig) -> Iterator[Variable]:
    """Yield the variables of a model, for import and export."""

    def transposed(name: str, weight: str) -> Variable:
        return Variable(name, (weight,), lambda variable: [variable.T], lambda weights: weights[0].T)

    if config.characters:
        prefix = "tokens.characters"
        yield Variable(
            "char_embed",
            (f"{prefix}.embedding.weight",),
            # Some files have a 262nd row, which no id refers to.
            lambda table: [np.pad(table[: -1 if len(table) == NUM_FILE_CHARACTERS + 1 else None], ((1, 0), (0, 0)))],
            lambda weights: weights[0][1:],
        )
        for index in range(len(config.characters.filters)):
            yield Variable(  # (1, width, d, channels) in the file, (channels, d, width) as a weight
                f"CNN/W_cnn_{index}",
                (f"{prefix}.convolutions.{index}.weight",),
                lambda kernel: [kernel[0].T if len(kernel) == 1 else kernel],
                lambda weights: weights[0].T[None],
            )
            yield Variable(f"CNN/b_cnn_{index}", (f"{prefix}.convolutions.{index}.bias",))
        for index in range(config.characters.num_highways):
            for name, module in (("carry", "gate"), ("transform", "transform")):
                yield transposed(f"CNN_high_{index}/W_{name}", f"{prefix}.highways.{index}.{module}.weight")
                yield Variable(f"CNN_high_{index}/b_{name}", (f"{prefix}.highways.{index}.{module}.bias",))
    if config.words:
        yield Variable("embedding", ("tokens.words.weight",))
    if config.token_projection:
        yield transposed("CNN_proj/W_proj", "tokens.projection.weight")
        yield Variable("CNN_proj/b_proj", ("tokens.projection.bias",))
    for index, direction in enumerate(DIRECTIONS):
        for layer in range(config.encoder.num_layers):
            stack = f"MultiRNNCell/Cell{layer}/" if config.encoder.num_layers > 1 else ""
            cell, module = f"RNN_{index}/RNN/{stack}LSTMCell", f"{direction}.layers.{layer}"
            yield Variable(  # (2 D, 4 cells) in the file: input rows, then state rows
                f"{cell}/W_0",
                (f"{module}.input_weight", f"{module}.state_weight"),
                lambda kernel: np.split(_swap_gates(kernel.T), 2, axis=1),
                lambda weights: _swap_gates(np.concatenate(weights, axis=1)).T,
            )
            yield Variable(
                f"{cell}/B",
                (f"{module}.bias",),
                lambda bias: [_swap_gates(bias)],
                lambda weights: _swap_gates(weights[0]),
            )
            if isinstance(config.encoder, EncoderConfig) and config.encoder.projected:
                yield transposed(f"{cell}/W_P_0", f"{module}.projection_weight")
    if config.softmax:
        yield Variable("softmax/W", ("softmax.weight",))
        yield Variable("softmax/b", ("softmax.bias",))


def import_weights(
    variables: Iterable[Variable], entries: Mapping[str, Entry], read: Callable[[Entry], Array], source: str
) -> dict[str, Array]:
    """Return the weights of the variables that a file has; `read` returns the array of an entry of the file.

    Raises a CheckpointError for other entries. Checkpoint reports the weights that are missing or misshapen.
    """
    weights: dict[str, Array] = {}
    unread = dict(entries)
    for variable in variables:
        name = variable.name
        if name not in unread:  # some programs name the cell of a single layer like the first of several
            name = name.replace("RNN/LSTMCell", "RNN/MultiRNNCell/Cell0/LSTMCell")
        if name in unread:
            array = read(unread.pop(name))
            try:
                arrays = map(np.ascontiguousarray, variable.to_weights(array))
            except (ValueError, IndexError, TypeError) as error:
                raise CheckpointError(f"{source} is damaged: {name} has the shape {array.shape}.") from error
            weights.update(zip(variable.weights, arrays, strict=True))
    if unread:
        names = list_some([f"{name} is in the file, but not in the settings" for name in sorted(unread)])
        raise CheckpointError(f"The weights in {source} do not fit its settings: {names}; use files of the same model.")
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
