<<<<<<<< HEAD:src/elmo/build.py
"""A ModelConfig -> the name, shape and random start of every weight; nn/build.py makes modules of one."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, TransformerConfig

Array = npt.NDArray[np.float32]
Generator = np.random.Generator
INITIAL_GATE_BIAS = -2.0  # a highway starts by letting most of its input through
========
"""A configuration or a checkpoint -> the biLM as torch modules, and its weights back to arrays."""

import torch
from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.weights import Float32, Weights
from elmo.config import EncoderConfig, ModelConfig, TransformerConfig
from elmo.nn import draw_normal, make_embedding, make_linear
from elmo.nn.bilm import BiLM, Encoder, TokenEncoder
from elmo.nn.char_cnn import CharCnn
from elmo.nn.projected_lstm import LstmStack, ProjectedLstm
from elmo.nn.softmax import WordSoftmax
from elmo.nn.transformer import CausalBlock, TransformerStack
>>>>>>>> checkpoint:src/elmo/nn/build.py


class WeightSpec(NamedTuple):
    """One weight: its shape, and what draws it."""

    shape: tuple[int, ...]
    draw: Callable[[Generator, tuple[int, ...]], npt.NDArray[np.float64]]


def list_weights(config: ModelConfig) -> dict[str, WeightSpec]:
    """Return every weight that a configuration needs, by name."""
    return dict(_list_weights(config))


def draw_weights(config: ModelConfig, *, seed: int) -> dict[str, Array]:
    """Return random weights, the same for the same seed."""
    generator = np.random.default_rng(seed)
    return {name: spec.draw(generator, spec.shape).astype(np.float32) for name, spec in _list_weights(config)}


def _list_weights(config: ModelConfig) -> Iterator[tuple[str, WeightSpec]]:
    dim = config.encoder.output_dim
    if config.words:
        size = config.words.embedding_dim
        yield "tokens.words.weight", WeightSpec((config.words.num_words, size), _normal(size**-0.5))
    if config.characters:
        yield from _list_characters(config.characters)
    if config.token_projection:
        yield from _list_linear("tokens.projection", config.num_features, dim)
    for side in ("left_to_right", "right_to_left"):
        if isinstance(config.encoder, TransformerConfig):
            yield from _list_transformer(side, config.encoder)
        else:
            yield from _list_lstm(side, config.encoder)
    if config.softmax:
        names = ["softmax"] if config.softmax.shared else ["softmax", "right_to_left_softmax"]
        for name in names:
            yield f"{name}.weight", WeightSpec((config.softmax.num_words, dim), _normal(dim**-0.5))
            yield f"{name}.bias", WeightSpec((config.softmax.num_words,), _constant(0.0))


<<<<<<<< HEAD:src/elmo/build.py
def _list_characters(config: CharacterConfig) -> Iterator[tuple[str, WeightSpec]]:
    prefix, size = "tokens.characters", config.embedding_dim
    yield f"{prefix}.embedding.weight", WeightSpec((config.num_characters, size), _uniform(1.0))
    for number, (width, channels) in enumerate(config.filters):
        draw = _normal((width * size) ** -0.5) if config.activation == "tanh" else _uniform(0.05)
        yield f"{prefix}.convolutions.{number}.weight", WeightSpec((channels, size, width), draw)
        yield f"{prefix}.convolutions.{number}.bias", WeightSpec((channels,), _constant(0.0))
    features = config.num_features
    for number in range(config.num_highways):
        yield from _list_linear(f"{prefix}.highways.{number}.transform", features, features)
        yield from _list_linear(f"{prefix}.highways.{number}.gate", features, features, bias=INITIAL_GATE_BIAS)


def _list_lstm(side: str, config: EncoderConfig) -> Iterator[tuple[str, WeightSpec]]:
    dim, cells = config.output_dim, config.cell_dim
    for number in range(config.num_layers):
        prefix = f"{side}.layers.{number}"
        yield f"{prefix}.input_weight", WeightSpec((4 * cells, dim), _glorot(4 * cells, dim))
        yield f"{prefix}.state_weight", WeightSpec((4 * cells, dim), _glorot(4 * cells, dim))
        yield f"{prefix}.bias", WeightSpec((4 * cells,), _constant(0.0))
        if config.projected:
            yield f"{prefix}.projection_weight", WeightSpec((dim, cells), _glorot(dim, cells))


def _list_transformer(side: str, config: TransformerConfig) -> Iterator[tuple[str, WeightSpec]]:
    dim, wide = config.output_dim, config.feed_forward_dim
    # Each block adds twice to the stream, and starts the smaller for it.
    shrink = (2 * config.num_layers) ** -0.5
    for number in range(config.num_layers):
        prefix = f"{side}.layers.{number}"
        yield from _list_norm(f"{prefix}.attention_norm", dim)
        yield from _list_linear(f"{prefix}.query_key_value", dim, 3 * dim)
        yield from _list_linear(f"{prefix}.attention_output", dim, dim, scale=shrink)
        yield from _list_norm(f"{prefix}.feed_forward_norm", dim)
        yield from _list_linear(f"{prefix}.expand", dim, wide)
        yield from _list_linear(f"{prefix}.contract", wide, dim, scale=shrink)
    yield from _list_norm(f"{side}.norm", dim)


def _list_linear(
    name: str, num_inputs: int, num_outputs: int, *, bias: float = 0.0, scale: float = 1.0
) -> Iterator[tuple[str, WeightSpec]]:
    yield f"{name}.weight", WeightSpec((num_outputs, num_inputs), _normal(scale * num_inputs**-0.5))
    yield f"{name}.bias", WeightSpec((num_outputs,), _constant(bias))


def _list_norm(name: str, dim: int) -> Iterator[tuple[str, WeightSpec]]:
    yield f"{name}.weight", WeightSpec((dim,), _constant(1.0))
    yield f"{name}.bias", WeightSpec((dim,), _constant(0.0))


def _normal(std: float) -> Callable[[Generator, tuple[int, ...]], npt.NDArray[np.float64]]:
    return lambda generator, shape: generator.normal(0.0, std, shape)


def _uniform(bound: float) -> Callable[[Generator, tuple[int, ...]], npt.NDArray[np.float64]]:
    return lambda generator, shape: generator.uniform(-bound, bound, shape)


def _glorot(rows: int, columns: int) -> Callable[[Generator, tuple[int, ...]], npt.NDArray[np.float64]]:
    return _uniform((6 / (rows + columns)) ** 0.5)


def _constant(value: float) -> Callable[[Generator, tuple[int, ...]], npt.NDArray[np.float64]]:
    return lambda generator, shape: np.full(shape, value)
========
def load_bilm(checkpoint: Checkpoint) -> BiLM:
    """Build the network with a checkpoint's weights, copied, for inference: no gradients."""
    with torch.device("meta"):
        bilm = build_bilm(checkpoint.config)
    bilm.load_state_dict(to_tensors(checkpoint.weights), assign=True)
    return bilm.requires_grad_(False).eval()


def to_tensors(weights: Weights) -> dict[str, Tensor]:
    """Return copies of a checkpoint's weights for load_state_dict; its arrays may be mapped from a file."""
    return {name: torch.from_numpy(weight.copy()) for name, weight in weights.items()}


def weights_of(bilm: BiLM) -> dict[str, Float32]:
    """Return the weights of a network as arrays for a checkpoint; on the CPU they share their memory."""
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in bilm.state_dict().items()}


def _build_encoder(config: EncoderConfig | TransformerConfig) -> Encoder:
    dim = config.output_dim
    if isinstance(config, TransformerConfig):
        blocks = [
            CausalBlock(dim, config.num_heads, config.feed_forward_dim, depth=config.num_layers)
            for _ in range(config.num_layers)
        ]
        return TransformerStack(blocks, dim=dim, context=config.context)
    layers = [
        ProjectedLstm(
            dim,
            config.cell_dim,
            dim,
            projected=config.projected,
            cell_clip=config.cell_clip,
            projection_clip=config.projection_clip,
            forget_bias=config.forget_bias,
        )
        for _ in range(config.num_layers)
    ]
    return LstmStack(layers, residual=config.residual)
>>>>>>>> checkpoint:src/elmo/nn/build.py
