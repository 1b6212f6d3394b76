"""The values of `layers`, and errors for others."""

import re

import numpy as np
import pytest
import torch

from elmo.errors import InputError
from elmo.inference.layers import choose_layers

LAYERS = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))  # three layers of four words


def chosen(layers):
    choice = choose_layers(layers, 3)
    mixed = torch.einsum("kl,lnd->nkd", torch.from_numpy(choice.matrix), LAYERS)
    assert mixed.shape == (4, len(choice.matrix), 5)
    return torch.from_numpy(choice.lay_out(mixed.numpy()))


def test_average_is_the_mean_of_all_layers():
    torch.testing.assert_close(chosen("average"), (LAYERS[0] + LAYERS[1] + LAYERS[2]) / 3)


def test_top_is_the_last_layer():
    assert torch.equal(chosen("top"), LAYERS[2])


def test_all_keeps_the_layers_first():
    assert torch.equal(chosen("all"), LAYERS)


def test_concat_puts_layers_side_by_side_from_the_lowest():
    assert torch.equal(chosen("concat"), torch.cat([LAYERS[0], LAYERS[1], LAYERS[2]], dim=-1))


@pytest.mark.parametrize("number", [0, 1, 2, -1, -3, np.int64(1)])
def test_a_number_is_one_layer(number):
    assert torch.equal(chosen(number), LAYERS[number])


@pytest.mark.parametrize("weights", [[0.5, -1, 2], (0.5, -1.0, 2.0), np.array([0.5, -1, 2])])
def test_weights_are_a_plain_weighted_sum(weights):
    torch.testing.assert_close(chosen(weights), 0.5 * LAYERS[0] - LAYERS[1] + 2 * LAYERS[2])


def test_weights_of_zero_give_zeros_and_leave_the_layers_as_they_are():
    before = LAYERS.clone()
    assert torch.equal(chosen([0, 0, 0]), torch.zeros(4, 5))
    chosen([1, 1, 0])
    assert torch.equal(LAYERS, before)


@pytest.mark.parametrize("layers", ["last", "", 3, -4, True, 1.5, None, {"a": 1}])
def test_anything_else_is_refused(layers):
    message = f"layers is {layers!r}; choose 'auto', 'average', "
    with pytest.raises(InputError, match="^" + re.escape(message) + ".* a number from 0 to 2, or 3 weights"):
        choose_layers(layers, 3)


@pytest.mark.parametrize(
    "weights", [[1, 2], [], [[1.0, 2.0, 3.0]] * 3, ["a", "b", "c"], [1, None, 2], [[1], [1, 2]], [1, 2, float("inf")]]
)
def test_weights_must_be_one_number_for_each_layer(weights):
    message = f"layers is {weights!r:.60}; give one finite number for each of the 3 layers."
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        choose_layers(weights, 3)
