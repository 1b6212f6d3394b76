import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elmo import Elmo
from elmo.checkpoint.folder import read_folder, write_folder
from elmo.checkpoint.source import installed_models
from elmo.config import SoftmaxConfig, WordConfig
from elmo.files import durable
from tests.cli.conftest import Run
from tests.conftest import TINY_CONFIG
from tests.language_models import make_language_model

SENTENCE = "I went to the bank"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def hdf5_folder(run: Run, model_folder, tmp_path) -> Path:
    assert run("convert", model_folder, tmp_path / "old", "--to", "hdf5").code == 0
    return tmp_path / "old"


def test_there_and_back_gives_the_same_vectors(run: Run, hdf5_folder, tiny_model, tmp_path):
    assert names(hdf5_folder) == ["options.json", "weights.hdf5"]
    new = tmp_path / "new"
    answer = run("convert", hdf5_folder / "weights.hdf5", new)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"Wrote {new}: config.json, weights.safetensors.\n"
    for folder in (hdf5_folder, new):
        found = Elmo.from_pretrained(folder).embed(SENTENCE, layers="all")
        np.testing.assert_allclose(found, tiny_model.embed(SENTENCE, layers="all"), atol=1e-6)
    assert names(tmp_path) == ["new", "old"]


def test_parts_missing_from_hdf5_are_reported(run: Run, tmp_path):
    config = replace(
        TINY_CONFIG,
        characters=None,
        words=WordConfig(4, 6, max_word_length=20),
        token_projection=False,
        softmax=SoftmaxConfig(4),
        unknown_word="<oov>",
    )
    model = Elmo.from_config(config, vocabulary=("<S>", "</S>", "<oov>", "bank"))
    model.save_pretrained(tmp_path / "in")
    answer = run("convert", tmp_path / "in", tmp_path / "out", "--to", "hdf5")
    assert answer.out.splitlines() == [
        f"Wrote {tmp_path / 'out'}: options.json, vocab.txt, weights.hdf5.",
        "HDF5 has no place for these, so they were not written: softmax.",
    ]


def test_a_model_that_hdf5_has_no_name_for(run: Run, tmp_path):
    config = replace(TINY_CONFIG, words=WordConfig(4, 3))
    Elmo.from_config(config, vocabulary=("<S>", "</S>", "<UNK>", "a")).save_pretrained(tmp_path / "in")
    message = "This model cannot be written as bilm-tf HDF5: it reads both words and characters."
    assert message in run("convert", tmp_path / "in", tmp_path / "out", "--to", "hdf5").message()
    assert names(tmp_path) == ["in"]


def test_a_folder_in_use_is_left_alone(run: Run, model_folder, hdf5_folder, tmp_path):
    (tmp_path / "file").write_text("mine")
    for output in (hdf5_folder, tmp_path / "file"):
        message = f"{output} exists and is not an empty folder"
        assert message in run("convert", model_folder, output).message()
    assert names(hdf5_folder) == ["options.json", "weights.hdf5"]


def test_an_empty_folder_is_filled(run: Run, model_folder, tmp_path):
    (tmp_path / "out").mkdir()
    assert run("convert", model_folder, tmp_path / "out").code == 0
    assert names(tmp_path / "out") == ["config.json", "weights.safetensors"]


def test_out_in_no_folder(run: Run, model_folder, tmp_path):
    message = f"The folder {tmp_path / 'no'} does not exist"
    assert message in run("convert", model_folder, tmp_path / "no" / "out").message()


@pytest.mark.parametrize("format", ["elmo", "hdf5"])
@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (OSError(28, "No space left on device"), 2, "No space left on device"),
        (PermissionError(13, "Permission denied", "out"), 2, "Permission denied"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_failure_leaves_no_folder(run: Run, model_folder, tmp_path, monkeypatch, format, failure, code, message):
    def fail(path):
        raise failure

    monkeypatch.setattr(durable, "sync", fail)
    answer = run("convert", model_folder, tmp_path / "out", "--to", format)
    assert answer.code == code and message in answer.err and answer.err.count("\n") == 1
    assert not names(tmp_path)


@pytest.mark.parametrize("storage", ["float32", "float16", "compact"])
def test_convert_keeps_the_storage_form_the_card_and_every_bit(run: Run, tmp_path, storage):
    model = make_language_model()
    card = "---\nlicense: mit\n---\n# Tiny\n"
    write_folder(replace(model.checkpoint(), card=card), tmp_path / "in", storage=storage)
    assert run("convert", tmp_path / "in", tmp_path / "out").code == 0
    for name in ("config.json", "weights.safetensors", "vocabulary.txt", "README.md"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "in" / name).read_bytes(), name
    assert run("convert", tmp_path / "in", tmp_path / "exact", "--storage", "float32").code == 0
    assert read_folder(tmp_path / "exact").storage == "float32"


def test_the_default_model_is_converted_to_the_same_bytes(run: Run, tmp_path):
    assert run("convert", "en-small", tmp_path / "out").code == 0
    for file in installed_models()["en-small"].iterdir():
        copy = (tmp_path / "out" / file.name).read_bytes()
        if file.name == "config.json":  # it may have been written by an earlier version of the format
            old, new = json.loads(file.read_bytes()), json.loads(copy)
            later = {"version", "lists"}
            assert {**new, **dict.fromkeys(later)} == {**old, **dict.fromkeys(later)}
        else:
            assert copy == file.read_bytes(), file.name
