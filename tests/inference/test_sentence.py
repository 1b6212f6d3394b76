"""`encode` with a sentence head: word order counts, batches do not, and the head is saved with the model."""

from dataclasses import replace

import numpy as np
import pytest

from elmo import Elmo, InputError
from elmo.checkpoint.components import SentenceHead
from elmo.config import SentenceConfig

TEXTS = ["The dog bit the man.", "The man bit the dog.", "An index is queried with this vector", "yes"]


def add_head(model: Elmo, *, with_static: bool = True) -> Elmo:
    checkpoint = model.checkpoint()
    assert checkpoint.context is not None
    static_dim = checkpoint.context.config.dim if with_static else 0
    input_dim, num_layers = checkpoint.config.vector_dim, checkpoint.config.encoder.num_layers + 1
    rng = np.random.default_rng(0)
    shapes = {
        "layer_weights": (num_layers,),
        "queries": (2, input_dim),
        "rarity": (2,),
        "projection": (12, 3 * input_dim + static_dim),
        "bias": (12,),
    }
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    context = checkpoint.context if with_static else None
    return Elmo(replace(checkpoint, context=context, sentence=SentenceHead(SentenceConfig(12, 2), arrays)))


@pytest.fixture(scope="module")
def model():
    return Elmo.from_pretrained("en-small", precision="float32")


@pytest.fixture(scope="module")
def with_head(model):
    return add_head(model)


def test_a_sentence_has_the_same_bits_alone_and_in_a_batch(with_head):
    together = with_head.encode(TEXTS)
    assert together.shape == (4, 12) and with_head.sentence_shape() == (12,)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-5)
    for text, vector in zip(TEXTS, together, strict=True):
        assert np.array_equal(with_head.encode(text), vector)
    assert np.array_equal(with_head.encode(TEXTS[::-1]), together[::-1])
    assert not np.allclose(together[0], together[1])  # the order of words
    assert not with_head.encode([[]]).any() and with_head.encode([]).shape == (0, 12)


def test_other_poolings_stay_and_a_missing_head_is_named(model, with_head):
    for pooling in ("weighted", "mean", "max"):
        expected = model.encode(TEXTS, pooling=pooling)
        np.testing.assert_allclose(with_head.encode(TEXTS, pooling=pooling), expected, rtol=1e-6)
    with pytest.raises(InputError, match="pooling is 'head', which takes no layers"):
        with_head.encode(TEXTS, pooling="head", layers="top")
    bare = Elmo(replace(model.checkpoint(), context=None, sentence=None))
    with pytest.raises(InputError, match="this model has no sentence head"):
        bare.encode(TEXTS, pooling="head")


def test_a_head_is_saved_with_its_model_and_needs_no_context_layer(model, with_head, tmp_path):
    with_head.save_pretrained(tmp_path / "model")
    again = Elmo.from_pretrained(tmp_path / "model", precision="float32")
    np.testing.assert_allclose(again.encode(TEXTS), with_head.encode(TEXTS), atol=1e-4)
    assert add_head(model, with_static=False).encode(TEXTS).shape == (4, 12)


def test_words_of_several_tokens_are_pooled_by_token():
    chinese = add_head(Elmo.from_pretrained("zh-small", precision="float32"))
    assert np.array_equal(chinese.encode([["我", "喜欢", "你"]]), chinese.encode([["我", "喜", "欢", "你"]]))
    assert np.array_equal(chinese.encode("我喜欢你"), chinese.encode([["我", "喜欢", "你"]])[0])
