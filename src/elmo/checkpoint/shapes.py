"""The names and shapes of a network's weights, derived from its configuration; elmo.nn uses the same names."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from elmo.config import ModelConfig, TransformerConfig

Shape = tuple[int, ...]
Float64 = npt.NDArray[np.float64]
DIRECTIONS = ("left_to_right", "right_to_left")
_INITIAL_GATE_BIAS = -2.0  # a new highway layer carries most of its input through


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return the name and shape of every weight that a configuration needs."""
    return dict(_list_shapes(config))


def _list_shapes(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    encoder, characters, dim = config.encoder, config.characters, config.encoder.output_dim
    if config.words:
        yield "tokens.words.weight", (config.words.num_words, config.words.embedding_dim)
    if characters:
        prefix, size = "tokens.characters", characters.num_features
        yield f"{prefix}.embedding.weight", (characters.num_characters, characters.embedding_dim)
        for index, (width, channels) in enumerate(characters.filters):
            yield from _with_bias(f"{prefix}.convolutions.{index}", channels, characters.embedding_dim, width)
        for index in range(characters.num_highways):
            yield from _with_bias(f"{prefix}.highways.{index}.transform", size, size)
            yield from _with_bias(f"{prefix}.highways.{index}.gate", size, size)
    if config.token_projection:
        yield from _with_bias("tokens.projection", dim, config.num_features)
    for direction in DIRECTIONS:
        for index in range(encoder.num_layers):
            layer = f"{direction}.layers.{index}"
            if isinstance(encoder, TransformerConfig):
                yield from _with_bias(f"{layer}.attention_norm", dim)
                yield from _with_bias(f"{layer}.query_key_value", 3 * dim, dim)
                yield from _with_bias(f"{layer}.attention_output", dim, dim)
                yield from _with_bias(f"{layer}.feed_forward_norm", dim)
                yield from _with_bias(f"{layer}.expand", encoder.feed_forward_dim, dim)
                yield from _with_bias(f"{layer}.contract", dim, encoder.feed_forward_dim)
            else:
                yield f"{layer}.input_weight", (4 * encoder.cell_dim, dim)
                yield f"{layer}.state_weight", (4 * encoder.cell_dim, dim)
                yield f"{layer}.bias", (4 * encoder.cell_dim,)
                if encoder.projected:
                    yield f"{layer}.projection_weight", (dim, encoder.cell_dim)
        if isinstance(encoder, TransformerConfig):
            yield from _with_bias(f"{direction}.norm", dim)
    if config.softmax:
        yield from _with_bias("softmax", config.softmax.num_words, dim)
        if not config.softmax.shared:
            yield from _with_bias("right_to_left_softmax", config.softmax.num_words, dim)


def _with_bias(name: str, output_dim: int, *input_dims: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (output_dim, *input_dims)
    yield f"{name}.bias", (output_dim,)


def draw_weights(config: ModelConfig, *, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Initialize weights at random, from the same distributions as the modules of elmo.nn."""
    generator = np.random.default_rng(seed)
    return {
        name: _draw_weight(name, shape, config, generator).astype(np.float32)
        for name, shape in expected_shapes(config).items()
    }


def _draw_weight(name: str, shape: Shape, config: ModelConfig, generator: np.random.Generator) -> Float64:
    *_, module, leaf = name.split(".")
    if leaf == "bias":
        return np.full(shape, _INITIAL_GATE_BIAS if module == "gate" else 0.0)
    if module.endswith("norm"):
        return np.ones(shape)
    if leaf in ("input_weight", "state_weight", "projection_weight"):
        bound = (6 / sum(shape)) ** 0.5  # Glorot
        return generator.uniform(-bound, bound, shape)
    if name == "tokens.characters.embedding.weight":
        return generator.uniform(-1, 1, shape)
    if ".convolutions." in name and config.characters and config.characters.activation == "relu":
        return generator.uniform(-0.05, 0.05, shape)
    num_inputs = float(np.prod(shape[1:]))
    if module in ("attention_output", "contract"):  # each block adds to the residual stream twice
        num_inputs *= 2 * config.encoder.num_layers
    return generator.normal(0, num_inputs**-0.5, shape)
