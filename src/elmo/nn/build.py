"""A configuration and weights -> the biLM as torch modules, and its weights back to arrays."""

import torch
from torch import Tensor

from elmo.checkpoint.weights import Float32, Weights
from elmo.config import EncoderConfig, ModelConfig, TransformerConfig
from elmo.nn import draw_normal, make_embedding, make_linear
from elmo.nn.bilm import BiLM, Encoder, TokenEncoder
from elmo.nn.char_cnn import CharCnn
from elmo.nn.projected_lstm import LstmStack, ProjectedLstm
from elmo.nn.softmax import WordSoftmax
from elmo.nn.transformer import CausalBlock, TransformerStack


def build_bilm(config: ModelConfig) -> BiLM:
    """Build the network of a configuration, with random weights."""
    dim, softmax = config.encoder.output_dim, config.softmax
    words = characters = None
    if config.words:
        words = make_embedding(config.words.num_words, config.words.embedding_dim)
        draw_normal(words.weight, config.words.embedding_dim**-0.5)
    if config.characters:
        characters = CharCnn(
            config.characters.num_characters,
            config.characters.embedding_dim,
            config.characters.filters,
            activation=config.characters.activation,
            num_highways=config.characters.num_highways,
        )
    return BiLM(
        TokenEncoder(words, characters, make_linear(config.num_features, dim) if config.token_projection else None),
        _build_encoder(config.encoder),
        _build_encoder(config.encoder),
        WordSoftmax(dim, softmax.num_words) if softmax else None,
        WordSoftmax(dim, softmax.num_words) if softmax and not softmax.shared else None,
    )


def load_bilm(config: ModelConfig, weights: Weights) -> BiLM:
    """Build the network of a configuration with copies of the given weights, for inference: no gradients."""
    with torch.device("meta"):
        bilm = build_bilm(config)
    bilm.load_state_dict(to_tensors(weights), assign=True)
    return bilm.requires_grad_(False).eval()


def to_tensors(weights: Weights) -> dict[str, Tensor]:
    """Return copies of weights, which may be memory-mapped, for load_state_dict."""
    return {name: torch.from_numpy(weight.copy()) for name, weight in weights.items()}


def weights_of(bilm: BiLM) -> dict[str, Float32]:
    """Return the weights of a network as arrays, which share its memory on the CPU."""
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
