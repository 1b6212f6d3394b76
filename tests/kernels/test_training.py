"""Compiled forward and backward passes against torch operations, values and gradients."""

import pytest
import torch

from elmo.nn.char_cnn import CharCnn
from elmo.nn.projected_lstm import LstmStack, ProjectedLstm

SHAPES = [(1, 1), (2, 7), (3, 16), (5, 33), (130, 64)]
# bfloat16: where the last bits differ, rounding may go to the neighboring value, and beyond a limit
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def run_with_gradients(run, layer, *given, dtype):
    """Values and every gradient of a fixed product with them."""
    leaves = [tensor.clone().requires_grad_() for tensor in given[:1] + given[2:]]
    with torch.autocast("cpu", dtype, enabled=dtype == torch.bfloat16):
        results = run(leaves[0], given[1], *leaves[1:])
    loss = sum((values * torch.linspace(-1, 1, values.numel()).view_as(values)).sum() for values in results)
    return [*results, *torch.autograd.grad(loss, [*leaves, *layer.parameters()])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize(("num_rows", "cell_dim"), SHAPES)
def test_values_and_gradients_equal_those_of_torch(library, monkeypatch, num_rows, cell_dim, clip, dtype, projected):
    monkeypatch.setattr("elmo.nn.projected_lstm.find_library", lambda: library)
    dim = 6 if projected else cell_dim
    layer = ProjectedLstm(
        dim, cell_dim, dim, projected=projected, cell_clip=clip, projection_clip=clip, forget_bias=1.0
    )
    keep = (torch.rand(3, num_rows) > 0.3).float()
    state = torch.randn(num_rows, dim), torch.randn(num_rows, cell_dim)
    given = torch.randn(3, num_rows, dim), keep, *state
    compiled = run_with_gradients(layer, layer, *given, dtype=dtype)
    plain = run_with_gradients(layer._forward_steps, layer, *given, dtype=dtype)
    for one, other in zip(compiled, plain, strict=True):
        assert torch.linalg.vector_norm(one - other) <= TOLERANCE[dtype] * (1e-3 + torch.linalg.vector_norm(other))


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


def test_a_row_that_starts_again_equals_a_row_from_zero(kernels):
    torch.manual_seed(0)
    layer = ProjectedLstm(6, 9, 6, projected=True, cell_clip=3.0, projection_clip=3.0, forget_bias=1.0)
    stack = LstmStack([layer], residual=False)
    inputs, keep = torch.randn(3, 6, 6), torch.ones(3, 6)
    keep[1, 2] = 0
    (*_, outputs), _ = stack(inputs, stack.zero_state(3), keep=keep)
    (*_, fresh), _ = stack(inputs[:, 2:], stack.zero_state(3))
    torch.testing.assert_close(outputs[1, 2:], fresh[1], rtol=0, atol=1e-6)
    assert not torch.allclose(outputs[0, 2:], fresh[0])
