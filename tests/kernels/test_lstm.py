"""The compiled LSTM against its NumPy equivalent and the torch modules, on random shapes."""

import numpy as np
import pytest
import torch

from elmo.kernels.library import KernelError
from elmo.kernels.lstm import CompiledStack, LayerWeights, LstmState, NumpyStack, Window
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


@pytest.fixture
def draw():
    return np.random.default_rng(0)


def make_layers(draw, num_layers, cell_dim, output_dim, clips, scale=0.3):
    dim = output_dim or cell_dim

    def normal(*shape):
        return (scale * draw.normal(size=shape)).astype(np.float32)

    return [
        LayerWeights(
            normal(4 * cell_dim, dim),
            normal(4 * cell_dim, dim),
            normal(4 * cell_dim),
            normal(dim, cell_dim) if output_dim else None,
            *clips,
        )
        for _ in range(num_layers)
    ]


def run(stack, words, word_index, lengths, state=None):
    """Return all layers (N, L+1, D), row after row, and the state."""
    counts = np.array([sum(length > step for length in lengths) for step in range(max(lengths))])
    rows = np.concatenate([np.arange(count) for count in counts])
    steps = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(lengths) - lengths
    result = np.full((sum(lengths), stack.num_layers + 1, 1, words.shape[1]), np.nan, dtype=np.float32)
    weights = np.eye(stack.num_layers + 1, dtype=np.float32)
    window = Window(words, word_index[rows, steps], starts[rows] + steps, counts, weights, result, 0)
    return result[:, :, 0], stack.forward(window, state)


def draw_state(draw, num_layers, num_rows, stack):
    return LstmState(
        *(
            draw.normal(size=(num_layers, num_rows, dim)).astype(np.float32)
            for dim in (stack.output_dim, stack.cell_dim)
        )
    )


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize(("num_layers", "cell_dim", "output_dim", "clips", "lengths"), SHAPES)
def test_compiled_layers_equal_the_numpy_layers(
    library, draw, num_layers, cell_dim, output_dim, clips, lengths, carried
):
    layers = make_layers(draw, num_layers, cell_dim, output_dim, clips)
    reference = NumpyStack(layers, residual=True, int8=False)
    compiled = CompiledStack(library, layers, residual=True, int8=False)
    words = draw.normal(size=(6, output_dim or cell_dim)).astype(np.float32)
    word_index = draw.integers(0, 6, (len(lengths), max(lengths)))
    state = draw_state(draw, num_layers, len(lengths) + 1, reference) if carried else None
    expected, end = run(reference, words, word_index, lengths, state)
    vectors, final = run(compiled, words, word_index, lengths, state)
    np.testing.assert_allclose(vectors, expected, rtol=1e-4, atol=3e-5)
    np.testing.assert_allclose(final.hidden, end.hidden, rtol=1e-4, atol=3e-5)
    np.testing.assert_allclose(final.cell[:, : len(lengths)], end.cell[:, : len(lengths)], rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize(("num_layers", "cell_dim", "output_dim", "clips", "lengths"), SHAPES)
def test_the_numpy_layers_equal_the_module(num_layers, cell_dim, output_dim, clips, lengths):
    torch.manual_seed(0)
    dim = output_dim or cell_dim
    options = {"projected": output_dim > 0, "cell_clip": clips[0], "projection_clip": clips[1], "forget_bias": 0.0}
    stack = LstmStack([ProjectedLstm(dim, cell_dim, dim, **options) for _ in range(num_layers)], residual=True)
    layers = [
        LayerWeights(
            *(weight.detach().numpy() for weight in (layer.input_weight, layer.state_weight, layer.bias)),
            None if layer.projection_weight is None else layer.projection_weight.detach().numpy(),
            *clips,
        )
        for layer in stack.layers
    ]
    words, word_index = torch.randn(6, dim), torch.randint(0, 6, (len(lengths), max(lengths)))
    with torch.no_grad():
        expected, end = stack(words[word_index], stack.zero_state(len(lengths)), lengths=torch.tensor(lengths))
    reference = NumpyStack(layers, residual=True, int8=False)
    vectors, final = run(reference, words.numpy(), word_index.numpy(), lengths)
    for number, layer in enumerate(expected, start=1):
        real = torch.cat([layer[row, :length] for row, length in enumerate(lengths)])
        np.testing.assert_allclose(vectors[:, number], real, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(final.hidden, end.hidden, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(final.cell, end.cell, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("int8", [False, True])
def test_a_row_has_the_same_bits_alone_and_among_others(library, draw, int8):
    stack = CompiledStack(library, make_layers(draw, 2, 70, 40, (3.0, 3.0)), residual=True, int8=int8)
    lengths, words = [7] * 10 + [5] * 6 + [1], draw.normal(size=(9, 40)).astype(np.float32)
    word_index = draw.integers(0, 9, (17, 7))
    together, _ = run(stack, words, word_index, lengths)
    start = 0
    for row, length in enumerate(lengths):
        alone, _ = run(stack, words, word_index[row : row + 1], [length])
        np.testing.assert_array_equal(alone, together[start : start + length])
        start += length


def test_weights_that_are_exact_in_16_bits_give_the_same_bits_from_them(library, draw):
    """Single rows read such weights in 16 bits, many rows in 32; the sums must not differ."""
    (layer,) = make_layers(draw, 1, 64, 32, (3.0, 3.0))
    halves = [
        weight.astype(np.float16).astype(np.float32)
        for weight in (layer.input_weight, layer.state_weight, layer.bias, layer.projection_weight)
    ]
    stack = CompiledStack(library, [LayerWeights(*halves, 3.0, 3.0)], residual=True, int8=False)
    words = draw.normal(size=(4, 32)).astype(np.float32)
    word_index = np.repeat(draw.integers(0, 4, (1, 6)), 13, axis=0)
    alone, _ = run(stack, words, word_index[:1], [6])
    together, _ = run(stack, words, word_index, [6] * 13)
    np.testing.assert_array_equal(together[:6], alone)


def test_extreme_gates_saturate_without_nan(library, draw):
    layers = make_layers(draw, 1, 20, 20, (None, None), scale=1e4)
    words = draw.normal(size=(5, 20)).astype(np.float32)
    word_index = draw.integers(0, 5, (3, 9))
    results = [
        run(stack, words, word_index, [9, 9, 2])[0]
        for stack in (
            CompiledStack(library, layers, residual=True, int8=False),
            NumpyStack(layers, residual=True, int8=False),
        )
    ]
    assert np.isfinite(results[0]).all()
    np.testing.assert_allclose(*results, rtol=1e-3, atol=1e-3)


def test_windows_that_do_not_fit_are_refused(library, draw):
    stack = CompiledStack(library, make_layers(draw, 1, 8, 4, (None, None)), residual=True, int8=False)
    words = draw.normal(size=(3, 5)).astype(np.float32)
    with pytest.raises(KernelError):
        run(stack, words, np.zeros((1, 2), dtype=np.int64), [2])
    with pytest.raises(KernelError, match="sources is int32"):
        run(stack, words[:, :4].copy(), np.zeros((1, 2), dtype=np.int32), [2])
