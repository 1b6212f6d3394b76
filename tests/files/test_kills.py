"""Processes that are killed before any of their file operations lose nothing, mix nothing and leave nothing.

Process ids play no part: the killed process and the next one are forks of the same process.
"""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from elmo.checkpoint import change_vocabulary, open_checkpoint, write_folder
from elmo.checkpoint.components import ContextLayer
from elmo.checkpoint.formats import hdf5
from elmo.checkpoint.weights import content_hash
from elmo.config import ContextConfig
from tests.files.kills import kill_everywhere
from tests.language_models import VOCABULARY, make_language_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.needs("fork")]
CARD = "---\nlicense: mit\n---\n# A model\n"


def make_context(words, word_dim, seed):
    draw = np.random.default_rng(seed)
    dim = 3
    shapes = {
        "scales": len(words), "weights": len(words), "unknown_map": (word_dim, dim), "unknown_bias": dim,
        "sentence_scale": dim, "sentence_components": (0, dim), "word_mean": word_dim,
        "word_components": (0, word_dim),
    }  # fmt: skip
    arrays = {name: draw.random(shape, dtype=np.float32) for name, shape in shapes.items()}
    vectors = draw.integers(-127, 127, (len(words), dim)).astype(np.int8)
    return ContextLayer(ContextConfig(len(words), dim, num_components=0), words, {"vectors": vectors, **arrays})


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # a kill loses nothing that the system has


@pytest.fixture(scope="module")
def models():
    """Two models that differ in every file."""
    first = make_language_model(seed=1).checkpoint()
    second = make_language_model(tuple(reversed(VOCABULARY)), seed=2).checkpoint()
    dim = first.config.encoder.output_dim
    return [
        replace(
            checkpoint,
            word_counts=tuple(range(number, number + len(VOCABULARY))),
            aliases={"x": VOCABULARY[number]},
            context=make_context(("a", "b", "c")[number:], dim, number),
            card=f"{CARD}{number}\n",
        )
        for number, checkpoint in enumerate((first, second))
    ]


def describe(checkpoint):
    context = checkpoint.context
    return (
        content_hash({name: np.asarray(weight) for name, weight in checkpoint.weights.items()}),
        checkpoint.vocabulary, checkpoint.word_counts, dict(checkpoint.aliases), checkpoint.card,
        context and context.content_hash(),
    )  # fmt: skip


def list_names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def kill_writing(write, folder, old, tmp_path):
    """Kill `write` everywhere, each time over `old` (a folder, or None); return the number of kills."""

    def reset():
        shutil.rmtree(folder, ignore_errors=True)
        if old is not None:
            shutil.copytree(old, folder)

    reset()
    write()
    expected, names = describe(open_checkpoint(folder)), list_names(tmp_path)
    allowed = [expected] if old is None else [expected, describe(open_checkpoint(old))]
    num_kills = 0
    reset()
    for _ in kill_everywhere(write, tmp_path):
        num_kills += 1
        if old is not None or folder.exists():
            assert describe(open_checkpoint(folder)) in allowed
        write()
        assert describe(open_checkpoint(folder)) == expected
        assert list_names(tmp_path) == names
        reset()
    return num_kills


def test_models_are_old_or_new_whenever_their_writer_is_killed(models, tmp_path):
    old, new = models
    before = tmp_path / "before"
    write_folder(old, before)
    hdf5_model = replace(new, context=None, aliases={}, word_counts=None)
    output = tmp_path / "out"
    words = [*VOCABULARY[:-1], "fish", VOCABULARY[-1]]
    plain = make_language_model().checkpoint()
    writers = {
        "save": (lambda: write_folder(new, output), before),
        "save to a new folder": (lambda: write_folder(new, output), None),
        "save without lists": (lambda: write_folder(plain, output), before),
        "convert": (lambda: write_folder(new, output, storage="float16"), None),
        "convert to HDF5": (lambda: hdf5.write_hdf5(hdf5_model, output), None),
        "vocab": (lambda: write_folder(change_vocabulary(old, words), output), before),
        "fuse": (lambda: write_folder(replace(old, context=new.context), output), before),
    }
    num_kills = {name: kill_writing(write, output, start, tmp_path) for name, (write, start) in writers.items()}
    assert sum(num_kills.values()) >= 200, num_kills


def test_a_replacement_that_was_killed_is_never_deleted_by_a_run_that_fails(models, tmp_path):
    old, new = models
    folder = tmp_path / "model"
    write_folder(old, folder)
    expected = [describe(old), describe(replace(new, card=old.card))]  # a README.md that is there stays
    huge = {name: np.full_like(weight, 1e5) for name, weight in new.weights.items()}

    def fail():
        with pytest.raises(Exception, match="float16 cannot hold"):
            write_folder(replace(new, weights=huge), folder, storage="float16")

    for _ in kill_everywhere(lambda: write_folder(new, folder), tmp_path):
        fail()
        assert describe(open_checkpoint(folder)) in expected
        shutil.rmtree(folder)
        write_folder(old, folder)


@pytest.fixture
def texts(tmp_path):
    paths = tmp_path / "text.txt", tmp_path / "other.txt"
    paths[0].write_text("the bank of the river\nthe money of the bank\n" * 5)
    paths[1].write_text("the river went\nto the bank\n" * 5)
    return paths


def kill_growing(write, begin, folder):
    """Kill `write` everywhere, each time after `begin`; the next run must make what an undisturbed one makes."""
    begin()
    write()
    expected, names = (folder / "manifest.json").read_bytes(), list_names(folder)
    num_kills = 0
    begin()
    for _ in kill_everywhere(write, folder):
        num_kills += 1
        write()
        assert (folder / "manifest.json").read_bytes() == expected and list_names(folder) == names
        begin()
    return num_kills


def test_a_corpus_that_is_killed_while_it_is_replaced_is_the_new_one_after_the_next_run(texts, tmp_path):
    from elmo.corpus.prepare import prepare

    folder = tmp_path / "corpus"
    prepare(texts[0], tmp_path / "before", num_workers=1, min_count=1)

    def begin():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "before", folder)

    assert kill_growing(lambda: prepare(texts[1], folder, num_workers=1, min_count=1, force=True), begin, folder) >= 10


def test_vectors_that_are_killed_while_they_are_replaced_are_the_new_ones_after_the_next_run(texts, tmp_path):
    from elmo.vectors import embed_files

    model, folder = make_language_model(), tmp_path / "vectors"
    embed_files(model, [str(texts[0])], tmp_path / "before")

    def begin():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "before", folder)

    assert kill_growing(lambda: embed_files(model, [str(texts[1])], folder, force=True), begin, folder) >= 10


def test_an_index_whose_build_is_killed_is_whole_after_the_next_run(texts, tmp_path):
    pytest.importorskip("faiss")
    from elmo.analysis import build_index

    model, folder = make_language_model(), tmp_path / "index"
    write = lambda: build_index(model, folder, [str(path) for path in texts])  # noqa: E731
    assert kill_growing(write, lambda: shutil.rmtree(folder, ignore_errors=True), folder) >= 10
