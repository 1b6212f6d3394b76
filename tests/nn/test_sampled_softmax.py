"""Sampled losses: exact if all words are sampled, unbiased otherwise."""

import math

import numpy as np
import pytest
import torch

from elmo.nn import softmax as softmax_module
from elmo.nn.softmax import NegativeSamples, WordSoftmax


def draw(num_samples, num_words, seed=0):
    return NegativeSamples(num_samples, num_words, torch.Generator().manual_seed(seed))


def test_samples_are_distinct_and_the_same_for_the_same_seed():
    samples = draw(50, 200)
    assert len(set(samples.words.tolist())) == 50 and samples.words.max() < 200
    assert torch.equal(samples.words, draw(50, 200).words)
    assert not torch.equal(samples.words, draw(50, 200, seed=1).words)


def test_frequent_words_are_drawn_log_uniformly():
    counts = np.zeros(100)
    for seed in range(4000):
        counts[draw(1, 100, seed).words.item()] += 1
    expected = [math.log((rank + 2) / (rank + 1)) / math.log(101) for rank in range(100)]
    np.testing.assert_allclose(counts[:5] / 4000, expected[:5], atol=0.025)


def test_the_expected_count_is_the_chance_to_be_among_the_samples():
    samples = [draw(20, 60, seed) for seed in range(2000)]
    actual = np.mean([[word in set(sample.words.tolist()) for word in (0, 5, 30)] for sample in samples], axis=0)
    stated = np.mean([sample.log_expected_count(torch.tensor([0, 5, 30])).exp().numpy() for sample in samples], axis=0)
    np.testing.assert_allclose(actual, stated, atol=0.04)


def test_with_every_word_drawn_the_sampled_loss_is_the_full_one():
    torch.manual_seed(0)
    softmax = WordSoftmax(6, 30)
    softmax.bias.data.normal_()
    states, targets = torch.randn(11, 6), torch.randint(30, (11,))
    samples = draw(30, 30)
    # All words are certain to be drawn, so nothing is to be corrected.
    samples.log_expected_count = lambda words: torch.zeros(len(words))
    torch.testing.assert_close(softmax.sampled_loss(states, targets, samples), softmax.loss(states, targets))


def test_a_sampled_word_that_is_the_target_does_not_count_against_it():
    softmax = WordSoftmax(2, 5)
    samples = draw(1, 5)
    states, targets = torch.randn(1, 2), samples.words
    assert softmax.sampled_loss(states, targets, samples).item() == pytest.approx(0, abs=1e-6)


def test_only_rows_of_samples_and_targets_get_a_gradient():
    softmax = WordSoftmax(4, 50)
    samples = draw(5, 50)
    targets = torch.tensor([40, 41])
    softmax.sampled_loss(torch.randn(2, 4), targets, samples).backward()
    touched = set(softmax.weight.grad.abs().sum(1).nonzero().flatten().tolist())
    assert touched <= {*samples.words.tolist(), 40, 41} and {40, 41} <= touched


def plain_sampled_loss(softmax, states, targets, samples):
    """The same loss by ordinary operations, all its logits at once."""
    corrected = softmax.bias[samples.words] - samples.log_expected_count(samples.words)
    logits = states @ softmax.weight[samples.words].t() + corrected
    logits = logits.masked_fill(targets[:, None] == samples.words, float("-inf"))
    of_targets = (states * softmax.weight[targets]).sum(1) + softmax.bias[targets]
    of_targets = (of_targets - samples.log_expected_count(targets))[:, None]
    return -torch.log_softmax(torch.cat([of_targets, logits], dim=1), dim=1)[:, 0].sum()


@pytest.mark.parametrize("logits_at_once", [1, 40, 2**20])
@pytest.mark.parametrize("sparse", [False, True])
def test_loss_and_gradients_are_those_of_ordinary_operations(monkeypatch, logits_at_once, sparse):
    monkeypatch.setattr(softmax_module, "LOGITS_AT_ONCE", logits_at_once)
    torch.manual_seed(0)
    softmax = WordSoftmax(6, 30)
    softmax.bias.data.normal_()
    softmax.sparse_gradient = sparse
    samples, targets = draw(12, 30), torch.randint(30, (17,))
    assert len(samples.hits(targets)[0])
    states = torch.randn(17, 6, requires_grad=True)
    leaves = [states, softmax.weight, softmax.bias]
    expected_loss = plain_sampled_loss(softmax, states, targets, samples)
    expected = torch.autograd.grad(2.5 * expected_loss, leaves)
    loss = softmax.sampled_loss(states, targets, samples)
    actual = torch.autograd.grad(2.5 * loss, leaves)
    torch.testing.assert_close(loss, expected_loss)
    assert actual[1].is_sparse == sparse
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.to_dense(), other)


def test_bfloat16_states_give_nearly_the_same_loss():
    torch.manual_seed(0)
    softmax = WordSoftmax(16, 50)
    samples, targets, states = draw(20, 50), torch.randint(50, (9,)), torch.randn(9, 16, requires_grad=True)
    exact = softmax.sampled_loss(states, targets, samples)
    rounded = softmax.sampled_loss(states.bfloat16(), targets, samples)
    torch.testing.assert_close(rounded, exact, rtol=0.01, atol=0.05)
    (gradient,) = torch.autograd.grad(exact, states)
    (rounded_gradient,) = torch.autograd.grad(rounded, states)
    torch.testing.assert_close(rounded_gradient, gradient, rtol=0.05, atol=0.05)
