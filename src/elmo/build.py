"""A ModelConfig becomes modules; the only place where that happens."""

from torch import nn

from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, TransformerConfig, WordConfig
from elmo.nn.bilm import BiLM, Encoder, TokenEncoder
from elmo.nn.char_cnn import CharCnn
from elmo.nn.initialize import draw_normal, make_embedding, make_linear
from elmo.nn.projected_lstm import LstmStack, ProjectedLstm
from elmo.nn.softmax import WordSoftmax
from elmo.nn.transformer import CausalBlock, TransformerStack


def build_bilm(config: ModelConfig) -> BiLM:
    """Make the network a configuration describes, with random weights."""
    dim = config.encoder.output_dim
    tokens = TokenEncoder(
        _build_word_embedding(config.words) if config.words else None,
        _build_char_cnn(config.characters) if config.characters else None,
        make_linear(config.num_features, dim) if config.token_projection else None,
    )
    return BiLM(
        tokens,
        _build_encoder(config.encoder),
        _build_encoder(config.encoder),
        WordSoftmax(dim, config.softmax.num_words) if config.softmax else None,
        WordSoftmax(dim, config.softmax.num_words) if config.softmax and not config.softmax.shared else None,
    )


def _build_word_embedding(config: WordConfig) -> nn.Embedding:
    embedding = make_embedding(config.num_words, config.embedding_dim)
    draw_normal(embedding.weight, config.embedding_dim**-0.5)
    return embedding


def _build_char_cnn(config: CharacterConfig) -> CharCnn:
    return CharCnn(
        config.num_characters,
        config.embedding_dim,
        config.filters,
        activation=config.activation,
        num_highways=config.num_highways,
    )


def _build_encoder(config: EncoderConfig | TransformerConfig) -> Encoder:
    return _build_transformer(config) if isinstance(config, TransformerConfig) else _build_lstm(config)


def _build_transformer(config: TransformerConfig) -> TransformerStack:
    layers = [
        CausalBlock(config.output_dim, config.num_heads, config.feed_forward_dim, depth=config.num_layers)
        for _ in range(config.num_layers)
    ]
    return TransformerStack(layers, dim=config.output_dim, context=config.context)


def _build_lstm(config: EncoderConfig) -> LstmStack:
    layers = [
        ProjectedLstm(
            config.output_dim,
            config.cell_dim,
            config.output_dim,
            projected=config.projected,
            cell_clip=config.cell_clip,
            projection_clip=config.projection_clip,
            forget_bias=config.forget_bias,
        )
        for _ in range(config.num_layers)
    ]
    return LstmStack(layers, residual=config.residual)
