"""Model folders: strict validation on reading, atomic writing."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from elmo import CheckpointError, ConfigError, Elmo
from elmo.checkpoint.folder import read_folder, write_folder
from elmo.checkpoint.open import open_checkpoint
from elmo.checkpoint.weights import content_hash
from elmo.files import durable


@pytest.fixture
def saved(tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def other_model(tiny_model):
    return Elmo.from_config(tiny_model.config, seed=1)


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_saving_and_opening_keeps_every_bit(tiny_model, saved):
    opened = read_folder(saved)
    assert opened.config == tiny_model.config
    weights = tiny_model.checkpoint().weights
    assert opened.weights.keys() == weights.keys()
    for name, array in weights.items():
        assert np.array_equal(opened.weights[name], array)
    assert sorted(path.name for path in saved.iterdir()) == ["config.json", "weights.safetensors"]


def test_word_lists_of_any_text_round_trip(own_model, tmp_path):
    from dataclasses import replace

    words = ("<S>", "</S>", "<UNK>", "\u2028", "\u0085", "tab\there", "\r", "", "naïve")
    write_folder(replace(own_model.checkpoint(), vocabulary=words), tmp_path / "model")
    assert read_folder(tmp_path / "model").vocabulary == words


def test_the_same_model_is_written_as_the_same_bytes(tiny_model, tmp_path):
    for name in ("one", "two"):
        tiny_model.save_pretrained(tmp_path / name)
    for name in ("config.json", "weights.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_saving_over_a_model_replaces_it_and_keeps_other_files(saved, other_model):
    (saved / "notes.txt").write_text("mine")
    (saved / "vocabulary.txt").write_text("of an older save\n")
    other_model.save_pretrained(saved)
    assert content_hash(read_folder(saved).weights) == content_hash(other_model.checkpoint().weights)
    assert (saved / "notes.txt").read_text() == "mine"
    assert not (saved / "vocabulary.txt").exists()


def test_a_failed_save_leaves_the_old_model_and_nothing_else(saved, other_model, monkeypatch):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def no_space(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "sync", no_space)
    with pytest.raises(CheckpointError, match=r"could not be saved to .*: .*No space left on device"):
        other_model.save_pretrained(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_saving_onto_a_file_is_refused(tiny_model, tmp_path):
    (tmp_path / "model").write_text("")
    with pytest.raises(CheckpointError, match=r"could not be saved to .*: .*Not a directory"):
        tiny_model.save_pretrained(tmp_path / "model")


def test_files_of_two_saves_are_not_mixed(saved, other_model, tmp_path):
    other_model.save_pretrained(tmp_path / "other")
    (tmp_path / "other" / "weights.safetensors").replace(saved / "weights.safetensors")
    with pytest.raises(CheckpointError, match=r"weights.safetensors and config.json come from different saves"):
        Elmo.from_pretrained(saved)


def test_missing_extra_and_misshapen_weights_are_named(saved):
    weights = load_file(saved / "weights.safetensors")
    weights["stranger"] = np.zeros(1, np.float32)
    weights["tokens.projection.bias"] = np.zeros(2, np.float32)
    del weights["left_to_right.layers.0.bias"]
    digest = content_hash(weights)
    save_file(weights, saved / "weights.safetensors", metadata={"content_hash": digest})
    change_config(saved, content_hash=digest)
    with pytest.raises(CheckpointError) as caught:
        Elmo.from_pretrained(saved)
    message = str(caught.value)
    assert "left_to_right.layers.0.bias is missing" in message
    assert "stranger is not part of the model" in message
    assert "tokens.projection.bias has shape (2,), the configuration needs (6,)" in message


def test_a_truncated_weights_file_is_explained(saved):
    content = (saved / "weights.safetensors").read_bytes()
    for kept in (len(content) // 2, 4, 0):
        (saved / "weights.safetensors").write_bytes(content[:kept])
        with pytest.raises(CheckpointError, match=r"weights.safetensors is damaged or not a supported"):
            Elmo.from_pretrained(saved)


def test_word_counts_of_another_vocabulary_are_rejected(saved):
    change_config(saved, version=3)  # without hashes of the lists
    (saved / "word_counts.txt").write_text("5\n")
    with pytest.raises(CheckpointError, match="The 1 word counts do not fit"):
        Elmo.from_pretrained(saved)


def test_unknown_formats_and_versions_are_rejected(saved):
    change_config(saved, version=True)
    with pytest.raises(CheckpointError, match="version True"):
        Elmo.from_pretrained(saved)
    change_config(saved, version=99)
    with pytest.raises(CheckpointError, match="version 99, not 1 to 4; update"):
        Elmo.from_pretrained(saved)
    change_config(saved, format="bert")
    with pytest.raises(CheckpointError, match="has the format 'bert'"):
        Elmo.from_pretrained(saved)


def test_a_misspelled_key_in_the_configuration_is_named(saved):
    model = json.loads((saved / "config.json").read_text())["model"]
    model["encoder"]["cell_dmi"] = model["encoder"].pop("cell_dim")
    change_config(saved, model=model)
    with pytest.raises(ConfigError, match="unknown key 'encoder.cell_dmi' \\(did you mean 'cell_dim'\\?\\)"):
        open_checkpoint(saved)


def test_a_folder_that_cannot_be_written_is_named(tiny_model, tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "model", tmp_path / "file" / "deeper" / "model", tmp_path / ("x" * 300)):
        with pytest.raises(CheckpointError, match=f"The model could not be saved to {folder}: "):
            tiny_model.save_pretrained(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("format", ["elmo", "hdf5"])
def test_an_empty_name_is_not_the_current_folder(tiny_model, tmp_path, monkeypatch, format):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="The folder to save to is ''"):
        tiny_model.save_pretrained("", format=format)
    with pytest.raises(CheckpointError, match="The folder to save to is None"):
        tiny_model.save_pretrained(None, format=format)
    assert list(tmp_path.iterdir()) == []
    tiny_model.save_pretrained(".", format=format)
    assert Elmo.from_pretrained(".").dim == tiny_model.dim


def test_a_format_that_cannot_be_written_is_refused(tiny_model, tmp_path):
    with pytest.raises(CheckpointError, match="format is 'zip'"):
        tiny_model.save_pretrained(tmp_path / "model", format="zip")


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int8])
def test_weights_of_another_type_are_named(saved, dtype):
    weights = load_file(saved / "weights.safetensors")
    weights["tokens.projection.bias"] = weights["tokens.projection.bias"].astype(dtype)
    digest = content_hash(weights)
    save_file(weights, saved / "weights.safetensors", metadata={"content_hash": digest})
    change_config(saved, content_hash=digest)
    message = f"tokens.projection.bias is {np.dtype(dtype)}; convert them"
    with pytest.raises(CheckpointError, match=message):
        Elmo.from_pretrained(saved)


def test_a_configuration_without_its_model_is_refused(saved):
    header = json.loads((saved / "config.json").read_text())
    del header["model"]
    (saved / "config.json").write_text(json.dumps(header))
    with pytest.raises(CheckpointError, match=r"config.json .* is damaged \(KeyError\('model'\)"):
        read_folder(saved)


@pytest.mark.parametrize("origin", [["hdf5"], "hdf5"])
def test_an_origin_that_is_not_an_object_is_refused(saved, origin):
    change_config(saved, origin=origin)
    with pytest.raises(CheckpointError, match="config.json .* is damaged"):
        read_folder(saved)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 100_000 + "]" * 100_000, "is not valid JSON"),
        ('{"version": ' + "9" * 5000 + "}", "is not valid JSON"),
        ("[]", "holds a JSON list"),
    ],
)
def test_json_that_is_out_of_bounds_is_explained(saved, content, message):
    (saved / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=message):
        read_folder(saved)


def test_whoever_may_read_the_settings_may_read_the_weights(saved):
    assert (saved / "weights.safetensors").stat().st_mode == (saved / "config.json").stat().st_mode


@pytest.mark.parametrize(
    ("section", "name", "value", "message"),
    [
        ("encoder", "num_layers", 10**9, "num_layers is 1000000000; it must be at most 1000"),
        ("encoder", "cell_dim", 10**18, "cell_dim is 1000000000000000000; it must be at most 1048576"),
        ("encoder", "cell_dim", 10**30, "cell_dim is 1000000000000000000000000000000; it must be at most"),
        ("encoder", "cell_clip", 10**400, f"encoder.cell_clip is 1{'0' * 76}...; it must be a finite number"),
        ("encoder", "forget_bias", float("nan"), "encoder.forget_bias is nan; it must be a finite number"),
        ("encoder", "cell_clip", float("inf"), "encoder.cell_clip is inf; it must be a finite number"),
        ("characters", "max_characters", 10**9, "max_characters is 1000000000; it must be at most 1024"),
        ("characters", "filters", [[1, 1]] * 100_000, "filters has 100000 entries; 1 to 1000 are possible"),
        ("characters", "filters", [[1, 2**40]], "the channels 1 to 1048576"),
        ("characters", "num_highways", 10**7, "num_highways is 10000000; it must be at most 1000"),
        ("softmax", "num_words", 10**30, "num_words is 1000000000000000000000000000000; it must be at most"),
    ],
)
def test_settings_that_no_model_has_are_refused(saved, section, name, value, message):
    config = json.loads((saved / "config.json").read_text())
    config["model"][section] = {**(config["model"][section] or {}), name: value}
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_folder(saved)
