"""Layers are computed once, kept across restarts, and limited in size."""

import logging

import numpy as np
import pytest
from filelock import FileLock

from elmo import Elmo
from elmo.checkpoint.checkpoint import fingerprint
from elmo.errors import InputError
from elmo.tasks import layer_store
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


def test_each_distinct_sentence_is_computed_once_and_found_by_another_store(counted, tmp_path):
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


def test_models_and_precisions_have_stores_of_their_own(own_model, tmp_path, monkeypatch):
    other = Elmo.from_config(TINY_CONFIG, seed=1)
    assert fingerprint(other) != fingerprint(own_model)
    for model in (own_model, other):
        LayerStore(model, tmp_path).add(SENTENCES)
    with monkeypatch.context() as patch:  # not every processor has another precision
        patch.setattr(Elmo, "precision", property(lambda self: "int8"))
        LayerStore(own_model, tmp_path).add(SENTENCES)
    assert {path.stem.partition("-")[2] for path in tmp_path.glob("*.sqlite")} == {"float32", "int8"}
    assert len(list(tmp_path.glob("*.sqlite"))) == 3
    assert not np.array_equal(LayerStore(own_model, tmp_path)[SENTENCES[0]], LayerStore(other, tmp_path)[SENTENCES[0]])


def name_of(model):
    return f"{fingerprint(model)[:32]}-float32.sqlite"


def test_the_store_used_longest_ago_makes_room_and_no_other_file(own_model, tmp_path):
    other = Elmo.from_config(TINY_CONFIG, seed=1)
    LayerStore(other, tmp_path).add(SENTENCES)
    (tmp_path / "thesis.sqlite").write_bytes(b"x" * 100_000)
    size = (tmp_path / name_of(other)).stat().st_size
    store = LayerStore(own_model, tmp_path, max_bytes=size + 10_000)
    store.add(SENTENCES)
    assert {path.name for path in tmp_path.glob("*.sqlite")} == {name_of(own_model), "thesis.sqlite"}
    check(store, own_model)


def test_layers_beyond_the_limit_stay_in_memory_with_a_warning(own_model, tmp_path, caplog):
    store = LayerStore(own_model, tmp_path, max_bytes=100)
    with caplog.at_level(logging.WARNING, logger=layer_store.__name__):
        store.add(SENTENCES)
    assert "do not fit the cache" in caplog.text
    check(store, own_model)


def test_a_store_that_is_being_filled_is_not_removed(own_model, tmp_path):
    other = Elmo.from_config(TINY_CONFIG, seed=1)
    LayerStore(other, tmp_path).add(SENTENCES)
    path = tmp_path / name_of(other)
    with FileLock(path.with_suffix(".lock")):
        LayerStore(own_model, tmp_path, max_bytes=path.stat().st_size + 10_000).add(SENTENCES)
    assert path.exists()
