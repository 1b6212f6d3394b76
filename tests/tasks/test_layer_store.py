"""Layers are computed once, survive a restart and a crash, and stay within their bound."""

import logging

import numpy as np
import pytest
from filelock import FileLock

from elmo import Elmo
from elmo.checkpoint.checkpoint import fingerprint
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


def test_what_a_killed_process_left_half_written_is_computed_anew(counted, tmp_path):
    model, read = counted
    LayerStore(model, tmp_path).add(SENTENCES[:2])
    (folder,) = tmp_path.iterdir()
    with (folder / "layers.f16").open("ab") as file:
        file.write(b"\1" * 1001)
    with (folder / "index.bin").open("ab") as file:
        file.write(b"\1" * 13)
    store = LayerStore(model, tmp_path)
    store.add(SENTENCES)
    assert len(read) == len(SENTENCES)
    check(store, model)
    check(LayerStore(model, tmp_path), model)


def test_an_index_record_without_its_values_is_not_trusted(counted, tmp_path):
    model, read = counted
    LayerStore(model, tmp_path).add(SENTENCES)
    (folder,) = tmp_path.iterdir()
    values = (folder / "layers.f16").read_bytes()
    (folder / "layers.f16").write_bytes(values[:-2])
    store = LayerStore(model, tmp_path)
    store.add(SENTENCES)
    assert len(read) == len(SENTENCES) + 1
    check(store, model)


def test_models_and_precisions_have_stores_of_their_own(own_model, tmp_path, monkeypatch):
    other = Elmo.from_config(TINY_CONFIG, seed=1)
    assert fingerprint(other) != fingerprint(own_model)
    for model in (own_model, other):
        LayerStore(model, tmp_path).add(SENTENCES)
    with monkeypatch.context() as patch:  # not every processor has another precision
        patch.setattr(Elmo, "precision", property(lambda self: "int8"))
        LayerStore(own_model, tmp_path).add(SENTENCES)
    assert {path.name.partition("-")[2] for path in tmp_path.iterdir()} == {"float32", "int8"}
    assert len(list(tmp_path.iterdir())) == 3
    assert not np.array_equal(LayerStore(own_model, tmp_path)[SENTENCES[0]], LayerStore(other, tmp_path)[SENTENCES[0]])


def test_the_store_used_longest_ago_makes_room(own_model, tmp_path):
    size = sum(map(len, SENTENCES)) * own_model.num_layers * own_model.dim * 2
    LayerStore(Elmo.from_config(TINY_CONFIG, seed=1), tmp_path).add(SENTENCES)
    store = LayerStore(own_model, tmp_path, max_bytes=size + 200)
    store.add(SENTENCES)
    assert [folder.name for folder in tmp_path.iterdir()] == [f"{fingerprint(own_model)[:32]}-float32"]
    check(store, own_model)


def test_what_does_not_fit_is_kept_in_memory_with_a_warning(own_model, tmp_path, caplog):
    store = LayerStore(own_model, tmp_path, max_bytes=100)
    with caplog.at_level(logging.WARNING, logger=layer_store.__name__):
        store.add(SENTENCES)
    assert "do not fit the cache" in caplog.text
    check(store, own_model)
    assert not list(tmp_path.rglob("layers.f16"))


def test_a_store_that_is_being_filled_is_not_removed(own_model, tmp_path):
    size = sum(map(len, SENTENCES)) * own_model.num_layers * own_model.dim * 2
    other = Elmo.from_config(TINY_CONFIG, seed=1)
    LayerStore(other, tmp_path).add(SENTENCES)
    folder = tmp_path / f"{fingerprint(other)[:32]}-float32"
    with FileLock(folder / ".lock"):
        LayerStore(own_model, tmp_path, max_bytes=size + 200).add(SENTENCES)
    assert (folder / "layers.f16").exists()


def test_only_folders_with_the_mark_of_a_store_are_removed(own_model, tmp_path):
    foreign = {
        "thesis": "chapter.tex",
        "0123456789abcdef0123456789abcdef-float32": "layers.f16",  # named like a store, but not marked as one
        "other": "elmo-layer-store",  # marked, but not named like one
    }
    for folder, name in foreign.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(b"x" * 1000)
    (tmp_path / "linked").symlink_to(tmp_path / "thesis")
    other = Elmo.from_config(TINY_CONFIG, seed=1)
    LayerStore(other, tmp_path).add(SENTENCES)
    old_store = tmp_path / f"{fingerprint(other)[:32]}-float32"
    (old_store / "notes.txt").write_text("mine")
    size = sum(map(len, SENTENCES)) * own_model.num_layers * own_model.dim * 2
    store = LayerStore(own_model, tmp_path, max_bytes=size + 200)
    store.add(SENTENCES)
    assert all((tmp_path / folder / name).stat().st_size == 1000 for folder, name in foreign.items())
    assert [path.name for path in old_store.iterdir()] == ["notes.txt"]
    assert list(tmp_path.rglob("layers.f16"))
    check(store, own_model)
