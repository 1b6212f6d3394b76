"""The softmax over the vocabulary, against NumPy."""

import numpy as np
import torch

from elmo.nn.softmax import WordSoftmax


def test_log_probabilities_match_numpy_for_states_of_any_shape():
    torch.manual_seed(0)
    softmax = WordSoftmax(4, 9).double()
    with torch.no_grad():
        softmax.bias.normal_()
    states = torch.randn(2, 3, 4, dtype=torch.float64)
    result = softmax(states)
    logits = states.numpy() @ softmax.weight.detach().numpy().T + softmax.bias.detach().numpy()
    expected = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    assert result.shape == (2, 3, 9)
    np.testing.assert_allclose(result.detach(), expected, atol=1e-12)
    np.testing.assert_allclose(result.detach().exp().sum(dim=-1), 1.0)


def test_huge_states_give_finite_log_probabilities():
    torch.manual_seed(0)
    assert torch.isfinite(WordSoftmax(4, 9)(torch.full((1, 4), 1e4))).all()


def test_weights_and_biases_both_learn():
    torch.manual_seed(0)
    softmax = WordSoftmax(4, 9)
    softmax(torch.randn(5, 4))[:, 2].sum().backward()
    assert softmax.weight.grad.abs().sum() > 0
    assert softmax.bias.grad.abs().min() > 0


def test_initial_weights_are_scaled_by_the_size_of_a_state():
    torch.manual_seed(0)
    softmax = WordSoftmax(64, 5000)
    assert abs(softmax.weight.std().item() - 64**-0.5) < 1e-3
    assert not softmax.bias.any()
