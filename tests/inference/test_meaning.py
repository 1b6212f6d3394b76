"""Meaning vectors: the same bits in any batch, the word excluded from its context, models without a softmax."""

from dataclasses import replace

import numpy as np
import pytest

from elmo import Elmo
from elmo.checkpoint.components import ContextLayer
from elmo.config import ContextConfig
from elmo.kernels.int8 import quantize_rows
from tests.language_models import VOCABULARY, make_language_model

DIM = 16
SETTINGS = {"decay": 0.3, "focus": 5.0, "share": 1.0, "substitutes": 1.0, "word": 0.3, "num_candidates": 4}
SENTENCES = [
    ["I", "went", "to", "the", "bank", "."],
    ["the", "river", "bank"],
    ["money"],
    [],
    ["zyzzyva", "went", "to", "the", "money", "bank"] * 9,
]


def add_context(model: Elmo, **settings) -> Elmo:
    words = tuple(word for word in VOCABULARY if not word.startswith("<") and word != "I")
    draw, word_dim = np.random.default_rng(5), model.dim // 2
    vectors, scales = quantize_rows(draw.normal(size=(len(words), DIM)) / 4)
    arrays = {
        "vectors": vectors,
        "scales": scales,
        "weights": np.linspace(0.2, 1, len(words), dtype=np.float32),
        "unknown_map": draw.normal(size=(word_dim, DIM)).astype(np.float32),
        "unknown_bias": np.zeros(DIM, dtype=np.float32),
        "sentence_scale": np.ones(DIM, dtype=np.float32),
        "sentence_components": np.zeros((1, DIM), dtype=np.float32),
        "word_mean": np.zeros(word_dim, dtype=np.float32),
        "word_components": np.zeros((1, word_dim), dtype=np.float32),
    }
    config = ContextConfig(num_words=len(words), dim=DIM, num_components=1, **settings)
    return Elmo(replace(model.checkpoint(), context=ContextLayer(config, words, arrays)))


@pytest.fixture(scope="module")
def model() -> Elmo:
    return add_context(make_language_model(), **SETTINGS)


def lower(model: Elmo, sentence: list[str]) -> np.ndarray:
    """Return what stands beside the top layer."""
    return model.embed([sentence], layers="meaning")[0][:, model.dim :]


def test_a_sentence_has_the_same_bits_alone_and_in_any_order(model):
    together = model.embed(SENTENCES, layers="meaning")
    backwards = model.embed(SENTENCES[::-1], layers="meaning")[::-1]
    for sentence, first, second in zip(SENTENCES, together, backwards, strict=True):
        alone = model.embed([sentence], layers="meaning")[0]
        assert np.array_equal(alone, first) and np.array_equal(alone, second)
        assert alone.shape == (len(sentence), model.dim + DIM) == (len(sentence), *model.word_shape("meaning"))


def test_a_phrase_of_one_word_is_that_word(model):
    words = SENTENCES[0]
    whole = model.embed([words], layers="meaning")[0]
    spans = [(place, place + 1) for place in range(len(words))]
    assert np.array_equal(model.embed_spans([words], [spans], layers="meaning")[0], whole)
    phrase = model.embed_spans([words], [[(3, 5)]], layers="meaning")[0][0]
    assert not np.allclose(phrase, whole[3:5].mean(axis=0))


def test_each_share_counts(model):
    base = make_language_model()
    full = lower(model, SENTENCES[0])
    for name in ("substitutes", "word"):
        less = lower(add_context(base, **{**SETTINGS, name: 0.0}), SENTENCES[0])
        assert not np.allclose(full, less)


def test_without_the_new_settings_meaning_is_top_layer_and_context():
    plain = add_context(make_language_model(), share=1.5)
    words = SENTENCES[0]
    meaning, top = plain.embed([words], layers="meaning")[0], plain.embed([words], layers="top")[0]
    context = plain.context_vectors([words])[0]
    top /= np.linalg.norm(top, axis=1, keepdims=True)
    np.testing.assert_allclose(meaning[:, : plain.dim], top * np.sqrt(1 / 2.5), atol=1e-5)
    np.testing.assert_allclose(meaning[:, plain.dim :], context * np.sqrt(1.5 / 2.5), atol=1e-4)


def test_a_model_without_softmax_has_no_substitutes(tiny_model):
    assert tiny_model.config.softmax is None
    vectors = add_context(tiny_model, **SETTINGS).embed([SENTENCES[0]], layers="meaning")[0]
    assert np.isfinite(vectors).all()


def test_numpy_alone_computes_the_same(model, monkeypatch):
    expected = model.embed(SENTENCES, layers="meaning")
    for module in ("elmo.inference.meaning",):
        monkeypatch.setattr(f"{module}.find_library", lambda: None)
    other = add_context(make_language_model(), **SETTINGS)
    for first, second in zip(other.embed(SENTENCES, layers="meaning"), expected, strict=True):
        np.testing.assert_allclose(first, second, atol=5e-3)


def test_settings_are_saved(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    opened = Elmo.from_pretrained(tmp_path / "model")
    assert opened.context == model.context
    assert np.array_equal(lower(opened, SENTENCES[0]), lower(model, SENTENCES[0]))
