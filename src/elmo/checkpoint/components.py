"""The optional components of a model: a context layer and a sentence head.

A component consists of a configuration and arrays, whose shapes the configuration determines. folder.py stores its
settings and a hash in config.json, and its arrays in a separate safetensors file. Nothing is computed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elmo.checkpoint.shapes import Shape
from elmo.checkpoint.tensors import Array
from elmo.checkpoint.weights import check_finite, content_hash, list_differences, list_some
from elmo.config import ContextConfig, ModelConfig, SentenceConfig
from elmo.errors import CheckpointError


@dataclass(frozen=True)
class ContextLayer:
    """A table of static word vectors, independent of the network; the arrays are checked on creation.

    inference/context.py uses it. The arrays, for V words of d dimensions and a layer 0 of D dimensions: vectors
    (V, d) in int8 with scales (V,); weights (V,), low for frequent words; unknown_map (D, d) and unknown_bias (d,),
    which estimate the vector of an unknown word from layer 0. For sentence vectors: sentence_scale (d,), word_mean
    (D,), and the common directions sentence_components (k, d) and word_components (k, D).
    """

    config: ContextConfig
    words: tuple[str, ...]
    arrays: Mapping[str, Array]

    def __post_init__(self) -> None:
        num_words, dim, num_components = self.config.num_words, self.config.dim, self.config.num_components
        word_dim = self.arrays["word_mean"].size if "word_mean" in self.arrays else 0
        shapes: dict[str, Shape] = {
            "vectors": (num_words, dim),
            "scales": (num_words,),
            "weights": (num_words,),
            "unknown_map": (word_dim, dim),
            "unknown_bias": (dim,),
            "sentence_scale": (dim,),
            "sentence_components": (num_components, dim),
            "word_mean": (word_dim,),
            "word_components": (num_components, word_dim),
        }
        _check_arrays("context layer", self.arrays, shapes)
        num_distinct = len(set(self.words))
        if len(self.words) != num_words or num_distinct != num_words:
            raise CheckpointError(
                f"The context layer lists {num_distinct:,} distinct words, but has {num_words:,} rows; save or copy "
                "the model again."
            )

    @property
    def word_dim(self) -> int:
        """D, the dimensions of the layer 0 that this context layer was made for."""
        return self.arrays["word_mean"].size

    def content_hash(self) -> str:
        """Return the SHA-256 of settings, words and arrays, as recorded in config.json."""
        settings = repr((sorted(self.config.to_dict().items()), self.words))
        return content_hash(self.arrays, settings.encode())


@dataclass(frozen=True)
class SentenceHead:
    """A trained map from the vectors of a sentence's words to one vector of `config.dim`."""

    config: SentenceConfig
    arrays: Mapping[str, Array]

    def content_hash(self) -> str:
        """Return the SHA-256 of settings and arrays, as recorded in config.json."""
        return content_hash(self.arrays, repr(sorted(self.config.to_dict().items())).encode())

    def check(self, model_config: ModelConfig, context_dim: int) -> None:
        """Raise CheckpointError unless the arrays fit the configurations of this head and of its model.

        A head need not use the static vectors of the context layer.
        """
        projection = self.arrays.get("projection")
        if projection is not None and projection.shape[-1:] == ((self.config.num_heads + 1) * model_config.vector_dim,):
            context_dim = 0
        _check_arrays("sentence head", self.arrays, expected_arrays(self.config, model_config, context_dim))


def expected_arrays(config: SentenceConfig, model_config: ModelConfig, context_dim: int) -> dict[str, Shape]:
    """Return the shape of every array of a sentence head; `context_dim` is 0 without a context layer.

    The layers are mixed with the softmax of `layer_weights`. In each head, a word's attention score is the score of
    its vector for the head's query, plus `rarity` times the logarithm of the word's weight. The pooled vectors of all
    heads, the maximum and the weighted sum of static vectors are concatenated and mapped by `projection` and `bias`.
    """
    input_dim = model_config.vector_dim
    return {
        "layer_weights": (model_config.encoder.num_layers + 1,),
        "queries": (config.num_heads, input_dim),
        "rarity": (config.num_heads,),
        "projection": (config.dim, (config.num_heads + 1) * input_dim + context_dim),
        "bias": (config.dim,),
    }


def _check_arrays(component: str, arrays: Mapping[str, Array], shapes: Mapping[str, Shape]) -> None:
    """Raise CheckpointError for arrays that are missing, unknown, not finite or of the wrong shape or type."""
    faults = list_differences({name: array.shape for name, array in arrays.items()}, shapes)
    for name, array in arrays.items():
        if array.dtype != (np.int8 if name == "vectors" else np.float32):
            faults.append(f"{name} is {array.dtype}")
    if faults:
        raise CheckpointError(f"The arrays of the {component} do not fit its settings: {list_some(faults)}.")
    check_finite(arrays, f"The {component} has")
