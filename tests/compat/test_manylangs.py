"""ELMoForManyLangs' Embedder."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elmo import InputError
from elmo.compat.manylangs import Embedder
from elmo.model import Elmo

from ..conftest import TINY_CONFIG
from .conftest import with_wrong_sentences

SENTENCES = [["a"], ["the", "river", "bank"], [], ["b", "c"], ["d"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose boundaries are spelled as ELMoForManyLangs does."""
    made = tmp_path_factory.mktemp("manylangs")
    config = replace(TINY_CONFIG, begin_word="<bos>", end_word="<eos>", unknown_word="<oov>")
    Elmo.from_config(config).save_pretrained(made)
    return made


def test_one_batch_of_the_original(original_vectors: Path):
    folder = original_vectors / "manylangs"
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))
    with np.load(folder / "expected.npz") as expected:
        layers = [expected[str(number)] for number in range(len(sentences))]
    chosen = {-2: lambda array: array, -1: lambda array: array.mean(axis=0), 1: lambda array: array[1]}
    for output_layer, choose in chosen.items():
        arrays = Embedder(folder).sents2elmo(sentences, output_layer)
        for array, wanted in zip(arrays, layers, strict=True):
            np.testing.assert_allclose(array, choose(wanted), atol=1e-5)


def test_layers_are_averaged_given_all_or_one_by_one(folder: Path):
    embedder = Embedder(folder, stateful=False)
    every = embedder.sents2elmo(SENTENCES, output_layer=-2)
    assert [array.shape for array in every] == [(3, len(words), 12) for words in SENTENCES]
    for array, wanted in zip(embedder.sents2elmo(SENTENCES), every, strict=True):
        np.testing.assert_allclose(array, wanted.mean(axis=0), atol=1e-6)
    for layer in range(3):
        for array, wanted in zip(embedder.sents2elmo(SENTENCES, layer), every, strict=True):
            np.testing.assert_allclose(array, wanted[layer], atol=1e-6)


def test_batches_go_by_falling_length_and_carry_the_state(folder: Path):
    engine = Elmo(Elmo.from_pretrained(folder).checkpoint(), state="carry")
    arrays = Embedder(folder, batch_size=2).sents2elmo(SENTENCES)
    for numbers in ((1, 3), (0, 4), (2,)):
        for number, wanted in zip(numbers, engine.embed([SENTENCES[n] for n in numbers]), strict=True):
            np.testing.assert_allclose(arrays[number], wanted, atol=1e-6)


def test_state_is_carried_by_default_and_only_then(folder: Path):
    carrying, fresh = Embedder(folder), Embedder(folder, stateful=False)
    first, second = carrying.sents2elmo(SENTENCES)[1], carrying.sents2elmo(SENTENCES)[1]
    assert not np.allclose(first, second, atol=1e-4)
    for _ in range(2):
        np.testing.assert_allclose(fresh.sents2elmo(SENTENCES)[1], first, atol=1e-6)
    carrying.reset_state()
    np.testing.assert_array_equal(carrying.sents2elmo(SENTENCES)[1], first)


def test_without_state_batches_do_not_matter(folder: Path):
    whole, cut = Embedder(folder, stateful=False), Embedder(folder, batch_size=1, stateful=False)
    for one, other in zip(whole.sents2elmo(SENTENCES), cut.sents2elmo(SENTENCES), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_spelled_boundary_is_one(folder: Path):
    embedder = Embedder(folder, stateful=False)
    literal = embedder.sents2elmo([["a", "<bos>", "b"]], -2)[0]
    as_letters = Elmo.from_pretrained(folder).embed([["a", "<bos>", "b"]], layers="all")[0]
    assert not np.allclose(literal, as_letters, atol=1e-4)


@pytest.mark.parametrize("output_layer", [-3, 3, "all", None])
def test_an_unknown_layer_is_refused(folder: Path, output_layer):
    with pytest.raises(InputError) as caught:
        Embedder(folder).sents2elmo(SENTENCES, output_layer)
    assert str(caught.value) == (
        f"output_layer is {output_layer!r}; give -1 for the average of the layers, -2 for all of them, or one "
        "from 0 to 2."
    )


@with_wrong_sentences
def test_input_other_than_lists_of_words_is_an_error(folder: Path, sentences, message):
    with pytest.raises(InputError, match=message):
        Embedder(folder).sents2elmo(sentences)


def test_a_batch_size_below_one_is_refused(folder: Path):
    with pytest.raises(InputError, match="batch_size is 0"):
        Embedder(folder, batch_size=0)


def test_numpy_arrays_of_words_are_sentences(folder: Path):
    embedder, words = Embedder(folder, stateful=False), [["the", "bank"], ["a", "river"]]
    np.testing.assert_array_equal(embedder.sents2elmo(np.array(words)), embedder.sents2elmo(words))
