"""Rows in int8 with one scale per row."""

import numpy as np

from elmo.kernels.int8 import quantize_rows


def test_the_largest_number_of_each_row_is_exact_and_the_others_are_near():
    rows = np.random.default_rng(0).normal(size=(3, 4, 50)).astype(np.float32) * 10.0 ** np.arange(-2, 2)[:, None]
    quantized, scales = quantize_rows(rows)
    assert quantized.dtype == np.int8 and scales.dtype == np.float32 and scales.shape == (3, 4)
    assert (np.abs(quantized.astype(int)).max(axis=-1) == 127).all()
    assert (np.abs(quantized * scales[..., None] - rows) <= 0.5001 * scales[..., None]).all()


def test_halves_are_rounded_to_even():
    quantized, scales = quantize_rows(np.array([[127.0, 0.5, 1.5, -2.5]]))
    assert quantized.tolist() == [[127, 0, 2, -2]] and scales.tolist() == [1.0]


def test_zeros_and_empty_rows_have_a_scale_above_zero():
    for rows in (np.zeros((2, 3), np.float32), np.zeros((2, 0), np.float32)):
        quantized, scales = quantize_rows(rows)
        assert not quantized.any() and (scales > 0).all()


def test_nan_and_infinity_stay_in_the_scale():
    _, scales = quantize_rows(np.array([[1.0, np.nan], [1.0, -np.inf], [1.0, 2.0]]))
    assert np.isnan(scales[0]) and np.isinf(scales[1]) and np.isfinite(scales[2])
