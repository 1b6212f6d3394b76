"""Packed matrices against their NumPy equivalent."""

import numpy as np
import pytest

from elmo.kernels.library import KernelError
from elmo.kernels.matrix import NumpyMatrix, PackedMatrix, pack_matrix


@pytest.fixture
def draw():
    generator = np.random.default_rng(0)
    return lambda *shape: generator.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("num_rows", [0, 1, 2, 3, 4, 13, 25, 200])
@pytest.mark.parametrize(
    ("num_inputs", "num_outputs", "num_groups"), [(1, 1, 1), (7, 33, 1), (64, 128, 4), (50, 12, 3)]
)
def test_products_equal_those_of_numpy(library, draw, num_rows, num_inputs, num_outputs, num_groups, int8):
    weight, bias, inputs = draw(num_outputs, num_inputs), draw(num_outputs), draw(num_rows, num_inputs)
    product = PackedMatrix(library, weight, bias, num_groups=num_groups, int8=int8)(inputs)
    if int8 and library.input_levels != 127:
        pytest.skip("this variant rounds inputs to 7 bits")
    np.testing.assert_allclose(product, NumpyMatrix(weight, bias, int8=int8)(inputs), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("num_rows", [1, 3, 30])
def test_8_bits_round_each_row_by_its_own_scale(kernels, draw, num_rows):
    weight = draw(40, 70) * np.logspace(-3, 3, 40, dtype=np.float32)[:, None]
    inputs = draw(num_rows, 70) * np.logspace(-4, 4, num_rows, dtype=np.float32)[:, None]
    limit = 0.03 * np.linalg.norm(weight, axis=1) * np.linalg.norm(inputs, axis=1, keepdims=True)
    assert (np.abs(pack_matrix(weight, int8=True)(inputs) - inputs @ weight.T) <= limit).all()


def test_int8_does_not_overflow_with_the_largest_products(kernels):
    weight, inputs = np.ones((3, 4096), dtype=np.float32), np.ones((2, 4096), dtype=np.float32)
    for sign in (1, -1):
        for product in (
            pack_matrix(sign * weight, int8=True)(inputs),
            pack_matrix(weight, int8=True)(sign * inputs),
        ):
            np.testing.assert_allclose(product, np.full((2, 3), 4096.0 * sign), rtol=1e-5)


def test_zeros_stay_zeros_in_8_bits(kernels, draw):
    assert not pack_matrix(np.zeros((5, 9), dtype=np.float32), int8=True)(draw(2, 9)).any()
    assert not pack_matrix(draw(5, 9), int8=True)(np.zeros((2, 9), dtype=np.float32)).any()


@pytest.mark.parametrize(
    "inputs",
    [np.zeros((2, 8), dtype=np.float32), np.zeros((2, 9)), np.zeros(9, dtype=np.float32)],
    ids=["size", "dtype", "rank"],
)
def test_arrays_that_do_not_fit_are_refused_before_the_library_sees_them(library, draw, inputs):
    with pytest.raises(KernelError, match="inputs is"):
        PackedMatrix(library, draw(5, 9))(inputs)
