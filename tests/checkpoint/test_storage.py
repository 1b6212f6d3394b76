"""Compact storage of weights: what it changes, what it keeps, and what cannot be stored."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from elmo import CheckpointError, Elmo
from elmo.checkpoint.folder import read_folder, write_folder
from elmo.checkpoint.weights import StoredWeights, content_hash, convert_weights
from tests.language_models import make_language_model

SENTENCE = "the cat sat on the mat"


@pytest.fixture
def language_model():
    return make_language_model()


def test_float16_takes_half_the_bytes_and_keeps_the_vectors(language_model, tmp_path):
    language_model.save_pretrained(tmp_path / "whole")
    language_model.save_pretrained(tmp_path / "half", storage="float16")
    sizes = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.75 * sizes[0]
    opened = Elmo.from_pretrained(tmp_path / "half")
    np.testing.assert_allclose(opened.embed(SENTENCE), language_model.embed(SENTENCE), atol=5e-3)
    assert all(weight.dtype == np.float32 for weight in opened.checkpoint().weights.values())


def test_compact_has_the_softmax_in_8_bits_with_one_scale_per_word(language_model, tmp_path):
    language_model.save_pretrained(tmp_path, storage="compact")
    stored = load_file(tmp_path / "weights.safetensors")
    assert stored["softmax.weight"].dtype == np.int8
    assert stored["softmax.weight.scale"].shape == stored["softmax.weight"].shape[:1]
    expected = language_model.checkpoint().weights["softmax.weight"]
    actual = read_folder(tmp_path).weights["softmax.weight"]
    assert not np.array_equal(actual, expected)
    assert (abs(actual - expected) <= abs(expected).max(axis=1, keepdims=True) / 254 + 1e-7).all()
    score, same = (model.score(SENTENCE).perplexity for model in (language_model, Elmo.from_pretrained(tmp_path)))
    assert same == pytest.approx(score, rel=1e-2)


@pytest.mark.parametrize("storage", ["float16", "compact"])
def test_storing_twice_changes_nothing(language_model, tmp_path, storage):
    language_model.save_pretrained(tmp_path / "once", storage=storage)
    once = read_folder(tmp_path / "once")
    Elmo(once).save_pretrained(tmp_path / "twice", storage="float32")
    assert content_hash(read_folder(tmp_path / "twice").weights) == content_hash(once.weights)


def test_a_softmax_row_of_zeros_stays_zero():
    weights = {"softmax.weight": np.zeros((2, 3), np.float32)}
    assert np.array_equal(
        StoredWeights(convert_weights(weights, "compact"))["softmax.weight"], weights["softmax.weight"]
    )


def test_values_too_large_for_float16_are_refused_and_nothing_is_written(language_model, tmp_path):
    checkpoint = language_model.checkpoint()
    bias = np.full_like(checkpoint.weights["softmax.bias"], 1e5)
    large = replace(checkpoint, weights={**checkpoint.weights, "softmax.bias": bias})
    with pytest.raises(CheckpointError, match=r"softmax\.bias has values that float16 cannot hold \(up to 1e\+05"):
        write_folder(large, tmp_path / "model", storage="float16")
    assert list(tmp_path.iterdir()) == []


def test_a_storage_that_is_not_known_is_refused(language_model, tmp_path):
    with pytest.raises(CheckpointError, match="storage is 'int4'"):
        language_model.save_pretrained(tmp_path / "model", storage="int4")
    with pytest.raises(CheckpointError, match="HDF5 models are stored in float32"):
        language_model.save_pretrained(tmp_path / "model", format="hdf5", storage="float16")


def test_8_bits_without_their_scale_are_named(language_model, tmp_path):
    language_model.save_pretrained(tmp_path, storage="compact")
    stored = load_file(tmp_path / "weights.safetensors")
    del stored["softmax.weight.scale"]
    recorded = {"content_hash": content_hash(read_folder(tmp_path).weights)}
    save_file(stored, tmp_path / "weights.safetensors", metadata=recorded)
    with pytest.raises(CheckpointError, match=r"softmax\.weight is int8"):
        read_folder(tmp_path)
