"""The sentence head: a vector depends on its own sentence only, and NumPy agrees with torch."""

import numpy as np
import pytest
import torch

from elmo.inference.sentence import SentenceEncoder
from elmo.nn.sentence_head import SentenceHead


def make(static_dim, lengths, seed=0):
    torch.manual_seed(seed)
    head = SentenceHead(num_layers=3, input_dim=8, static_dim=static_dim, output_dim=5, num_heads=2)
    with torch.no_grad():
        head.layer_weights.copy_(torch.randn(3))
        head.queries.mul_(20)
    num_words = sum(lengths)
    return head, torch.randn(3, num_words, 8), torch.randn(num_words, static_dim), torch.rand(num_words)


@pytest.mark.parametrize("static_dim", [0, 6])
def test_numpy_agrees_with_torch(static_dim):
    lengths = [4, 1, 7, 2]
    head, layers, static, weights = make(static_dim, lengths)
    with torch.no_grad():
        expected = head(layers, static, weights, torch.tensor(lengths)).numpy()
    encoder = SentenceEncoder({name: tensor.numpy() for name, tensor in head.state_dict().items()})
    assert encoder.dim == 5 and encoder.static_dim == static_dim
    ends = np.cumsum(lengths)
    spans = [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    sentences = [
        ([layers.numpy()[:, span] for span in spans]),
        [static.numpy()[span] for span in spans],
        [weights.numpy()[span] for span in spans],
    ]
    vectors = np.stack([encoder.encode(*sentence) for sentence in zip(*sentences, strict=True)])
    np.testing.assert_allclose(vectors, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    alone = encoder.encode(*(values[2] for values in sentences))
    assert np.array_equal(alone, vectors[2])  # bit for bit
    empty = encoder.encode(
        np.zeros((3, 0, 8), np.float32), np.zeros((0, static_dim), np.float32), np.zeros(0, np.float32)
    )
    assert not empty.any()


def test_every_weight_has_a_gradient():
    head, layers, static, weights = make(4, [3, 2])
    head(layers, static, weights, torch.tensor([3, 2])).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in head.parameters())
