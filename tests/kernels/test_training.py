"""The compiled passes of a training step against their torch twins, and gradients with either."""

from functools import partial

import pytest
import torch

from elmo.kernels import lstm
from elmo.nn.char_cnn import CharCnn
from elmo.nn.projected_lstm import LstmStack, ProjectedLstm, _run_compiled, lstm_cell_backward, lstm_cell_forward

SHAPES = [(1, 1), (2, 7), (3, 16), (5, 33), (130, 64)]
# bfloat16: where the last bits differ, rounding may go to the neighbouring value
TOLERANCE = {torch.float32: {"rtol": 1e-5, "atol": 5e-6}, torch.bfloat16: {"rtol": 8e-3, "atol": 1e-6}}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize(("num_rows", "cell_dim"), SHAPES)
def test_forward_and_backward_equal_torch(library, num_rows, cell_dim, clip, dtype):
    from_inputs, from_state = (2 * torch.randn(2, num_rows, 4 * cell_dim)).to(dtype)
    bias, previous = torch.randn(4 * cell_dim), torch.randn(num_rows, cell_dim)
    keep = (torch.rand(num_rows) > 0.3).float()
    results = []
    for forward in (lstm_cell_forward, partial(_run_compiled, lstm.lstm_cell_forward, library)):
        gates, made = torch.empty(num_rows, 4 * cell_dim), [torch.empty(num_rows, cell_dim) for _ in range(2)]
        h = torch.empty(num_rows, cell_dim, dtype=dtype)
        forward(from_inputs, from_state, bias, previous, keep, clip, gates, *made, h)
        results.append([gates, *made, h])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[one.dtype])
    gates, cell, tanh_c, _ = results[0]
    grad_h, grad_cell = torch.randn(num_rows, cell_dim).to(dtype), torch.randn(num_rows, cell_dim)
    results = []
    for back in (lstm_cell_backward, partial(_run_compiled, lstm.lstm_cell_backward, library)):
        to_cell, to_gates = grad_cell.clone(), torch.empty(num_rows, 4 * cell_dim, dtype=dtype)
        to_bias = torch.ones(4 * cell_dim)
        back(gates, previous, keep, cell, tanh_c, grad_h, clip, to_cell, to_gates, to_bias)
        results.append([to_cell, to_gates, to_bias])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[one.dtype])


@pytest.mark.parametrize("filters", [((1, 1),), ((1, 3), (2, 16), (5, 37))])
def test_features_of_characters_and_their_gradients_equal_torch(kernels, monkeypatch, filters):
    torch.manual_seed(0)
    cnn = CharCnn(20, 6, filters, activation="relu", num_highways=1)
    char_ids = torch.randint(20, (40, 9))
    char_ids[::3, 4:] = 19  # padding at the end of a word
    char_ids[1] = 19
    weights = torch.randn(40, sum(channels for _, channels in filters))
    results = []
    for variant in (None, "off"):
        if variant is not None:
            monkeypatch.setenv("ELMO_KERNELS", variant)
        cnn.zero_grad()
        features = cnn(char_ids)
        (features * weights).sum().backward()
        results.append([features.detach(), *(parameter.grad for parameter in cnn.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("projected", [True, False])
def test_gradients_of_a_window_equal_those_of_autograd(kernels, projected):
    torch.manual_seed(0)
    dim = 6 if projected else 9
    layer = ProjectedLstm(dim, 9, dim, projected=projected, cell_clip=0.4, projection_clip=0.3, forget_bias=1.0)
    stack = LstmStack([layer], residual=False)
    inputs = torch.randn(5, 3, dim, requires_grad=True)
    state = stack.zero_state(3)
    state.cell.normal_(), state.hidden.normal_()
    keep = torch.ones(3, 5).t()  # not contiguous, as a stream's may be
    (*_, outputs), _ = stack.forward_window(inputs, keep, state)
    weights = torch.randn_like(outputs)
    (outputs * weights).sum().backward()
    found = [inputs.grad, *(parameter.grad for parameter in layer.parameters())]
    inputs.grad = None
    layer.zero_grad()
    plain, _ = layer(inputs, keep.contiguous(), state.hidden[0], state.cell[0], torch.float32)
    torch.testing.assert_close(outputs, plain, rtol=1e-5, atol=1e-6)
    (plain * weights).sum().backward()
    for one, other in zip(found, [inputs.grad, *(parameter.grad for parameter in layer.parameters())], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_row_that_starts_again_equals_a_row_from_zero(kernels):
    torch.manual_seed(0)
    layer = ProjectedLstm(6, 9, 6, projected=True, cell_clip=3.0, projection_clip=3.0, forget_bias=1.0)
    stack = LstmStack([layer], residual=False)
    inputs, keep = torch.randn(6, 3, 6), torch.ones(6, 3)
    keep[2, 1] = 0
    (*_, outputs), _ = stack.forward_window(inputs, keep, stack.zero_state(3))
    (*_, fresh), _ = stack.forward_window(inputs[2:], torch.ones(4, 3), stack.zero_state(3))
    torch.testing.assert_close(outputs[2:, 1], fresh[:, 1], rtol=0, atol=1e-6)
    assert not torch.allclose(outputs[2:, 0], fresh[:, 0])
