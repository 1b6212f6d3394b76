"""The helper thread of the compiled library: the same bits with and without it, from any thread."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from elmo.kernels.library import find_library
from elmo.kernels.lstm import CompiledStack, LayerWeights, Window, forward_directions, forward_sentence

CELL_DIM, DIM, NUM_LAYERS = 40, 24, 2
DRAW = np.random.default_rng(0)
WEIGHTS = np.eye(NUM_LAYERS + 1, dtype=np.float32)


@pytest.fixture(autouse=True)
def library(kernels):
    library = None if kernels == "off" else find_library()
    if library is None or not library.has_helper:
        pytest.skip("there is no helper thread without the library, or on this system")
    return library


def draw(*shape):
    return DRAW.normal(size=shape).astype(np.float32)


def make_stack(library):
    layers = [
        LayerWeights(
            draw(4 * CELL_DIM, DIM),
            draw(4 * CELL_DIM, DIM),
            draw(4 * CELL_DIM),
            draw(DIM, CELL_DIM),
            cell_clip=3.0,
            projection_clip=None,
        )
        for _ in range(NUM_LAYERS)
    ]
    return CompiledStack(library, layers, residual=True, int8=False)


@pytest.fixture
def stacks(library):
    return make_stack(library), make_stack(library)


def run_both(stacks, words, places, *, single_threaded=False):
    """Run over one sentence from the left and from the right: the vectors (T, K, 2D) and both states."""
    num_words = len(places)
    result = np.full((num_words, NUM_LAYERS + 1, 2, DIM), np.nan, dtype=np.float32)
    windows = []
    for side, step in enumerate((1, -1)):
        order = np.ascontiguousarray(np.arange(num_words)[::step])
        sources = np.ascontiguousarray(places[::step])
        counts = np.ones(num_words, dtype=np.int64)
        windows.append(Window(words, sources, order, counts, WEIGHTS, result, side))
    states = forward_directions(stacks, windows, [None, None], single_threaded=single_threaded)
    return result.reshape(num_words, NUM_LAYERS + 1, -1), states


def test_both_directions_have_the_same_bits_alone_and_with_the_helper(stacks):
    words, places = draw(5, DIM), np.array([0, 3, 1, 4, 2, 2, 0])
    apart, states_apart = run_both(stacks, words, places, single_threaded=True)
    for _ in range(50):
        together, states = run_both(stacks, words, places)
        assert np.array_equal(together, apart)
        for one, other in zip(states, states_apart, strict=True):
            assert np.array_equal(one.hidden, other.hidden) and np.array_equal(one.cell, other.cell)


@pytest.mark.parametrize("num_words", [1, 2, 33])
@pytest.mark.parametrize("single_threaded", [False, True])
def test_one_sentence_has_the_bits_of_the_general_call(stacks, num_words, single_threaded):
    words, places = draw(5, DIM), np.random.default_rng(0).integers(0, 5, num_words)
    expected, _ = run_both(stacks, words, places)
    result = forward_sentence(stacks, words, places, WEIGHTS, single_threaded=single_threaded)
    np.testing.assert_array_equal(result, expected)


def test_many_threads_may_call_at_once(stacks):
    words = draw(9, DIM)
    sentences = [np.random.default_rng(seed).integers(0, 9, 1 + seed % 20) for seed in range(200)]
    expected = [run_both(stacks, words, places, single_threaded=True)[0] for places in sentences]
    with ThreadPoolExecutor(6) as pool:
        result = list(pool.map(lambda places: run_both(stacks, words, places)[0], sentences))
    assert all(map(np.array_equal, result, expected))


@pytest.mark.needs("fork")
def test_a_forked_process_starts_its_own_helper(stacks):
    words, places = draw(5, DIM), np.array([0, 3, 1, 4])
    expected, _ = run_both(stacks, words, places)
    process = os.fork()
    if process == 0:  # exits without running what pytest would do at the end
        same = all(np.array_equal(run_both(stacks, words, places)[0], expected) for _ in range(20))
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert np.array_equal(run_both(stacks, words, places)[0], expected)


@pytest.mark.parametrize(("num_threads", "expected"), [(1, 0), (2, 1)])
@pytest.mark.needs("/proc")
def test_a_model_on_one_thread_starts_no_helper(num_threads, expected):
    program = f"""
import os
from elmo import Elmo
model = Elmo.from_pretrained(precision="float32", num_threads={num_threads})
model.cache_info()  # lays out the weights, with threads of Python
threads = set(os.listdir("/proc/self/task"))
model.embed([["one", "sentence", "of", "a", "few", "words"]])
print(len(set(os.listdir("/proc/self/task")) - threads))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(result.stdout) == expected
