"""The vectors that the original programs gave for small models, and ours."""

import json

import h5py
import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.checkpoint.open import open_checkpoint

TOLERANCE = 1e-5


def test_bilm_tf_thirty_sentences_with_carried_state(original_vectors):
    folder = original_vectors / "bilm-tf"
    streams = json.loads((folder / "lm_embeddings_sentences.json").read_text())
    model = Elmo.from_pretrained(folder, state="carry")
    for number in range(10):
        batch = [stream[number].split() for stream in streams]
        for stream, found in enumerate(model.embed(batch, layers="top")):
            with h5py.File(folder / f"lm_embeddings_{stream}.hdf5") as file:
                expected = np.concatenate(file[str(number)][...], axis=-1)  # (2, T, D): one a direction
            np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)


def test_manylangs_all_layers(original_vectors):
    folder = original_vectors / "manylangs"
    sentences = json.loads((folder / "sentences.json").read_text())
    with np.load(folder / "expected.npz") as expected:
        for number, found in enumerate(Elmo.from_pretrained(folder).embed(sentences, layers="all")):
            np.testing.assert_allclose(found, expected[str(number)], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("format_name", ["hdf5", "tensorflow"])
def test_allennlp_all_layers_of_two_batches_with_carried_state(original_vectors, format_name):
    if format_name == "tensorflow":
        pytest.importorskip("tensorflow", reason="the extra modern-elmo[tensorflow] is not installed")
    folder = original_vectors / "tf-checkpoint"
    sentences = json.loads((folder / "sentences.json").read_text())
    model = Elmo.from_pretrained(folder, format=format_name, state="carry")
    with np.load(folder / "expected.npz") as expected:
        for batch in ("first", "second"):
            for number, found in enumerate(model.embed(sentences[batch], layers="all")):
                np.testing.assert_allclose(found, expected[f"{batch}_{number}"], atol=TOLERANCE, rtol=0)


def test_the_tensorflow_checkpoint_equals_its_hdf5_dump(original_vectors):
    pytest.importorskip("tensorflow", reason="the extra modern-elmo[tensorflow] is not installed")
    folder = original_vectors / "tf-checkpoint"
    checkpoint, dump = open_checkpoint(folder, format="tensorflow"), open_checkpoint(folder)
    assert set(checkpoint.weights) - set(dump.weights) == {"softmax.weight", "softmax.bias"}
    for name, tensor in dump.weights.items():
        assert np.array_equal(tensor, checkpoint.weights[name]), name


def test_the_imported_softmax_gives_the_original_perplexity(original_vectors):
    pytest.importorskip("tensorflow", reason="the extra modern-elmo[tensorflow] is not installed")
    folder = original_vectors / "tf-checkpoint"
    model = Elmo.from_pretrained(folder, format="tensorflow", state="carry")
    begin, end = model.vocabulary.boundaries().tolist()
    losses = []
    for line in (folder / "heldout.txt").read_text(encoding="utf-8").splitlines():
        words = line.split()
        batch = model.indexer.batch([words])
        targets = model.vocabulary.encode(words).tolist()
        with torch.inference_mode():
            ahead, back = model.runtime.predict(batch)
            for states, wanted in ((ahead, [*targets, end]), (back, [begin, *targets])):
                losses += (-model.bilm.softmax(states[0])[range(len(wanted)), wanted]).tolist()
    assert len(losses) == 2 * 1571
    assert float(np.exp(np.mean(losses))) == pytest.approx(33.68909, abs=1e-3)


def test_import_export_import_keeps_every_bit_of_the_original_models(original_vectors, tmp_path):
    for name in ("bilm-tf", "tf-checkpoint"):
        first = open_checkpoint(original_vectors / name)
        write_hdf5(first, tmp_path / name)
        second = open_checkpoint(tmp_path / name)
        assert first.config == second.config
        assert all(np.array_equal(tensor, second.weights[key]) for key, tensor in first.weights.items())
