"""Conversion from and to the names and shapes of bilm-tf: options.json <-> ModelConfig, variables <-> weights.

Shared by HDF5 files (bilm-tf, AllenNLP, NLPL) and TensorFlow checkpoints. No file is opened here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from elmo.checkpoint.shapes import DIRECTIONS, Shape, expected_shapes
from elmo.checkpoint.tensors import Array
from elmo.checkpoint.weights import list_some
from elmo.config import EncoderConfig, ModelConfig
from elmo.errors import CheckpointError, ConfigError
from elmo.text.characters import Utf8Alphabet

# Files have no row for the padding id; a zero row is prepended.
NUM_FILE_CHARACTERS = Utf8Alphabet.NUM_IDS - 1
Entry = TypeVar("Entry")


def read_options(options: Mapping[str, Any], source: str, *, with_softmax: bool = False) -> ModelConfig:
    """Return the ModelConfig for an options.json; `source` names the file in errors."""
    try:
        lstm, cnn = options["lstm"], options.get("char_cnn")
        dim = lstm["projection_dim"]
        values: dict[str, Any] = {
            "encoder": {
                "cell_dim": lstm["dim"],
                "output_dim": dim,
                "projected": lstm["dim"] != dim,
                "num_layers": lstm.get("n_layers", 1),
                "cell_clip": lstm.get("cell_clip"),
                "projection_clip": lstm.get("proj_clip"),
                "residual": bool(lstm.get("use_skip_connections")),
            },
            "characters": None,
            "token_projection": False,
        }
        if cnn is None:
            values["words"] = {"num_words": options["n_tokens_vocab"], "embedding_dim": dim}
        else:
            values["characters"] = {
                "filters": cnn["filters"],
                "embedding_dim": cnn["embedding"]["dim"],
                "num_highways": cnn.get("n_highway") or 0,
                "activation": cnn.get("activation", "relu"),
                "max_characters": cnn.get("max_characters_per_token", 50),
            }
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
    assert isinstance(encoder, EncoderConfig)
    options: dict[str, Any] = {
        "bidirectional": True,
        "lstm": {
            "dim": encoder.cell_dim,
            "projection_dim": encoder.output_dim,
            "n_layers": encoder.num_layers,
            "cell_clip": encoder.cell_clip,
            "proj_clip": encoder.projection_clip,
            "use_skip_connections": encoder.residual,
        },
    }
    if characters:
        options["char_cnn"] = {
            "filters": characters.filters,
            "embedding": {"dim": characters.embedding_dim},
            "n_highway": characters.num_highways,
            "activation": characters.activation,
            "max_characters_per_token": characters.max_characters,
            "n_characters": Utf8Alphabet.NUM_IDS,  # as inference in the old programs needs, though the file has 261
        }
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
    variables: Iterable[Variable], entries: Mapping[str, Entry], read: Callable[[Entry], Array], source: str
) -> dict[str, Array]:
    """Read all variables from the entries of a file, by name; `read` returns the array of an entry.

    Raises a CheckpointError that lists all variables that are missing, misshapen or unknown.
    """
    weights: dict[str, Array] = {}
    faults, unread = [], dict(entries)
    for variable in variables:
        name = variable.name
        if name not in unread:  # some programs name the cell of a single layer like the first of several
            name = name.replace("RNN/LSTMCell", "RNN/MultiRNNCell/Cell0/LSTMCell")
        if name not in unread:
            faults.append(f"{variable.name} is missing")
            continue
        array = read(unread.pop(name))
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
