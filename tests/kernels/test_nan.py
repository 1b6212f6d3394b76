"""NaN and infinity propagate through every kernel as in NumPy."""

import numpy as np
import pytest
import torch

from elmo.kernels.characters import CharNetwork, CharWeights, CompiledCharNetwork
from elmo.kernels.lstm import CompiledStack, LayerWeights, NumpyStack, Window
from elmo.kernels.matrix import NumpyMatrix, PackedMatrix
from elmo.nn.kernels import lstm_cell_backward, lstm_cell_forward

STRANGE = [np.nan, np.inf, -np.inf]
pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def draw(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def assert_alike(actual, expected):
    """Compare as numbers, where NaN equals NaN and infinity itself."""
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("num_rows", [1, 2, 13])
def test_products(library, rng, strange, num_rows):
    weight, bias, inputs = draw(rng, 37, 19), draw(rng, 37), draw(rng, num_rows, 19)
    inputs[num_rows // 2, 7] = strange
    weight[11, 3] = bias[5] = strange
    assert_alike(PackedMatrix(library, weight, bias)(inputs), NumpyMatrix(weight, bias)(inputs))


@pytest.mark.parametrize("strange", STRANGE)
def test_a_row_that_8_bits_cannot_hold_becomes_nan_and_the_others_stay(library, rng, strange):
    weight, inputs = draw(rng, 37, 19), draw(rng, 13, 19)
    packed = PackedMatrix(library, weight, int8=True)
    expected = packed(inputs)
    inputs[4, 7] = strange
    actual = packed(inputs)
    assert np.isnan(actual[4]).all()
    np.testing.assert_array_equal(np.delete(actual, 4, axis=0), np.delete(expected, 4, axis=0))


def forward(make_stack, words, cell_clip, rng_seed=0):
    rng = np.random.default_rng(rng_seed)
    layers = [
        LayerWeights(draw(rng, 84, 10), draw(rng, 84, 10), draw(rng, 84), draw(rng, 10, 21), cell_clip, 3.0)
        for _ in range(2)
    ]
    counts = np.array([4, 4, 2], dtype=np.int64)
    sources, targets = np.arange(10) % len(words), np.arange(10)
    result = np.empty((10, 3, 1, 10), dtype=np.float32)
    weights = np.eye(3, dtype=np.float32)
    state = make_stack(layers).forward(Window(words, sources, targets, counts, weights, result, 0), None)
    return result[:, :, 0], state.hidden, state.cell


@pytest.mark.parametrize("cell_clip", [None, 3.0])
@pytest.mark.parametrize("strange", STRANGE)
def test_words_of_an_lstm(library, rng, strange, cell_clip):
    words = draw(rng, 5, 10)
    words[2, 4] = strange
    actual = forward(lambda layers: CompiledStack(library, layers, residual=True, int8=False), words, cell_clip)
    expected = forward(lambda layers: NumpyStack(layers, residual=True, int8=False), words, cell_clip)
    for one, other in zip(actual, expected, strict=True):
        assert np.isnan(one).any() == np.isnan(other).any()
        assert_alike(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gates_of_a_training_step(library, dtype):
    num_rows, cell_dim = 3, 19
    changed = [2, cell_dim + 3, 2 * cell_dim + 4, 3 * cell_dim + 5]
    from_inputs = torch.zeros(num_rows, 4 * cell_dim, dtype=dtype)
    from_inputs[1, changed], from_inputs[2, changed] = np.nan, np.inf
    previous, keep, gates = torch.ones(num_rows, cell_dim), torch.ones(num_rows), torch.empty(num_rows, 4 * cell_dim)
    cell, tanh_c, h = torch.empty_like(previous), torch.empty_like(previous), torch.empty_like(previous, dtype=dtype)
    lstm_cell_forward(
        library, from_inputs, torch.zeros_like(from_inputs), torch.zeros(4 * cell_dim), previous, keep, 3.0,
        gates, cell, tanh_c, h,
    )  # fmt: skip
    assert gates.isnan().sum() == 4 and gates[1].isnan().sum() == 4
    assert cell[1].isnan().nonzero().flatten().tolist() == [2, 3, 4]
    assert tanh_c[1].isnan().nonzero().flatten().tolist() == [2, 3, 4]
    assert h[1].isnan().nonzero().flatten().tolist() == [2, 3, 4, 5]
    np.testing.assert_allclose(gates[2, changed], 1.0, rtol=1e-6)
    grad_cell, grad_gates, grad_bias = torch.ones_like(cell), torch.empty_like(from_inputs), torch.zeros(4 * cell_dim)
    lstm_cell_backward(
        library, gates, previous, keep, cell, tanh_c, torch.zeros_like(h), 3.0, grad_cell, grad_gates, grad_bias
    )
    assert grad_cell[1, 2:5].isnan().all() and grad_cell[[0, 2]].isfinite().all()
    assert grad_bias.isnan().any()


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_characters(library, rng, activation):
    filters = [draw(rng, 5, 4, 1), draw(rng, 21, 4, 3)]
    embedding = draw(rng, 9, 4)
    embedding[3, 1] = np.nan
    weights = CharWeights(
        embedding=embedding,
        filters=filters,
        bias=draw(rng, 26),
        is_tanh=activation == "tanh",
        highways=[(draw(rng, 52, 26), draw(rng, 52))],
        projection=(draw(rng, 7, 26), draw(rng, 7)),
    )
    char_ids = rng.integers(0, 9, (30, 6))
    actual, expected = (
        network(char_ids)
        for network in (CompiledCharNetwork(library, weights, int8=False), CharNetwork(weights, int8=False))
    )
    assert np.isnan(expected).any() and np.isfinite(expected).any()
    assert_alike(actual, expected)
