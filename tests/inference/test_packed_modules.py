"""The layers and the character network of the fast path, against the modules they were made of."""

import dataclasses

import numpy as np
import pytest
import torch

from elmo.inference import packed_lstm, word_encoder
from elmo.inference.layers import choose_layers
from elmo.inference.packed_lstm import pack_encoder
from elmo.inference.reading import PaddedEncoder, Window
from elmo.inference.word_encoder import PackedCharCnn
from elmo.inference.workers import Workers
from elmo.nn.bilm import TokenEncoder
from elmo.nn.char_cnn import CharCnn
from elmo.nn.projected_lstm import LstmStack, ProjectedLstm
from elmo.nn.transformer import CausalBlock, TransformerStack
from elmo.text.batch import Indexer

LENGTHS = [7, 7, 4, 1]
COUNTS = [sum(length > step for length in LENGTHS) for step in range(7)]


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.inference_mode():
        yield


def make_lstm(*, cell_dim=10, projected=True, clips=(0.3, 0.2), forget_bias=1.0, residual=True):
    layers = [
        ProjectedLstm(
            6,
            cell_dim,
            6,
            projected=projected,
            cell_clip=clips[0],
            projection_clip=clips[1],
            forget_bias=forget_bias,
        )
        for _ in range(3)
    ]
    for layer in layers:
        layer.bias.normal_()
    return LstmStack(layers, residual=residual)


def make_transformer():
    return TransformerStack([CausalBlock(6, 1, 8, depth=2) for _ in range(2)], dim=6, context=3)


def pack(padded):
    return torch.cat([padded[:count, step] for step, count in enumerate(COUNTS)])


def read(encoder, words, sources, state, *, num_layers):
    """Return every layer's packed rows in the order read, and the state at the end."""
    result = torch.empty(len(sources), num_layers + 1, 2, words.shape[1])[
        :, :, 1
    ]  # as one side of a batch's result
    counts, targets = np.array(COUNTS), np.random.default_rng(0).permutation(len(sources))
    choice = choose_layers("all", num_layers + 1)
    reached = encoder.read(Window(words, sources.numpy(), targets, counts), state, choice, result)
    return result[torch.from_numpy(targets)].transpose(0, 1), reached


SETTINGS = [
    {},
    {"clips": (None, None)},
    {"clips": (0.3, None), "forget_bias": 0.0},
    {"cell_dim": 6, "projected": False, "residual": False},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("at_once", [1, 2**22])
def test_a_packed_lstm_gives_the_outputs_and_the_state_of_the_module(
    kernels, monkeypatch, settings, carried, at_once
):
    monkeypatch.setattr(packed_lstm, "GATE_VALUES_AT_ONCE", at_once)
    stack = make_lstm(**settings)
    state = None
    start = stack.zero_state(4)
    if carried:
        start.hidden.normal_(), start.cell.normal_()
        state = start
    check_encoder(pack_encoder(stack, "float32"), stack, start, state)


@pytest.mark.parametrize("make", [make_lstm, make_transformer])
@pytest.mark.parametrize("carried", [False, True])
def test_a_padded_encoder_gives_the_outputs_and_the_state_of_the_module(make, carried):
    stack = make()
    start = stack.zero_state(4)
    if carried:
        _, start = stack(torch.randn(4, 3, 6), [3, 3, 2, 0], start)
    check_encoder(PaddedEncoder(stack), stack, start, start if carried else None)


def check_encoder(encoder, stack, start, state):
    before = [tensor.clone() for tensor in start.tensors]
    words = torch.randn(5, 6)  # some of which come more than once
    word_index = torch.randint(0, 5, (4, 7))
    expected, end = stack(words[word_index], LENGTHS, start)
    found, reached = read(encoder, words, pack(word_index), state, num_layers=stack.num_layers)
    assert torch.equal(found[0], words[pack(word_index)])
    for one, other in zip(found[1:], expected, strict=True):
        torch.testing.assert_close(one, pack(other), rtol=0, atol=1e-6)
    for one, other in zip(reached.tensors, end.tensors, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
    for one, other in zip(start.tensors, before, strict=True):
        assert torch.equal(one, other)  # the state that was given is not changed


def test_rows_that_are_not_read_keep_their_state(kernels):
    stack = make_lstm()
    state = stack.zero_state(5)
    state.hidden.normal_(), state.cell.normal_()
    sources = torch.arange(sum(COUNTS))
    words = torch.randn(sum(COUNTS), 6)
    _, reached = read(pack_encoder(stack, "float32"), words, sources, state, num_layers=3)
    assert torch.equal(reached.hidden[:, 4], state.hidden[:, 4])
    assert torch.equal(reached.cell[:, 4], state.cell[:, 4])
    assert not torch.allclose(reached.cell[:, 3], state.cell[:, 3])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("num_highways", [0, 2])
@pytest.mark.parametrize("at_once", [1, 2**21])
def test_a_packed_character_network_gives_the_features_of_the_module(
    kernels, monkeypatch, activation, num_highways, at_once
):
    monkeypatch.setattr(word_encoder, "VALUES_AT_ONCE", at_once)
    cnn = CharCnn(20, 5, ((1, 3), (2, 4), (5, 6)), activation=activation, num_highways=num_highways)
    for convolution in cnn.convolutions:
        convolution.bias.normal_()
    padding = 19
    char_ids = torch.full((40, 12), padding)
    for row in range(40):  # every length up to the longest, so that windows end inside the padding and past it
        char_ids[row, : row % 13] = torch.randint(0, 19, (row % 13,))
    torch.testing.assert_close(PackedCharCnn(cnn, "float32")(char_ids), cnn(char_ids), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize(("num_highways", "output_dim"), [(0, 0), (1, 7), (4, 33), (5, 8)])
def test_words_are_encoded_as_by_the_module(kernels, precision, activation, num_highways, output_dim):
    cnn = CharCnn(20, 5, ((1, 3), (2, 40), (3, 17)), activation=activation, num_highways=num_highways)
    projection = torch.nn.Linear(60, output_dim) if output_dim else None
    tokens = TokenEncoder(None, cnn, projection)
    workers = Workers(2)
    encoder = word_encoder.WordEncoder(tokens, precision, workers, cache_bytes=0)
    batch = Indexer(LetterAlphabet(), None).batch([[str(number) * (number % 9) for number in range(130)]])
    with torch.inference_mode():
        found, expected = encoder.encode(batch), tokens(batch.char_ids, None)
        alone = encoder.encode(Indexer(LetterAlphabet(), None).batch([["1"]]))
    if precision == "float32":
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    else:
        assert torch.cosine_similarity(found, expected).mean() > 0.999
    if kernels != "off":
        assert torch.equal(alone[2], found[batch.word_index[0, 2]])  # the same bits whatever is beside it
        with pytest.raises(IndexError, match="between 0 and 19"):
            encoder.encode(dataclasses.replace(batch, char_ids=batch.char_ids + 15))


class LetterAlphabet:
    """Digits, and 18 as padding."""

    max_characters = 12

    def encode(self, words):
        rows = [[*map(int, word[:12]), *[18] * (12 - len(word[:12]))] for word in words]
        return np.array(rows, dtype=np.int64).reshape(len(words), 12)

    def boundaries(self):
        return np.full((2, 12), 17, dtype=np.int64)
