"""Both directions at once, in windows: the vectors of the modules, the same in any batch and precision."""

import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, TransformerConfig
from elmo.inference import reading
from elmo.inference.layers import cosine
from elmo.inference.precision import is_supported
from elmo.inference.reading import cut_steps, order_reading
from elmo.inference.runtime import Runtime, run_bilm

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "while",
    "it",
    "rained",
    "all",
    "day",
    "and",
    "nobody",
    "came",
    "to",
    "see",
    "what",
    "had",
    "become",
    "of",
    "them",
]
SENTENCES = [WORDS[start : start + length] for start, length in ((0, 5), (3, 1), (5, 0), (2, 12), (7, 7), (0, 18))]
CHARACTERS = CharacterConfig(filters=((1, 16), (2, 16), (3, 32)), embedding_dim=8, num_highways=1)
LSTM = ModelConfig(encoder=EncoderConfig(num_layers=2, cell_dim=96, output_dim=48), characters=CHARACTERS)
TRANSFORMER = ModelConfig(
    encoder=TransformerConfig(num_layers=2, output_dim=16, num_heads=2, feed_forward_dim=16, context=4),
    characters=CHARACTERS,
)
PRECISIONS = [name for name in ("float32", "bfloat16", "int8") if is_supported(name)]


@pytest.fixture(scope="module")
def checkpoint():
    return Elmo.from_config(LSTM).checkpoint()


def test_the_words_of_a_step_are_neighbours_and_sentences_end_where_they_end():
    lengths = np.array([4, 2, 2, 1])
    ahead = order_reading(lengths, lengths, from_right=False)
    assert ahead.counts.tolist() == [4, 3, 1, 1]
    assert ahead.rows.tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 0]
    assert ahead.positions.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 3]
    back = order_reading(lengths, lengths - 1, from_right=True)
    assert back.counts.tolist() == [3, 1, 1]
    assert back.positions.tolist() == [3, 1, 1, 2, 1]


@pytest.mark.parametrize(
    ("at_once", "windows"),
    [
        (1, [[4], [3], [1], [1]]),
        (4, [[4], [3, 1], [1]]),
        (5, [[4], [3, 1, 1]]),
        (7, [[4, 3], [1, 1]]),
        (9, [[4, 3, 1, 1]]),
    ],
)
def test_steps_are_cut_into_windows(at_once, windows):
    cut = list(cut_steps([4, 3, 1, 1], at_once))
    assert [window for _, window in cut] == windows
    assert [rows.stop - rows.start for rows, _ in cut] == [sum(window) for window in windows]
    assert cut[0][0].start == 0 and cut[-1][0].stop == 9


@pytest.mark.parametrize("config", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
@pytest.mark.parametrize("at_once", [1, 6, 4096])
def test_any_window_gives_the_layers_of_the_modules(monkeypatch, config, at_once):
    monkeypatch.setattr(reading, "WORDS_AT_ONCE", at_once)
    model = Elmo.from_config(config)
    batch = model.indexer.batch(SENTENCES)
    with torch.inference_mode():
        expected, _ = run_bilm(model.bilm, batch)
    found = Runtime(model.bilm).run(batch)
    assert torch.equal(found.mask, expected.mask)
    torch.testing.assert_close(found.layers, expected.layers, rtol=0, atol=1e-5)


@pytest.mark.parametrize("config", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
def test_states_that_predict_are_those_of_the_modules(config):
    model = Elmo.from_config(config)
    batch = model.indexer.batch(SENTENCES)
    with torch.inference_mode():
        ahead, back = run_bilm(model.bilm, batch)[0].layers[-1].chunk(2, dim=-1)
    real = torch.arange(batch.word_index.shape[1] - 1) < (batch.lengths - 1)[:, None]
    for one, other in zip(Runtime(model.bilm).predict(batch), (ahead[:, :-1], back[:, 1:]), strict=True):
        torch.testing.assert_close(one[real], other[real], rtol=0, atol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_sentence_has_the_same_vectors_in_any_company(checkpoint, precision):
    model = Elmo(checkpoint, precision=precision)
    assert model.precision == precision
    shouting = [["X" * 40, "!" * 30] * 20]
    together = model.embed([*shouting, *SENTENCES, *shouting], layers="all")[1:-1]
    backwards = model.embed(SENTENCES[::-1], layers="all")[::-1]
    alone = [model.embed([words], layers="all")[0] for words in SENTENCES]
    tolerance = 1e-5 if precision == "float32" else 5e-3
    for one, *others in zip(alone, together, backwards, strict=True):
        for other in others:
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_faster_precisions_stay_near_float32_in_every_layer(checkpoint, precision):
    expected = Elmo(checkpoint).embed(SENTENCES, layers="all")
    found = Elmo(checkpoint, precision=precision).embed(SENTENCES, layers="all")
    near = np.concatenate([cosine(one, other) for one, other in zip(found, expected, strict=True)], axis=1)
    assert (near.mean(axis=1) > 0.999).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_state_is_carried_in_every_precision(checkpoint, precision):
    carrying = Elmo(checkpoint, precision=precision, state="carry")
    whole = Elmo(checkpoint, precision=precision)
    first, second = carrying.embed([WORDS])[0], carrying.embed([WORDS])[0]
    np.testing.assert_allclose(first, whole.embed([WORDS])[0], rtol=0, atol=1e-5)
    assert np.abs(first - second).max() > 1e-2


def test_a_text_in_many_windows_is_not_cut(monkeypatch, checkpoint):
    model = Elmo(checkpoint)
    text = WORDS * 20
    (expected,) = model.embed([text])
    monkeypatch.setattr(reading, "WORDS_AT_ONCE", 7)
    (found,) = model.embed([text])
    assert found.shape == (len(text), 96)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
