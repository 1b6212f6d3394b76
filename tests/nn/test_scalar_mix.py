"""γ · Σ softmax(w)_j · h_j, against NumPy."""

import numpy as np
import pytest
import torch

from elmo import ConfigError, ScalarMix

W = [0.3, -1.2, 2.0]


@pytest.fixture
def states():
    generator = torch.Generator().manual_seed(0)
    layers = torch.randn(3, 2, 4, 6, generator=generator) * 3 + 1
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    return layers * mask[..., None], mask


def make(*, gamma, **settings):
    mix = ScalarMix(3, weights=W, **settings)
    with torch.no_grad():
        mix.gamma.fill_(gamma)
    return mix


def softmax(values):
    return np.exp(values) / np.exp(values).sum()


def test_the_mix_is_the_formula(states):
    layers, mask = states
    mixed = make(gamma=0.7)(layers, mask)
    expected = 0.7 * sum(s * layer for s, layer in zip(softmax(np.array(W)), layers.numpy(), strict=True))
    np.testing.assert_allclose(mixed.detach(), expected, rtol=1e-5, atol=1e-6)


def test_a_new_mix_is_the_mean_of_the_layers(states):
    layers, mask = states
    torch.testing.assert_close(ScalarMix(3)(layers, mask), layers.mean(dim=0))
    torch.testing.assert_close(ScalarMix(3).normalized_weights(), torch.full((3,), 1 / 3))


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3])
def test_layer_norm_takes_one_mean_and_variance_a_layer_over_real_positions(states, epsilon):
    layers, mask = states
    mix = make(gamma=2.0, layer_norm=True)
    mix.epsilon = epsilon
    mixed = mix(layers, mask).detach()
    expected = np.zeros((2, 4, 6))
    for s, layer in zip(softmax(np.array(W)), layers.numpy().astype(np.float64), strict=True):
        real = layer[mask.numpy()]
        expected += 2.0 * s * (layer - real.mean()) / np.sqrt(real.var() + epsilon)
    np.testing.assert_allclose(mixed.numpy()[mask.numpy()], expected[mask.numpy()], rtol=1e-4, atol=1e-5)


def test_layer_norm_ignores_padding(states):
    layers, mask = states
    mix = ScalarMix(3, layer_norm=True)
    clean = mix(layers, mask)[mask]
    dirty = mix(layers + 100 * ~mask[..., None], mask)[mask]
    torch.testing.assert_close(dirty, clean)


def test_layer_norm_of_nothing_real_is_finite():
    mix = ScalarMix(3, layer_norm=True)
    assert torch.isfinite(mix(torch.zeros(3, 1, 0, 6), torch.zeros(1, 0, dtype=torch.bool))).all()
    assert torch.isfinite(mix(torch.zeros(3, 1, 2, 6), torch.zeros(1, 2, dtype=torch.bool))).all()


def test_the_penalty_is_on_the_raw_weights_alone():
    mix = make(gamma=5.0)
    penalty = mix.squared_norm()
    assert penalty.item() == pytest.approx(0.3**2 + 1.2**2 + 2.0**2)
    penalty.backward()
    torch.testing.assert_close(mix.weights.grad, 2 * torch.tensor(W))
    assert mix.gamma.grad is None


def test_weights_are_one_tensor_and_both_parameters_learn(states):
    mix = ScalarMix(3)
    assert {name: tuple(value.shape) for name, value in mix.named_parameters()} == {"weights": (3,), "gamma": ()}
    mix(*states).square().sum().backward()
    assert mix.weights.grad.abs().min() > 0
    assert mix.gamma.grad != 0


def test_a_mix_that_does_not_learn_has_no_gradient(states):
    mix = make(gamma=0.5, learned=False)
    assert not any(parameter.requires_grad for parameter in mix.parameters())
    assert not mix(*states).requires_grad
    assert set(mix.state_dict()) == {"weights", "gamma"}


def test_a_wrong_number_of_weights_is_refused():
    with pytest.raises(ConfigError, match="^2 mixing weights were given for 3 layers"):
        ScalarMix(3, weights=[1.0, 2.0])
