"""Packed matrices against plain multiplication."""

import pytest
import torch

from elmo.kernels.library import find_library
from elmo.kernels.matrix import PackedMatrix


@pytest.fixture
def library(kernels):
    found = find_library()
    if found is None:
        pytest.skip("plain torch is what the kernels are compared with")
    torch.manual_seed(0)
    return found


@pytest.mark.parametrize("num_rows", [0, 1, 2, 3, 4, 13, 25, 200])
@pytest.mark.parametrize(
    ("num_inputs", "num_outputs", "num_groups"), [(1, 1, 1), (7, 33, 1), (64, 128, 4), (50, 12, 3)]
)
def test_products_equal_torch(library, num_rows, num_inputs, num_outputs, num_groups):
    weight, bias = torch.randn(num_outputs, num_inputs), torch.randn(num_outputs)
    inputs = torch.randn(num_rows, num_inputs)
    found = PackedMatrix(library, weight, bias, num_groups=num_groups)(inputs)
    torch.testing.assert_close(found, inputs @ weight.t() + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("num_rows", [1, 3, 30])
def test_8_bits_round_each_row_by_its_own_scale(library, num_rows):
    weight = torch.randn(40, 70) * torch.logspace(-3, 3, 40)[:, None]
    inputs = torch.randn(num_rows, 70) * torch.logspace(-4, 4, num_rows)[:, None]
    expected = inputs @ weight.t()
    found = PackedMatrix(library, weight, int8=True)(inputs)
    limit = 0.03 * weight.norm(dim=1) * inputs.norm(dim=1, keepdim=True)
    assert ((found - expected).abs() <= limit).all()


def test_8_bits_do_not_overflow_where_every_product_is_as_large_as_can_be(library):
    weight, inputs = torch.ones(3, 4096), torch.ones(2, 4096)
    for sign in (1, -1):
        found = PackedMatrix(library, sign * weight, int8=True)(inputs)
        torch.testing.assert_close(found, torch.full((2, 3), 4096.0 * sign))
        found = PackedMatrix(library, weight, int8=True)(sign * inputs)
        torch.testing.assert_close(found, torch.full((2, 3), 4096.0 * sign))


def test_zeros_stay_zeros_in_8_bits(library):
    assert not PackedMatrix(library, torch.zeros(5, 9), int8=True)(torch.randn(2, 9)).any()
    assert not PackedMatrix(library, torch.randn(5, 9), int8=True)(torch.zeros(2, 9)).any()
