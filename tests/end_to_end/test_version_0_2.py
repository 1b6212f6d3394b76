"""A model, a task, a folder of vectors and a prepared corpus written by modern-elmo 0.2 can be opened.

They were made from 400 random lines of 26 words by that version's commands prepare, train, fuse, task train and embed.
expected.npz holds the vectors that it gave.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import elmo.vectors
from elmo import CheckpointError, Elmo
from elmo.cli import main
from elmo.corpus.settings import PrepareSettings

FOLDER = Path(__file__).with_name("version_0_2")
SENTENCE = "the bank opened a new account"


def test_a_model_gives_the_same_vectors():
    model = Elmo.from_pretrained(FOLDER / "task" / "bilm", precision="float32")
    with np.load(FOLDER / "expected.npz") as expected:
        np.testing.assert_allclose(model.embed(SENTENCE, layers="all"), expected["all"], atol=1e-6)
        np.testing.assert_allclose(model.embed(SENTENCE, layers="meaning"), expected["meaning"], atol=2e-3)


def test_a_model_can_be_checked_and_saved_again(tmp_path, capsys):
    assert main(["info", str(FOLDER / "task" / "bilm")]) == 0, capsys.readouterr().err
    Elmo.from_pretrained(FOLDER / "task" / "bilm").save_pretrained(tmp_path / "new")
    assert json.loads((tmp_path / "new" / "config.json").read_text())["version"] == 4
    assert main(["info", str(tmp_path / "new")]) == 0, capsys.readouterr().err


def test_a_model_with_damaged_weights_is_rejected(tmp_path):
    shutil.copytree(FOLDER / "task" / "bilm", tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"content_hash": "', '"content_hash": "0', 1))
    with pytest.raises(CheckpointError, match="come from different saves"):
        Elmo.from_pretrained(tmp_path / "model")


def test_a_task_predicts():
    tasks = pytest.importorskip("elmo.tasks")
    prediction = tasks.load(FOLDER / "task").predict([SENTENCE.split()])[0]
    assert prediction.tags == ("D", "X", "X", "D", "X", "X")


def test_vectors_are_read():
    with np.load(FOLDER / "expected.npz") as expected:
        vectors = elmo.vectors.open(FOLDER / "vectors")
        assert len(vectors) == 2
        np.testing.assert_allclose(vectors[0].vectors, expected["meaning"], atol=2e-3)


def test_a_corpus_has_the_settings_that_prepare_writes_now():
    settings = json.loads((FOLDER / "corpus" / "manifest.json").read_text())["settings"]
    assert PrepareSettings(split="lines", split_on_spaces=True).to_dict() == settings


def test_a_corpus_is_trained_on(tmp_path, capsys):
    pytest.importorskip("torch")
    arguments = ["train", str(FOLDER / "corpus"), "--preset", "tiny", "--output", str(tmp_path / "run")]
    assert main([*arguments, "--set", "max_updates=1"]) == 0, capsys.readouterr().err
