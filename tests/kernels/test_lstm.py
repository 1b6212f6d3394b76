"""The compiled LSTM against the plain modules, on random shapes."""

import numpy as np
import pytest
import torch

from elmo.inference.layers import choose_layers
from elmo.inference.packed_lstm import CompiledLstm, PackedLstm, pack_encoder
from elmo.inference.reading import Window
from elmo.nn.projected_lstm import LstmStack, ProjectedLstm

# num_layers, cells, outputs (0: no projection), clips, lengths of the rows
SHAPES = [
    (1, 1, 1, (None, None), [1]),
    (2, 33, 7, (3.0, 3.0), [5]),
    (2, 64, 32, (3.0, 3.0), [9, 9, 8]),
    (1, 100, 0, (0.4, None), [6, 3, 3, 1]),
    (3, 17, 65, (None, 0.3), list(range(14, 0, -1))),
    (2, 48, 31, (0.5, 0.5), [4] * 25 + [2] * 12),
    (2, 130, 96, (None, None), [3] * 97),
]


@pytest.fixture(autouse=True)
def compiled(kernels):
    if kernels == "off":
        pytest.skip("the plain modules are what the kernels are compared with")
    torch.manual_seed(0)
    with torch.inference_mode():
        yield kernels


def make_stack(num_layers, cell_dim, output_dim, clips):
    layers = [
        ProjectedLstm(
            output_dim or cell_dim,
            cell_dim,
            output_dim or cell_dim,
            projected=output_dim > 0,
            cell_clip=clips[0],
            projection_clip=clips[1],
            forget_bias=1.0,
        )
        for _ in range(num_layers)
    ]
    for layer in layers:
        layer.bias.normal_()
    return LstmStack(layers, residual=True)


def read(stack, precision, words, word_index, lengths, state=None, encoder=None):
    """Return all layers (L+1, N, D), row after row, and the state."""
    encoder = encoder or pack_encoder(stack, precision)
    counts = np.array([sum(length > step for length in lengths) for step in range(max(lengths))])
    rows = np.concatenate([np.arange(count) for count in counts])
    steps = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(lengths) - lengths
    result = torch.full((sum(lengths), stack.num_layers + 1, words.shape[1]), torch.nan)
    sources = np.ascontiguousarray(word_index.numpy()[rows, steps])
    choice = choose_layers("all", stack.num_layers + 1)
    reached = encoder.read(Window(words, sources, starts[rows] + steps, counts), state, choice, result)
    return result.transpose(0, 1), reached


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize(("num_layers", "cell_dim", "output_dim", "clips", "lengths"), SHAPES)
def test_compiled_layers_equal_the_module(num_layers, cell_dim, output_dim, clips, lengths, carried):
    stack = make_stack(num_layers, cell_dim, output_dim, clips)
    words = torch.randn(6, output_dim or cell_dim)
    word_index = torch.randint(0, 6, (len(lengths), max(lengths)))
    start = stack.zero_state(len(lengths))
    if carried:
        start.hidden.normal_(), start.cell.normal_()
    expected, end = stack(words[word_index], lengths, start)
    assert isinstance(pack_encoder(stack, "float32"), CompiledLstm)
    found, reached = read(stack, "float32", words, word_index, lengths, start if carried else None)
    for one, other in zip(found[1:], expected, strict=True):
        real = torch.cat([other[row, :length] for row, length in enumerate(lengths)])
        torch.testing.assert_close(one, real, rtol=1e-5, atol=3e-6)
    torch.testing.assert_close(reached.hidden, end.hidden, rtol=1e-5, atol=3e-6)
    torch.testing.assert_close(reached.cell, end.cell, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_row_has_the_same_bits_alone_and_among_others(precision):
    stack, lengths = make_stack(2, 70, 40, (3.0, 3.0)), [7] * 10 + [5] * 6 + [1]
    words, word_index = torch.randn(9, 40), torch.randint(0, 9, (17, 7))
    together, _ = read(stack, precision, words, word_index, lengths)
    start = 0
    for row, length in enumerate(lengths):
        alone, _ = read(stack, precision, words, word_index[row : row + 1], [length])
        assert torch.equal(alone, together[:, start : start + length])
        start += length


def test_weights_that_are_exact_in_16_bits_give_the_same_bits_from_them():
    """Single rows read such weights in 16 bits, many rows in 32; the sums must not differ."""
    stack = make_stack(1, 64, 32, (3.0, 3.0))
    for parameter in stack.parameters():
        parameter.copy_(parameter.half())
    words, word_index = torch.randn(4, 32), torch.randint(0, 4, (1, 6)).expand(13, 6)
    alone, _ = read(stack, "float32", words, word_index[:1], [6])
    together, _ = read(stack, "float32", words, word_index, [6] * 13)
    assert torch.equal(together[:, :6], alone)


def test_8_bits_stay_near_float32():
    stack, lengths = make_stack(2, 128, 64, (3.0, 3.0)), [8] * 5
    words, word_index = torch.randn(20, 64), torch.randint(0, 20, (5, 8))
    exact, _ = read(stack, "float32", words, word_index, lengths)
    rounded, _ = read(stack, "int8", words, word_index, lengths)
    assert not torch.equal(exact, rounded)
    assert torch.cosine_similarity(exact, rounded, dim=-1).mean(dim=1).min() > 0.999


def test_extreme_gates_saturate_without_nan():
    stack = make_stack(1, 20, 20, (None, None))
    stack.layers[0].bias.mul_(1e4)
    stack.layers[0].input_weight.mul_(1e6)
    words, word_index = torch.randn(5, 20), torch.randint(0, 5, (3, 9))
    found, _ = read(stack, "float32", words, word_index, [9, 9, 2])
    expected, _ = read(stack, "float32", words, word_index, [9, 9, 2], encoder=PackedLstm(stack, "float32"))
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
