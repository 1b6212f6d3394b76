"""A ModelConfig -> random weights to start from, without a network; drawn as the modules of nn/ draw theirs."""

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.shapes import expected_shapes
from elmo.config import ModelConfig

INITIAL_GATE_BIAS = -2.0  # a highway starts by letting most of its input through


def draw_weights(config: ModelConfig, *, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Return random weights by name, the same for the same seed."""
    generator = np.random.default_rng(seed)
    return {
        name: _draw(name, shape, config, generator).astype(np.float32)
        for name, shape in expected_shapes(config).items()
    }


def _draw(
    name: str, shape: tuple[int, ...], config: ModelConfig, generator: "np.random.Generator"
) -> npt.NDArray[np.float64]:
    *_, part, last = name.split(".")
    if last == "bias":
        return np.full(shape, INITIAL_GATE_BIAS if part == "gate" else 0.0)
    if part.endswith("norm"):
        return np.ones(shape)
    if last in ("input_weight", "state_weight", "projection_weight"):
        bound = (6 / sum(shape)) ** 0.5  # Glorot
        return generator.uniform(-bound, bound, shape)
    if name == "tokens.characters.embedding.weight":
        return generator.uniform(-1, 1, shape)
    if ".convolutions." in name and config.characters and config.characters.activation == "relu":
        return generator.uniform(-0.05, 0.05, shape)
    num_inputs = float(np.prod(shape[1:]))
    if part in ("attention_output", "contract"):  # each block adds twice to the stream, and starts smaller for it
        num_inputs *= 2 * config.encoder.num_layers
    return generator.normal(0, num_inputs**-0.5, shape)
