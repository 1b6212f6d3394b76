"""The kernel of meaning vectors against its NumPy equivalent, in every variant; and invalid arrays."""

from dataclasses import replace

import numpy as np
import pytest

from elmo.config import ContextConfig
from elmo.kernels import library as library_module
from elmo.kernels import meaning
from elmo.kernels.int8 import quantize_rows
from elmo.kernels.library import VARIANTS, KernelError, find_library

DIM, TOP_DIM, NUM_WORDS, NUM_TOKENS, NUM_CANDIDATES = 24, 12, 50, 9, 20
CONFIG = ContextConfig(NUM_WORDS, DIM, window=3, focus=5.0, decay=0.3, shrinkage=0.1)
SHARES = np.sqrt(np.array([1.0, 0.7, 1.4, 0.3], dtype=np.float32) / 3.4)
SPANS = np.array([[1, 6, 2, 3, 3, 0], [1, 6, 1, 4, 8, 1], [1, 6, 5, 6, 2, -1], [8, 11, 8, 9, 4, 2]])


def open_variant(variant):
    best = find_library()
    if best is None or variant not in best.variants[best.variants.index(best.variant) :]:
        pytest.skip(f"this processor does not run {variant}")
    return library_module._open(variant).library


def make_inputs(*, shared=True, seed=0):
    draw = np.random.default_rng(seed)

    def rows(number, dim):
        return quantize_rows(draw.normal(size=(number, dim)) / np.sqrt(dim))

    softmax, scales = rows(NUM_WORDS, TOP_DIM // 2 if shared else TOP_DIM)
    candidates = meaning.Candidates(*rows(NUM_WORDS, DIM), softmax)
    tokens = meaning.Tokens(*rows(NUM_TOKENS, DIM), draw.random(NUM_TOKENS).astype(np.float32))
    chosen = np.stack([draw.permutation(NUM_WORDS)[:NUM_CANDIDATES] for _ in range(3)])
    lists = meaning.Lists(
        candidates,
        chosen.astype(np.uint16),
        scales[chosen] / 2,
        draw.normal(size=(3, NUM_CANDIDATES)).astype(np.float32),
        draw.normal(size=(3, DIM)).astype(np.float32) / 20,
    )
    top = draw.normal(size=(12, TOP_DIM)).astype(np.float32)
    return meaning.MeaningInputs(top, draw.integers(0, NUM_TOKENS, 12), tokens, SPANS, lists)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shared", [True, False])
def test_the_library_agrees_with_numpy(variant, shared):
    inputs = make_inputs(shared=shared)
    expected = meaning.find_meanings(None, CONFIG, SHARES, inputs)
    assert expected.shape == (len(SPANS), TOP_DIM + DIM)
    np.testing.assert_allclose(
        meaning.find_meanings(open_variant(variant), CONFIG, SHARES, inputs), expected, atol=2e-3
    )


def test_every_instruction_set_gives_the_same_bits():
    best = find_library()
    if best is None:
        pytest.skip("no library")
    inputs = make_inputs()
    runnable = best.variants[best.variants.index(best.variant) :]
    results = [meaning.find_meanings(open_variant(variant), CONFIG, SHARES, inputs) for variant in runnable]
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize("library", ["numpy", "library"])
def test_a_word_has_the_same_bits_alone(library):
    library = None if library == "numpy" else find_library()
    inputs = make_inputs()
    together = meaning.find_meanings(library, CONFIG, SHARES, inputs)
    for span, expected in zip(inputs.spans, together, strict=True):
        alone = meaning.find_meanings(library, CONFIG, SHARES, replace(inputs, spans=span[None]))
        assert np.array_equal(alone[0], expected)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_propagate(value):
    inputs = make_inputs()
    inputs.top[1] = value  # the state before the first word
    for library in (None, find_library()):
        with np.errstate(all="ignore"):
            first, *_, last = meaning.find_meanings(library, CONFIG, SHARES, inputs)
        assert np.isnan(first[TOP_DIM:]).all() and np.isfinite(last).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_nearest_candidates_are_those_of_numpy(variant):
    library = open_variant(variant)
    candidates = make_inputs().lists.words
    queries, scales = candidates.vectors[:5], candidates.scales[:5]
    for number in (1, 7, NUM_WORDS):
        expected, cosines = meaning.find_nearest(None, candidates, queries, scales, number)
        nearest, own = meaning.find_nearest(library, candidates, queries, scales, number)
        for row in range(5):
            assert set(nearest[row].tolist()) == set(expected[row].tolist())
        np.testing.assert_array_equal(np.sort(own, axis=1), np.sort(cosines, axis=1))


@pytest.mark.parametrize("column", range(6))
def test_numbers_that_lead_outside_are_refused(column):
    inputs = make_inputs()
    wrong = inputs.spans.copy()
    wrong[0, column] = 99
    with pytest.raises(KernelError):
        meaning.find_meanings(find_library(), CONFIG, SHARES, replace(inputs, spans=wrong))


def test_arrays_of_another_type_are_refused():
    inputs = make_inputs()
    if find_library() is None:
        pytest.skip("no library")
    with pytest.raises(KernelError, match="top is float64"):
        meaning.find_meanings(find_library(), CONFIG, SHARES, replace(inputs, top=inputs.top.astype(float)))
