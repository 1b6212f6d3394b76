"""Characters to features, against NumPy loops over every position."""

import numpy as np
import pytest
import torch

from elmo.nn.char_cnn import CharCnn, Highway

FILTERS = ((1, 3), (2, 4), (5, 2))
ACTIVATE = {"relu": lambda values: np.maximum(values, 0), "tanh": np.tanh}


@pytest.fixture(params=["relu", "tanh"])
def cnn(request):
    torch.manual_seed(0)
    return CharCnn(20, 6, FILTERS, activation=request.param, num_highways=2).double()


def to_numpy(module):
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def numpy_highway(values, weights, prefix):
    def linear(name):
        return values @ weights[f"{prefix}{name}.weight"].T + weights[f"{prefix}{name}.bias"]

    carry = 1 / (1 + np.exp(-linear("gate")))
    return carry * np.maximum(linear("transform"), 0) + (1 - carry) * values


def numpy_features(cnn, activation, char_ids):
    weights = to_numpy(cnn)
    characters = weights["embedding.weight"][char_ids]  # (C, d)
    pooled = []
    for number, (width, channels) in enumerate(FILTERS):
        kernel, bias = weights[f"convolutions.{number}.weight"], weights[f"convolutions.{number}.bias"]
        for channel in range(channels):
            at_positions = [
                sum(kernel[channel, :, k] @ characters[start + k] for k in range(width)) + bias[channel]
                for start in range(len(char_ids) - width + 1)
            ]
            pooled.append(max(at_positions))
    features = ACTIVATE[activation](np.array(pooled))
    for number in range(2):
        features = numpy_highway(features, weights, f"highways.{number}.")
    return features


def test_features_match_numpy_for_every_word(cnn):
    activation = "relu" if cnn.activation is torch.relu else "tanh"
    char_ids = np.random.default_rng(0).integers(0, 20, size=(7, 9))
    with torch.no_grad():
        features = cnn(torch.tensor(char_ids)).numpy()
    assert features.shape == (7, 9)  # 3 + 4 + 2 channels
    for row, ids in zip(features, char_ids, strict=True):
        np.testing.assert_allclose(row, numpy_features(cnn, activation, ids), atol=1e-12)


def test_padding_inside_a_word_has_a_learned_embedding_that_counts(cnn):
    char_ids = torch.tensor([[3, 4, 19, 19, 19, 19]])
    before = cnn(char_ids)
    with torch.no_grad():
        cnn.embedding.weight[19] += 5.0
    assert not torch.allclose(cnn(char_ids), before)
    cnn(char_ids).sum().backward()
    assert cnn.embedding.weight.grad[19].abs().sum() > 0


def test_a_word_does_not_depend_on_other_words(cnn):
    char_ids = torch.randint(20, (5, 8), generator=torch.Generator().manual_seed(0))
    together = cnn(char_ids)
    for number in range(5):
        torch.testing.assert_close(cnn(char_ids[number : number + 1])[0], together[number])


def test_a_highway_with_a_shut_gate_carries_its_input_and_with_an_open_one_the_transform():
    torch.manual_seed(0)
    highway = Highway(4)
    inputs = torch.randn(3, 4)
    with torch.no_grad():
        highway.gate.weight.zero_()
        highway.gate.bias.fill_(-200.0)
        torch.testing.assert_close(highway(inputs), inputs)
        highway.gate.bias.fill_(200.0)
        torch.testing.assert_close(highway(inputs), torch.relu(highway.transform(inputs)))


def test_without_highways_the_features_are_the_pooled_activations():
    cnn = CharCnn(10, 2, [(1, 3)], activation="relu", num_highways=0)
    assert len(cnn.highways) == 0
    assert (cnn(torch.arange(10)[None]) >= 0).all()
