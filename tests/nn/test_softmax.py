"""The softmax over the vocabulary, against NumPy."""

import numpy as np
import torch

from elmo.nn.softmax import WordSoftmax


def test_the_loss_is_the_negative_log_probability_of_the_targets():
    torch.manual_seed(0)
    softmax = WordSoftmax(4, 9).double()
    with torch.no_grad():
        softmax.bias.normal_()
    states, targets = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 3, 8, 3, 1])
    logits = states.numpy() @ softmax.weight.detach().numpy().T + softmax.bias.detach().numpy()
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    loss = softmax.loss(states, targets).item()
    np.testing.assert_allclose(loss, -log_probabilities[range(5), targets.numpy()].sum(), atol=1e-12)


def test_huge_states_have_a_finite_loss():
    torch.manual_seed(0)
    assert torch.isfinite(WordSoftmax(4, 9).loss(torch.full((1, 4), 1e4), torch.tensor([2])))


def test_initial_weights_are_scaled_by_the_size_of_a_state():
    torch.manual_seed(0)
    softmax = WordSoftmax(64, 5000)
    assert abs(softmax.weight.std().item() - 64**-0.5) < 1e-3
    assert not softmax.bias.any()
