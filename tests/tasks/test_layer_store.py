"""Layers are computed once and survive a restart."""

import numpy as np
import pytest

from elmo import Elmo
from elmo.errors import InputError
from elmo.tasks.layer_store import LayerStore
from tests.conftest import TINY_CONFIG

SENTENCES = [("the", "cat"), ("a",), (), ("the", "cat", "sat")]


@pytest.fixture
def counted(own_model, monkeypatch):
    """A model, and the sentences it was asked to read."""
    read = []
    embed = own_model.embed
    monkeypatch.setattr(own_model, "embed", lambda words, **more: (read.extend(words), embed(words, **more))[1])
    return own_model, read


def check(store, model):
    for words in SENTENCES:
        layers = model.embed([list(words)], layers="all")[0]
        expected = layers.transpose(1, 0, 2).reshape(len(words), model.num_layers * model.dim)
        assert store[words].dtype == np.float16
        np.testing.assert_allclose(store[words], expected, rtol=1e-3, atol=1e-4)


def test_each_distinct_sentence_is_computed_once_and_shared_between_stores(counted, tmp_path):
    model, read = counted
    store = LayerStore(model, tmp_path)
    store.add([*SENTENCES, *SENTENCES])
    store.add(SENTENCES[:2])
    assert len(read) == len(SENTENCES)
    again = LayerStore(model, tmp_path)
    again.add(SENTENCES)
    assert len(read) == len(SENTENCES)
    done = []
    again.add([*SENTENCES, ("new", "words")], lambda *words: done.append(words))
    assert done == [(2, 2)]
    check(again, model)


def test_a_damaged_store_is_reported_with_its_file(own_model, tmp_path):
    LayerStore(own_model, tmp_path).add(SENTENCES)
    (path,) = tmp_path.glob("*.sqlite")
    path.write_bytes(b"x" * 20_000)
    with pytest.raises(InputError, match=f"{path.name} cannot be used"):
        LayerStore(own_model, tmp_path).add(SENTENCES)


def test_models_and_precisions_have_separate_stores(own_model, tmp_path, monkeypatch):
    other = Elmo.from_config(TINY_CONFIG, seed=1)
    assert other.checkpoint().fingerprint() != own_model.checkpoint().fingerprint()
    for model in (own_model, other):
        LayerStore(model, tmp_path).add(SENTENCES)
    with monkeypatch.context() as patch:  # not every processor has another precision
        patch.setattr(Elmo, "precision", property(lambda self: "int8"))
        LayerStore(own_model, tmp_path).add(SENTENCES)
    assert {path.stem.partition("-")[2] for path in tmp_path.glob("*.sqlite")} == {"float32", "int8"}
    assert len(list(tmp_path.glob("*.sqlite"))) == 3
    assert not np.array_equal(LayerStore(own_model, tmp_path)[SENTENCES[0]], LayerStore(other, tmp_path)[SENTENCES[0]])
