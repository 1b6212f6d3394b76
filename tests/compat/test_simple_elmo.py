"""simple_elmo's ElmoModel."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from elmo import CheckpointError, InputError
from elmo.compat.simple_elmo import ElmoModel
from elmo.model import Elmo

from .conftest import with_wrong_sentences

SENTENCES = [["the", "bank"], ["a"], [], ["I", "went", "to", "the", "bank"], ["a", "river"]]


@pytest.fixture
def model(tiny_folder: Path) -> ElmoModel:
    made = ElmoModel()
    assert made.load(str(tiny_folder), max_batch_size=2) == "The model is now loaded."
    return made


@pytest.fixture
def fresh(tiny_folder: Path) -> ElmoModel:
    made = ElmoModel(stateful=False)
    made.load(tiny_folder, max_batch_size=2)
    return made


def test_a_loaded_model_has_its_attributes(model: ElmoModel):
    assert (model.batch_size, model.vector_size, model.n_layers, model.max_chars) == (2, 12, 3, 50)
    assert ElmoModel().vector_size is None


@pytest.mark.parametrize(("layers", "shape"), [("average", (5, 5, 12)), ("top", (5, 5, 12)), ("all", (5, 3, 5, 12))])
def test_vectors_are_padded_with_zeros(fresh: ElmoModel, tiny_model: Elmo, layers, shape):
    vectors = fresh.get_elmo_vectors(SENTENCES, layers=layers)
    assert vectors.shape == shape and vectors.dtype == np.float32
    for row, array in zip(vectors, tiny_model.embed(SENTENCES, layers=layers), strict=True):
        np.testing.assert_allclose(row[..., : array.shape[-2], :], array, atol=1e-6)
        assert not row[..., array.shape[-2] :, :].any()


@pytest.mark.parametrize("layers", ["average", "top", "all"])
def test_averages_are_over_the_words_alone_and_of_length_one(fresh: ElmoModel, tiny_model: Elmo, layers):
    averages = fresh.get_elmo_vector_average(SENTENCES, layers=layers)
    assert averages.shape == ((5, 3, 12) if layers == "all" else (5, 12))
    for row, array in zip(averages, tiny_model.embed(SENTENCES, layers=layers), strict=True):
        if not array.size:
            assert not row.any()
            continue
        mean = array.mean(axis=-2)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-5)


def test_batches_of_a_call_carry_the_state(model: ElmoModel, tiny_model: Elmo):
    engine = Elmo(tiny_model.checkpoint(), state="carry")
    vectors = model.get_elmo_vectors(SENTENCES, warmup=False)
    arrays = [array for start in (0, 2, 4) for array in engine.embed(SENTENCES[start : start + 2])]
    for row, array in zip(vectors, arrays, strict=True):
        np.testing.assert_allclose(row[: len(array)], array, atol=1e-6)


def test_warming_up_reads_the_first_batch_once_more(tiny_folder: Path, model: ElmoModel, tiny_model: Elmo):
    engine = Elmo(tiny_model.checkpoint(), state="carry")
    engine.embed(SENTENCES[:2])
    expected = engine.embed(SENTENCES[:2])
    warmed = model.get_elmo_vectors(SENTENCES)
    np.testing.assert_allclose(warmed[0, :2], expected[0], atol=1e-6)
    cold = ElmoModel()
    cold.load(tiny_folder, max_batch_size=2)
    assert not np.allclose(warmed, cold.get_elmo_vectors(SENTENCES, warmup=False), atol=1e-4)


def test_state_is_carried_by_default_and_only_then(model: ElmoModel, fresh: ElmoModel):
    first = model.get_elmo_vectors(SENTENCES[:2], warmup=False)
    assert not np.allclose(model.get_elmo_vectors(SENTENCES[:2], warmup=False), first, atol=1e-4)
    model.reset_state()
    np.testing.assert_array_equal(model.get_elmo_vectors(SENTENCES[:2], warmup=False), first)
    for warmup in (False, True):
        np.testing.assert_allclose(fresh.get_elmo_vectors(SENTENCES[:2], warmup=warmup), first, atol=1e-6)


def test_both_batches_of_the_original_with_the_state_carried(original_vectors: Path):
    folder = original_vectors / "tf-checkpoint"
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))
    model = ElmoModel()
    model.load(folder)
    with np.load(folder / "expected.npz") as expected:
        for name in ("first", "second"):
            vectors = model.get_elmo_vectors(sentences[name], warmup=False, layers="all")
            for row, words in enumerate(sentences[name]):
                np.testing.assert_allclose(vectors[row, :, : len(words)], expected[f"{name}_{row}"], atol=1e-5)


def test_a_full_model_is_the_tensorflow_checkpoint(original_vectors: Path):
    pytest.importorskip("tensorflow", reason="TensorFlow checkpoints need TensorFlow")
    folder = original_vectors / "tf-checkpoint"
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))["first"]
    full, light = ElmoModel(), ElmoModel()
    full.load(folder, full=True)
    light.load(folder)
    np.testing.assert_allclose(full.get_elmo_vectors(sentences), light.get_elmo_vectors(sentences), atol=1e-5)


def test_zip_archives_and_the_preferred_file_name(tiny_folder: Path, tmp_path: Path):
    shutil.copy(tiny_folder / "options.json", tmp_path / "options.json")
    shutil.copy(tiny_folder / "weights.hdf5", tmp_path / "model.hdf5")
    shutil.copy(tiny_folder / "weights.hdf5", tmp_path / "another.hdf5")
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("options.json", "model.hdf5"):
            file.write(tmp_path / name, name)
    for source in (tmp_path, archive):
        model = ElmoModel()
        model.load(source)
        assert model.get_elmo_vectors(SENTENCES).shape == (5, 5, 12)


@with_wrong_sentences
def test_input_other_than_lists_of_words_is_an_error(model: ElmoModel, sentences, message):
    for method in (model.get_elmo_vectors, model.get_elmo_vector_average):
        with pytest.raises(InputError, match=message):
            method(sentences)


def test_unsupported_arguments_are_rejected(model: ElmoModel, tiny_folder: Path):
    with pytest.raises(InputError, match="layers is 'first'"):
        model.get_elmo_vector_average(SENTENCES, layers="first")
    with pytest.raises(InputError, match="max_batch_size is 0"):
        ElmoModel().load(tiny_folder, max_batch_size=0)
    with pytest.raises(InputError, match="No model is loaded"):
        ElmoModel().get_elmo_vectors(SENTENCES)
    with pytest.raises(CheckpointError, match="No model was found at"):
        ElmoModel().load("./nowhere")


def test_numpy_arrays_of_words_are_sentences(fresh: ElmoModel):
    words = [["the", "bank"], ["a", "river"]]
    expected = fresh.get_elmo_vectors(words)
    np.testing.assert_array_equal(fresh.get_elmo_vectors(np.array(words)), expected)
