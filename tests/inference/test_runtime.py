"""Running batches: agreement with the modules, carried state, copies, devices."""

import copy
import pickle

import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, TransformerConfig
from elmo.errors import ConfigError
from elmo.inference import encoder
from elmo.inference.encoder import order_steps
from elmo.inference.layers import choose_layers
from elmo.inference.runtime import CpuRuntime, pad_rows
from elmo.kernels.lstm import cut_steps
from elmo.nn.batch import run_bilm
from elmo.nn.build import load_bilm

A, B, C = ["the", "cat", "sat"], ["a"], ["b", "c", "d", "e", "f"]
WORDS = [f"{number}th" for number in range(21)]
SENTENCES = [WORDS[start : start + length] for start, length in ((0, 5), (3, 1), (5, 0), (2, 12), (7, 7), (0, 18))]
CHARACTERS = CharacterConfig(filters=((1, 16), (2, 16), (3, 32)), embedding_dim=8, num_highways=1)
LSTM = ModelConfig(encoder=EncoderConfig(num_layers=2, cell_dim=96, output_dim=48), characters=CHARACTERS)
TRANSFORMER = ModelConfig(
    encoder=TransformerConfig(num_layers=2, output_dim=16, num_heads=2, feed_forward_dim=16, context=4),
    characters=CHARACTERS,
)


def all_layers(runtime, batch):
    """Return (L+1, B, T, 2D), zero where padded."""
    rows = runtime.embed(batch, choose_layers("all", runtime.num_layers))
    return pad_rows(rows, batch.word_mask).transpose(2, 0, 1, 3)


def test_words_of_a_time_step_are_adjacent():
    lengths = np.array([4, 2, 2, 1])
    counts, rows, positions = order_steps(lengths, skip_last=False, from_right=False)
    assert counts.tolist() == [4, 3, 1, 1]
    assert rows.tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 0]
    assert positions.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 3]
    counts, _, positions = order_steps(lengths, skip_last=True, from_right=True)
    assert counts.tolist() == [3, 1, 1]
    assert positions.tolist() == [3, 1, 1, 2, 1]


@pytest.mark.parametrize(
    ("at_once", "windows"), [(1, [[4], [3], [1], [1]]), (5, [[4], [3, 1, 1]]), (9, [[4, 3, 1, 1]])]
)
def test_steps_are_cut_into_windows(at_once, windows):
    cut = list(cut_steps([4, 3, 1, 1], at_once))
    assert [window for _, window in cut] == windows
    assert [rows.stop - rows.start for rows, _ in cut] == [sum(window) for window in windows]


@pytest.mark.parametrize("config", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
@pytest.mark.parametrize("at_once", [1, 6, 4096])
def test_any_window_gives_the_layers_of_the_modules(monkeypatch, config, at_once):
    monkeypatch.setattr(encoder, "WORDS_AT_ONCE", at_once)
    monkeypatch.setattr("elmo.nn.bilm.STEPS_AT_ONCE", at_once)
    model = Elmo.from_config(config)
    batch = model._indexer.batch(SENTENCES)
    with torch.inference_mode():
        expected, _ = run_bilm(load_bilm(model.config, model.checkpoint().weights), batch)
    np.testing.assert_array_equal(batch.mask, expected.mask)
    np.testing.assert_allclose(all_layers(model._runtime, batch), expected.layers, rtol=0, atol=1e-5)


@pytest.mark.parametrize("config", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
def test_states_that_predict_are_those_of_the_modules(config):
    model = Elmo.from_config(config)
    batch = model._indexer.batch(SENTENCES)
    with torch.inference_mode():
        top = run_bilm(load_bilm(model.config, model.checkpoint().weights), batch)[0].layers[-1].numpy()
    left, right = np.split(top, 2, axis=-1)
    real = np.arange(batch.word_index.shape[1] - 1) < (batch.lengths - 1)[:, None]
    for states, expected in zip(model._runtime.predict(batch), (left[:, :-1], right[:, 1:]), strict=True):
        np.testing.assert_allclose(states[real], expected[real], rtol=0, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_state_is_carried_in_every_precision(precision):
    checkpoint = Elmo.from_config(LSTM).checkpoint()
    carrying, whole = Elmo(checkpoint, precision=precision, state="carry"), Elmo(checkpoint, precision=precision)
    first, second = carrying.embed([WORDS])[0], carrying.embed([WORDS])[0]
    np.testing.assert_allclose(first, whole.embed([WORDS])[0], rtol=0, atol=1e-5)
    assert np.abs(first - second).max() > 1e-2


# What one row gives, fed sentences one after another, against rows of batches of several sizes.


@pytest.fixture(params=[LSTM, TRANSFORMER], ids=["lstm", "transformer"])
def model(request):
    return Elmo.from_config(request.param)


def carrying(model):
    return Elmo(model.checkpoint(), state="carry")


def alone(model, *sentences):
    other = carrying(model)
    return [other.embed([words])[0] for words in sentences][-1]


def test_rows_continue_from_their_state(model):
    other = carrying(model)
    other.embed([A, B])
    first, second = other.embed([C, A])
    np.testing.assert_allclose(first, alone(model, A, C), atol=1e-5)
    np.testing.assert_allclose(second, alone(model, B, A), atol=1e-5)
    assert not np.allclose(first, alone(model, C), atol=1e-5)


def test_batches_of_other_sizes_add_rows_from_zero_and_leave_the_rest(model):
    other = carrying(model)
    other.embed([A])
    _, fresh = other.embed([B, C])
    np.testing.assert_allclose(fresh, alone(model, C), atol=1e-5)
    other.embed([A])
    first, second = other.embed([B, A])
    np.testing.assert_allclose(first, alone(model, A, B, A, B), atol=1e-5)
    np.testing.assert_allclose(second, alone(model, C, A), atol=1e-5)


def test_reset_restores_the_zero_state(model):
    other = carrying(model)
    first, second = (other.embed([A, B])[0] for _ in range(2))
    other.reset_state()
    assert not np.allclose(first, second, atol=1e-5)
    np.testing.assert_array_equal(other.embed([A, B])[0], first)


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copied_model_begins_from_zero(model, copied):
    original, batch = carrying(model), model._indexer.batch([A])
    first = all_layers(original._runtime, batch)
    other = copied(original)
    np.testing.assert_array_equal(all_layers(other._runtime, batch), first)
    assert not np.allclose(all_layers(original._runtime, batch), first, atol=1e-4)


def test_a_device_that_does_not_exist_is_refused_in_one_line(tiny_model):
    with pytest.raises(ConfigError) as raised:
        Elmo(tiny_model.checkpoint(), device="gpu")
    message = str(raised.value)
    assert message.startswith("The device 'gpu' cannot be used: ")
    assert "\n" not in message


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_vectors_of_the_cpu(tiny_model):
    on_gpu = Elmo(tiny_model.checkpoint(), device="cuda").embed([A, B, C], layers="all")
    for one, other in zip(on_gpu, tiny_model.embed([A, B, C], layers="all"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_an_lstm_on_the_cpu_never_runs_on_torch(tiny_model):
    assert isinstance(tiny_model._runtime, CpuRuntime)
