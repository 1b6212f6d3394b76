"""Products with weights laid out once, against plain ones."""

import pytest
import torch
import torch.nn.functional as F

from elmo.inference import packed_lstm
from elmo.inference.packed_lstm import BFloat16Linear, Float32Linear, Int8Linear
from elmo.inference.precision import has_onednn, is_supported

needs_int8 = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="needs a CPU with FBGEMM's kernels"
)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture
def plain_bfloat16(monkeypatch):
    """Stands in for oneDNN's product where the CPU has no instructions for it."""
    if not is_supported("bfloat16"):
        monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", lambda weight, _: weight)
        product = lambda inputs, weight, bias, *_: F.linear(inputs, weight, bias)  # noqa: E731
        monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", product)


def draw(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def relative_error(found, expected):
    return float((found - expected).norm() / expected.norm())


def check(kind, num_rows, tolerance):
    weight, bias, inputs, total = draw(24, 40), draw(24), draw(num_rows, 40), draw(num_rows, 24)
    packed, without_bias = kind(weight, bias), kind(weight, None)
    product = inputs @ weight.t()
    found = packed(inputs)
    assert found.dtype == torch.float32
    assert relative_error(found, product + bias) < tolerance
    assert relative_error(without_bias(inputs), product) < tolerance
    before = total.clone()
    packed.add_to(total, inputs)
    assert relative_error(total - before, product) < tolerance


@pytest.mark.parametrize("num_rows", [1, 2, 7, 70, 203, 600])
@pytest.mark.parametrize("onednn", [True, False])
def test_float32_is_exact(monkeypatch, num_rows, onednn):
    if not onednn:
        monkeypatch.setattr(packed_lstm, "has_onednn", lambda: False)
    check(Float32Linear, num_rows, 1e-6)


@pytest.mark.parametrize("num_rows", [1, 7, 70])
def test_bfloat16_is_near(plain_bfloat16, num_rows):
    check(BFloat16Linear, num_rows, 6e-3)


@pytest.mark.skipif(not has_onednn(), reason="needs a torch with oneDNN")
def test_onednn_meets_few_numbers_of_rows_for_it_keeps_a_kernel_for_each(monkeypatch):
    met = set()
    product = torch.ops.mkldnn._linear_pointwise

    def watch(inputs, *others):
        met.add(len(inputs))
        return product(inputs, *others)

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", watch)
    packed, inputs = Float32Linear(draw(24, 40), draw(24)), draw(1500, 40)
    for num_rows in range(1, 1501):
        assert packed(inputs[:num_rows]).shape == (num_rows, 24)
    assert 1 < len(met) < 100
    assert all(size < num_rows * 1.1 + 1 for size, num_rows in zip(sorted(met)[1:], sorted(met), strict=False))


@needs_int8
@pytest.mark.parametrize("num_rows", [1, 2, 70])
def test_int8_is_near(num_rows):
    check(Int8Linear, num_rows, 2.5e-2)


@needs_int8
def test_in_int8_no_row_changes_another_however_large_it_is():
    packed = Int8Linear(draw(24, 40), draw(24))
    row = draw(1, 40)
    beside = torch.cat([1e4 * draw(3, 40), row, torch.zeros(2, 40)])
    assert torch.equal(packed(beside)[3], packed(row)[0])


@needs_int8
def test_in_int8_each_row_of_the_weights_has_its_own_scale():
    weight = draw(24, 40) * torch.logspace(-4, 4, 24)[:, None]
    inputs = draw(5, 40)
    found, expected = Int8Linear(weight, None)(inputs), inputs @ weight.t()
    for column in range(24):
        assert relative_error(found[:, column], expected[:, column]) < 5e-2


@needs_int8
def test_in_int8_sums_of_the_largest_values_do_not_overflow():
    weight, inputs = torch.ones(4, 64), torch.ones(2, 64)
    torch.testing.assert_close(Int8Linear(weight, None)(inputs), torch.full((2, 4), 64.0))
    torch.testing.assert_close(Int8Linear(-weight, None)(inputs), torch.full((2, 4), -64.0))


@needs_int8
def test_in_int8_zeros_stay_zeros():
    assert torch.equal(Int8Linear(torch.zeros(4, 8), None)(draw(3, 8)), torch.zeros(3, 4))
    assert torch.equal(Int8Linear(draw(4, 8), None)(torch.zeros(3, 8)), torch.zeros(3, 4))


@needs_int8
def test_laying_out_int8_leaves_the_engine_of_the_process_as_it_was():
    before = torch.backends.quantized.engine
    Int8Linear(draw(4, 8), None)
    assert torch.backends.quantized.engine == before
