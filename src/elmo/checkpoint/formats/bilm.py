"""The names and shapes of bilm-tf: its options.json <-> ModelConfig, its variables <-> our weights.

Shared by HDF5 files (bilm-tf, AllenNLP, NLPL) and TensorFlow checkpoints. No file is opened here.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from elmo.checkpoint.checkpoint import expected_shapes, list_some
from elmo.config import EncoderConfig, ModelConfig
from elmo.errors import CheckpointError, ConfigError
from elmo.text.characters import Utf8Alphabet

# Files have no row for the padded word; a zero row is put in front.
NUM_FILE_CHARACTERS = Utf8Alphabet.NUM_IDS - 1


def read_options(options: Mapping[str, Any], source: str, *, with_softmax: bool = False) -> ModelConfig:
    """Return the ModelConfig for an options.json; `source` names the file in errors."""
    faults: list[str] = []

    def take(path: str, default: Any = faults) -> Any:
        value: Any = options
        for key in path.split("."):
            value = value.get(key, default) if isinstance(value, Mapping) else default
        if value is faults:
            faults.append(f"'{path}' is missing")
        return value

    has_characters = options.get("char_cnn") is not None
    lstm = {
        "num_layers": take("lstm.n_layers", 1),
        "cell_dim": take("lstm.dim"),
        "output_dim": take("lstm.projection_dim"),
        "cell_clip": take("lstm.cell_clip", None),
        "projection_clip": take("lstm.proj_clip", None),
        "residual": bool(take("lstm.use_skip_connections", False)),
    }
    lstm["projected"] = lstm["cell_dim"] != lstm["output_dim"]
    values: dict[str, Any] = {"encoder": lstm, "characters": None}
    if has_characters:
        values["characters"] = {
            "filters": take("char_cnn.filters"),
            "embedding_dim": take("char_cnn.embedding.dim"),
            "num_highways": take("char_cnn.n_highway", 0) or 0,
            "activation": take("char_cnn.activation", "relu"),
            "max_characters": take("char_cnn.max_characters_per_token", 50),
        }
        if (stated := take("char_cnn.n_characters", 262)) not in (261, 262):
            faults.append(f"'char_cnn.n_characters' is {stated!r}, 261 or 262 was expected")
    else:
        values["words"] = {"num_words": take("n_tokens_vocab"), "embedding_dim": lstm["output_dim"]}
    if with_softmax:
        values["softmax"] = {"num_words": take("n_tokens_vocab")}
    if options.get("bidirectional") is False:
        faults.append("'bidirectional' is false, but vectors need both directions")
    if faults:
        raise CheckpointError(f"{source} does not describe an ELMo model: {'; '.join(faults)}.")
    try:
        features = sum(int(channels) for _, channels in values["characters"]["filters"]) if has_characters else 0
        values["token_projection"] = has_characters and features != lstm["output_dim"]
        return ModelConfig.from_dict(values)
    except (ConfigError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{source} does not describe an ELMo model: {error}") from error


def write_options(config: ModelConfig) -> dict[str, Any]:
    """Return the options.json for a model; CheckpointError for what bilm-tf cannot express."""
    encoder, characters = config.encoder, config.characters
    if not isinstance(encoder, EncoderConfig):
        raise CheckpointError(
            f"This model cannot be written as bilm-tf HDF5: its encoder is a {encoder.kind}, and the old programs "
            "have only LSTMs; keep it in our own format."
        )
    faults = []
    if characters and characters.alphabet != "utf-8":
        faults.append("its characters come from a dictionary, not from UTF-8 bytes")
    if characters and config.words:
        faults.append("it reads both words and characters")
    if encoder.forget_bias != 1.0:
        faults.append(f"its forget bias is {encoder.forget_bias:g}, not 1")
    if encoder.projected == (encoder.cell_dim == encoder.output_dim):
        faults.append("its cells are projected to their own size")
    if config.token_projection == (config.num_features == encoder.output_dim):
        faults.append("its word vectors are projected to their own size")
    if faults:
        raise CheckpointError(f"This model cannot be written as bilm-tf HDF5: {'; '.join(faults)}.")
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
            "activation": characters.activation,
            "embedding": {"dim": characters.embedding_dim},
            "filters": [list(pair) for pair in characters.filters],
            "max_characters_per_token": characters.max_characters,
            # The old programs need 262 for inference, although the file has one row less.
            "n_characters": Utf8Alphabet.NUM_IDS,
            "n_highway": characters.num_highways,
        }
    if size := config.words or config.softmax:
        options["n_tokens_vocab"] = size.num_words
    return options


@dataclass(frozen=True)
class Row:
    """One variable of theirs, the weights of ours that it holds, and the conversion in both directions."""

    theirs: str
    ours: tuple[str, ...]
    to_ours: Callable[[Tensor], list[Tensor]]
    to_theirs: Callable[[list[Tensor]], Tensor]


def rows(config: ModelConfig) -> Iterator[Row]:
    """Yield the table of names for a model, for import and export."""
    if config.characters:
        yield Row(
            "char_embed",
            ("tokens.characters.embedding.weight",),
            lambda table: [torch.cat([table.new_zeros(1, table.shape[1]), table])],
            lambda parts: parts[0][1:],
        )
        for number in range(len(config.characters.filters)):
            ours = f"tokens.characters.convolutions.{number}"
            yield Row(  # (1, width, d, channels) <-> (channels, d, width)
                f"CNN/W_cnn_{number}",
                (f"{ours}.weight",),
                lambda kernel: [kernel.reshape(kernel.shape[1:]).permute(2, 1, 0).contiguous()],
                lambda parts: parts[0].permute(2, 1, 0)[None],
            )
            yield _same(f"CNN/b_cnn_{number}", f"{ours}.bias")
        for number in range(config.characters.num_highways):
            for theirs, our_name in (("carry", "gate"), ("transform", "transform")):
                ours = f"tokens.characters.highways.{number}.{our_name}"
                yield _transposed(f"CNN_high_{number}/W_{theirs}", f"{ours}.weight")
                yield _same(f"CNN_high_{number}/b_{theirs}", f"{ours}.bias")
    if config.words:
        yield _same("embedding", "tokens.words.weight")
    if config.token_projection:
        yield _transposed("CNN_proj/W_proj", "tokens.projection.weight")
        yield _same("CNN_proj/b_proj", "tokens.projection.bias")
    encoder = config.encoder
    assert isinstance(encoder, EncoderConfig)
    for direction, our_direction in enumerate(("left_to_right", "right_to_left")):
        for layer in range(encoder.num_layers):
            yield from _lstm_rows(encoder, f"{our_direction}.layers.{layer}", direction, layer)
    if config.softmax:
        yield _same("softmax/W", "softmax.weight")
        yield _same("softmax/b", "softmax.bias")


def _lstm_rows(encoder: EncoderConfig, ours: str, direction: int, layer: int) -> Iterator[Row]:
    cell = f"MultiRNNCell/Cell{layer}/" if encoder.num_layers > 1 else ""
    theirs = f"RNN_{direction}/RNN/{cell}LSTMCell"
    input_dim = encoder.output_dim

    def split(kernel: Tensor) -> list[Tensor]:
        kernel = _swap_gates(kernel.t()).contiguous()
        return [kernel[:, :input_dim].contiguous(), kernel[:, input_dim:].contiguous()]

    def join(parts: list[Tensor]) -> Tensor:
        return _swap_gates(torch.cat(parts, dim=1)).t()

    yield Row(f"{theirs}/W_0", (f"{ours}.input_weight", f"{ours}.state_weight"), split, join)
    yield Row(f"{theirs}/B", (f"{ours}.bias",), lambda b: [_swap_gates(b)], lambda parts: _swap_gates(parts[0]))
    if encoder.projected:
        yield _transposed(f"{theirs}/W_P_0", f"{ours}.projection_weight")


def import_weights(
    config: ModelConfig, find: Callable[[str], Tensor | None], source: str, unread: Collection[str]
) -> dict[str, Tensor]:
    """Read every variable that a model needs through `find`, which removes what it returns from `unread`.

    Raises CheckpointError that lists all missing variables, wrong shapes and variables left over.
    """
    shapes = expected_shapes(config)
    weights: dict[str, Tensor] = {}
    faults = []
    for row in rows(config):
        tensor = find(row.theirs)
        if tensor is None:
            faults.append(f"{row.theirs} is missing")
            continue
        if row.theirs == "char_embed" and tensor.shape[:1] == (NUM_FILE_CHARACTERS + 1,):
            tensor = tensor[:NUM_FILE_CHARACTERS]  # trained with 262 rows, of which no id reaches the last
        parts = _convert(row, tensor.to(torch.float32), [shapes[name] for name in row.ours])
        if parts is None:
            # Not before: operations on the device "meta" import torch's compiler, which takes a second.
            wanted = row.to_theirs([torch.empty(shapes[name], device="meta") for name in row.ours]).shape
            faults.append(f"{row.theirs} has shape {tuple(tensor.shape)}, the options need {tuple(wanted)}")
        else:
            weights.update(zip(row.ours, parts, strict=True))
    faults += [f"{name} is in the file, but not in the options" for name in sorted(unread)]
    if faults:
        raise CheckpointError(
            f"{source} does not fit its options.json: {list_some(faults)}; use two files of one model."
        )
    return weights


def _convert(row: Row, tensor: Tensor, shapes: list[torch.Size]) -> list[Tensor] | None:
    """Return our weights, or None if the variable has another shape."""
    try:
        parts = row.to_ours(tensor)
    except (RuntimeError, IndexError, ValueError):
        return None
    return parts if [part.shape for part in parts] == shapes else None


def export_weights(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return every variable of theirs by name."""
    return {row.theirs: row.to_theirs([weights[name] for name in row.ours]) for row in rows(config)}


def _same(theirs: str, ours: str) -> Row:
    return Row(theirs, (ours,), lambda tensor: [tensor], lambda parts: parts[0])


def _transposed(theirs: str, ours: str) -> Row:
    return Row(theirs, (ours,), lambda tensor: [tensor.t().contiguous()], lambda parts: parts[0].t())


def _swap_gates(tensor: Tensor) -> Tensor:
    """Reorder the gates i, j, f, o to i, f, j, o along the first axis; the way back is the same step."""
    first, second, third, fourth = tensor.chunk(4)
    return torch.cat([first, third, second, fourth])
