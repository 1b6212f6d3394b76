"""The vectors that the original programs gave for small models, and ours.

Models of ours in the published layouts are in fixtures/. Those of the original programs' own tests are beside the
project on some machines only.
"""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo import Elmo
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.checkpoint.open import open_checkpoint

FIXTURES = Path(__file__).parent / "fixtures"
CARRIED = ("allennlp", "bilm-tf-two-layers", "bilm-tf-one-layer")
TOLERANCE = 1e-5


def assert_close(vectors, expected):
    np.testing.assert_allclose(vectors, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", CARRIED)
def test_all_layers_of_several_batches_with_carried_state(name):
    model = Elmo.from_pretrained(FIXTURES / name, state="carry", precision="float32")
    batches = json.loads((FIXTURES / name / "batches.json").read_text(encoding="utf-8"))
    with np.load(FIXTURES / name / "expected.npz") as expected:
        for number, batch in enumerate(batches):
            for row, vectors in enumerate(model.embed(batch, layers="all")):
                assert_close(vectors, expected[f"{number}_{row}"])


def check_manylangs(folder):
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    model = Elmo.from_pretrained(folder, precision="float32")
    with np.load(folder / "expected.npz") as expected:
        for number, vectors in enumerate(model.embed(sentences, layers="all")):
            assert_close(vectors, expected[str(number)])


def test_manylangs_all_layers():
    pytest.importorskip("torch", reason="pickles of ELMoForManyLangs need torch")
    check_manylangs(FIXTURES / "manylangs")


def test_manylangs_of_the_original_program(original_vectors):
    check_manylangs(original_vectors / "manylangs")


def test_bilm_tf_thirty_sentences_with_carried_state(original_vectors):
    folder = original_vectors / "bilm-tf"
    streams = json.loads((folder / "lm_embeddings_sentences.json").read_text())
    model = Elmo.from_pretrained(folder, state="carry", precision="float32")
    for number in range(10):
        batch = [stream[number].split() for stream in streams]
        for stream, vectors in enumerate(model.embed(batch, layers="top")):
            with h5py.File(folder / f"lm_embeddings_{stream}.hdf5") as file:
                assert_close(vectors, np.concatenate(file[str(number)][...], axis=-1))  # (2, T, D)


@pytest.mark.parametrize("format_name", ["hdf5", "tensorflow"])
def test_allennlp_all_layers_of_two_batches_with_carried_state(original_vectors, format_name):
    if format_name == "tensorflow":
        pytest.importorskip("tensorflow", reason="the extra modern-elmo[tensorflow] is not installed")
    folder = original_vectors / "tf-checkpoint"
    sentences = json.loads((folder / "sentences.json").read_text())
    model = Elmo.from_pretrained(folder, format=format_name, state="carry", precision="float32")
    with np.load(folder / "expected.npz") as expected:
        for batch in ("first", "second"):
            for number, vectors in enumerate(model.embed(sentences[batch], layers="all")):
                assert_close(vectors, expected[f"{batch}_{number}"])


def test_the_tensorflow_checkpoint_equals_its_hdf5_dump(original_vectors):
    pytest.importorskip("tensorflow", reason="the extra modern-elmo[tensorflow] is not installed")
    folder = original_vectors / "tf-checkpoint"
    checkpoint, dump = open_checkpoint(folder, format="tensorflow"), open_checkpoint(folder)
    assert set(checkpoint.weights) - set(dump.weights) == {"softmax.weight", "softmax.bias"}
    for name, weight in dump.weights.items():
        assert np.array_equal(weight, checkpoint.weights[name]), name


def test_the_imported_softmax_gives_the_original_perplexity(original_vectors):
    pytest.importorskip("tensorflow", reason="the extra modern-elmo[tensorflow] is not installed")
    folder = original_vectors / "tf-checkpoint"
    model = Elmo.from_pretrained(folder, format="tensorflow", state="carry", precision="float32")
    weights = model.checkpoint().weights
    begin, end = model.vocabulary.boundaries().tolist()
    losses = []
    for line in (folder / "heldout.txt").read_text(encoding="utf-8").splitlines():
        words = line.split()
        targets = model.vocabulary.encode(words).tolist()
        left_to_right, right_to_left = model._runtime.predict(model._indexer.batch([words]))
        for states, wanted in ((left_to_right, [*targets, end]), (right_to_left, [begin, *targets])):
            logits = np.asarray(states[0], np.float64) @ weights["softmax.weight"].T + weights["softmax.bias"]
            log_sums = np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)) + logits.max(axis=1)
            losses += (log_sums - logits[range(len(wanted)), wanted]).tolist()
    assert len(losses) == 2 * 1571
    assert float(np.exp(np.mean(losses))) == pytest.approx(33.68909, abs=1e-3)


@pytest.mark.parametrize("name", CARRIED)
def test_import_export_import_keeps_every_bit(name, tmp_path):
    first = open_checkpoint(FIXTURES / name)
    write_hdf5(first, tmp_path / name)
    second = open_checkpoint(tmp_path / name)
    assert first.config == second.config
    assert all(np.array_equal(weight, second.weights[key]) for key, weight in first.weights.items())
