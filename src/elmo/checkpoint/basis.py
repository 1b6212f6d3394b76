"""A trained model and two matrices -> the same language model, its vectors in another basis. Nothing is trained.

What writes a vector writes it multiplied, what reads it multiplies by the inverse. Predictions stay as they were,
but for rounding and for values that the clip of the projections cuts in one basis and not in the other.
"""

from dataclasses import replace

import torch
from torch import Tensor

from elmo.checkpoint.card import derived_card
from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.context_layer import ContextLayer
from elmo.config import EncoderConfig, ModelConfig
from elmo.errors import InputError

_DIRECTIONS = ("left_to_right", "right_to_left")
_SOFTMAXES = ("softmax.weight", "right_to_left_softmax.weight")


def check_basis(config: ModelConfig) -> None:
    """Refuse a model whose vectors cannot be written in another basis."""
    encoder = config.encoder
    if not isinstance(encoder, EncoderConfig) or not encoder.projected:
        kind = "LSTMs without a projection" if isinstance(encoder, EncoderConfig) else "Transformers"
        raise InputError(
            f"This model has {kind}, whose vectors cannot be multiplied without changing what it predicts; use "
            "one whose LSTMs have a projection."
        )
    if not config.token_projection:
        raise InputError(
            "This model has no projection of its word vectors, so they cannot be multiplied; use one that has."
        )


def change_basis(checkpoint: Checkpoint, *, words: Tensor, layers: Tensor) -> Checkpoint:
    """Multiply word vectors (layer 0) by `words` and those of all other layers by `layers`: x becomes x @ matrix.

    Both are (D, D) and invertible; each direction is multiplied alike, for both may share their softmax.
    """
    check_basis(checkpoint.config)
    changed = {name: weight.double() for name, weight in checkpoint.weights.items()}

    def write(name: str, matrix: Tensor) -> None:
        changed[name] = matrix.T @ changed[name]

    def read(name: str, inverse: Tensor) -> None:
        changed[name] = changed[name] @ inverse.T

    words, layers = words.double(), layers.double()
    words_inverse, layers_inverse = torch.linalg.inv(words), torch.linalg.inv(layers)
    write("tokens.projection.weight", words)
    write("tokens.projection.bias", words)
    for direction in _DIRECTIONS:
        for number in range(checkpoint.config.encoder.num_layers):
            layer = f"{direction}.layers.{number}"
            read(f"{layer}.input_weight", layers_inverse if number else words_inverse)
            read(f"{layer}.state_weight", layers_inverse)
            write(f"{layer}.projection_weight", layers)
    for name in _SOFTMAXES:
        if name in changed:
            read(name, layers_inverse)
    weights = {name: changed[name].to(weight.dtype) for name, weight in checkpoint.weights.items()}
    context = checkpoint.context
    if context is not None:
        context = _change_context(context, words, words_inverse)
    card = derived_card(checkpoint.card, "elmo align, which changed the basis of its vectors")
    return replace(checkpoint, weights=weights, context=context, card=card)


def _change_context(context: ContextLayer, words: Tensor, inverse: Tensor) -> ContextLayer:
    """Let a context layer read word vectors in the new basis; its own vectors stay as they are."""
    tensors = {name: context.tensors[name].double() for name in ("unknown_map", "word_mean", "word_components")}
    changed = {
        "unknown_map": inverse @ tensors["unknown_map"],
        "word_mean": tensors["word_mean"] @ words,
        # Directions stay directions, but are no longer at right angles.
        "word_components": torch.linalg.qr((tensors["word_components"] @ words).T).Q.T,
    }
    floats = {name: tensor.float().contiguous() for name, tensor in changed.items()}
    return replace(context, tensors={**context.tensors, **floats})
