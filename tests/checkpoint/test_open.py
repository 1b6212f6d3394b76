"""Detection of the format of a path, ambiguous folders, and archives."""

import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo import CheckpointError, Elmo
from elmo.checkpoint import source as source_module
from elmo.checkpoint.open import open_checkpoint

from . import bilm_files


def zip_folder(folder, target, *, inside=""):
    with zipfile.ZipFile(target, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, inside + path.name)
    return target


def test_ours_goes_before_the_other_formats_in_a_folder(hdf5_folder, manylangs_folder):
    assert open_checkpoint(hdf5_folder).origin["format"] == "hdf5"
    for path in manylangs_folder.iterdir():
        shutil.copy(path, hdf5_folder)
    assert open_checkpoint(hdf5_folder).origin["format"] == "manylangs"
    assert open_checkpoint(hdf5_folder, format="hdf5").origin["format"] == "hdf5"
    model = Elmo.from_pretrained(hdf5_folder, format="hdf5")
    model.save_pretrained(hdf5_folder)
    np.testing.assert_array_equal(Elmo.from_pretrained(hdf5_folder).embed("a b"), model.embed("a b"))
    assert Elmo.from_pretrained(hdf5_folder).config.encoder.forget_bias == 1.0


def test_the_path_of_the_hdf5_file_itself_is_accepted(hdf5_folder):
    by_folder, by_file = Elmo.from_pretrained(hdf5_folder), Elmo.from_pretrained(hdf5_folder / "weights.hdf5")
    np.testing.assert_array_equal(by_folder.embed("a b"), by_file.embed("a b"))
    renamed = (hdf5_folder / "weights.hdf5").rename(hdf5_folder / "weights.bin")
    np.testing.assert_array_equal(by_folder.embed("a b"), Elmo.from_pretrained(renamed).embed("a b"))


def test_two_candidates_are_both_named(hdf5_folder):
    shutil.copy(hdf5_folder / "weights.hdf5", hdf5_folder / "older.hdf5")
    with pytest.raises(CheckpointError, match=r"several HDF5 files with weights, older.hdf5 and weights.hdf5"):
        open_checkpoint(hdf5_folder)
    shutil.copy(hdf5_folder / "options.json", hdf5_folder / "other_options.json")
    with pytest.raises(CheckpointError, match=r"several options files, options.json and other_options.json"):
        open_checkpoint(hdf5_folder / "older.hdf5")


def test_weights_go_with_the_options_of_their_own_name(hdf5_folder, tmp_path):
    (hdf5_folder / "options.json").rename(hdf5_folder / "elmo_a_options.json")
    (hdf5_folder / "weights.hdf5").rename(hdf5_folder / "elmo_a_weights.hdf5")
    other = bilm_files.make_options(num_layers=1)
    bilm_files.write_model(tmp_path / "b", other, bilm_files.make_variables(other))
    shutil.move(tmp_path / "b" / "options.json", hdf5_folder / "elmo_b_options.json")
    shutil.move(tmp_path / "b" / "weights.hdf5", hdf5_folder / "elmo_b_weights.hdf5")
    assert open_checkpoint(hdf5_folder / "elmo_a_weights.hdf5").config.encoder.num_layers == 2
    assert open_checkpoint(hdf5_folder / "elmo_b_weights.hdf5").config.encoder.num_layers == 1


@pytest.mark.parametrize("inside", ["", "elmo/"], ids=["at the top", "in a folder"])
@pytest.mark.parametrize("format", ["hdf5", "manylangs", "elmo"])
def test_an_archive_is_opened_as_it_is(format, inside, hdf5_folder, manylangs_folder, tmp_path):
    folder = manylangs_folder if format == "manylangs" else hdf5_folder
    if format == "elmo":
        folder = tmp_path / "ours"
        Elmo.from_pretrained(hdf5_folder).save_pretrained(folder)
    archive = zip_folder(folder, tmp_path / "model.zip", inside=inside)
    np.testing.assert_array_equal(
        Elmo.from_pretrained(archive).embed("the bank"), Elmo.from_pretrained(folder).embed("the bank")
    )


@pytest.mark.parametrize("name", ["../outside.txt", "a/../../outside.txt", "/outside.txt"])
def test_nothing_is_unpacked_outside_the_folder_of_an_archive(name, hdf5_folder, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    archive = zip_folder(hdf5_folder, tmp_path / "model.zip")
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr(name, "x")
    assert open_checkpoint(archive).config == open_checkpoint(hdf5_folder).config
    assert not list((tmp_path / "temporary").iterdir()) and not Path("/outside.txt").exists()
    assert not (tmp_path / "outside.txt").exists()


def test_a_truncated_archive_is_explained(hdf5_folder, tmp_path):
    archive = zip_folder(hdf5_folder, tmp_path / "model.zip")
    archive.write_bytes(archive.read_bytes()[:500])
    with pytest.raises(CheckpointError, match=r"model.zip is not a complete zip archive"):
        open_checkpoint(archive)


def test_a_damaged_member_of_an_archive_is_explained(hdf5_folder, tmp_path):
    archive = zip_folder(hdf5_folder, tmp_path / "model.zip")
    content = bytearray(archive.read_bytes())
    content[200] ^= 0xFF
    archive.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=r"model.zip(/options.json is not valid| is not a complete)"):
        open_checkpoint(archive)


def test_input_without_a_model_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match="No model was found at 'nowhere'"):
        open_checkpoint("nowhere")
    with pytest.raises(CheckpointError, match="holds no model: expected config.json with weights.safetensors"):
        open_checkpoint(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CheckpointError, match=r"notes.txt is not a model: expected a folder"):
        open_checkpoint(tmp_path / "notes.txt")


def test_an_unknown_format_is_refused_with_the_known_ones(hdf5_folder):
    with pytest.raises(CheckpointError, match="'onnx' is unknown"):
        open_checkpoint(hdf5_folder, format="onnx")


def test_missing_files_of_a_format_are_named(hdf5_folder, tmp_path):
    (hdf5_folder / "options.json").unlink()
    with pytest.raises(CheckpointError, match="has no options files"):
        open_checkpoint(hdf5_folder, format="hdf5")
    for format_name, missing in (
        ("elmo", r"config.json could not be read"),
        ("manylangs", r"config.json could not be read"),
        ("tensorflow", "holds no TensorFlow checkpoint"),
    ):
        with pytest.raises(CheckpointError, match=missing):
            open_checkpoint(hdf5_folder, format=format_name)


def test_unrelated_h5_files_are_ignored(hdf5_folder):
    with h5py.File(hdf5_folder / "vectors.h5", "w") as file:
        file["0"] = np.zeros(3)
    assert open_checkpoint(hdf5_folder).origin["source"] == "weights.hdf5"


@pytest.mark.parametrize("name", ["model.ZIP", "model", "model.download"])
def test_an_archive_is_recognized_by_its_content(name, hdf5_folder, tmp_path):
    archive = zip_folder(hdf5_folder, tmp_path / name)
    assert open_checkpoint(archive).config == open_checkpoint(hdf5_folder).config


def test_other_files_in_an_archive_are_ignored(hdf5_folder, tmp_path):
    archive = zip_folder(hdf5_folder, tmp_path / "model.zip", inside="release/elmo/")
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("README.txt", "read me")
        file.writestr("license/LICENSE.txt", "free")
        file.writestr("__MACOSX/release/elmo/._options.json", "x")
        file.writestr("__MACOSX/encoder.pkl", "x")
    assert open_checkpoint(archive).config == open_checkpoint(hdf5_folder).config
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("other/encoder.pkl", "x")
    with pytest.raises(CheckpointError, match=r"model.zip holds several models \(other and elmo\)"):
        open_checkpoint(archive)


def test_an_archive_without_a_model_is_an_error(tmp_path):
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as file:
        file.writestr("a/b.txt", "x")
    with pytest.raises(CheckpointError, match="holds no model: expected config.json with weights.safetensors"):
        open_checkpoint(tmp_path / "empty.zip")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "The model is ''"),
        ("a\0b", r"The model is 'a\\x00b'"),
        (3, "The model is 3"),
        (b"model", "The model is b'model'"),
        ("~nobody-of-that-name/x", "The model is '~nobody-of-that-name/x'"),
        ("x" * 5000, "x could not be read: File name too long"),
    ],
)
def test_names_that_can_be_no_path_are_refused(source, message):
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(source)


@pytest.mark.parametrize(
    "name", ["models/weights.hdf5", "models/w.h5", "a/b.zip", "a/options.json", "a/b.index", "here/model"]
)
def test_a_misspelled_path_is_not_looked_up_on_the_hub(name, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source_module, "fetch_from_hub", lambda *args, **kwargs: pytest.fail("the hub was asked"))
    with pytest.raises(CheckpointError, match=f"No model was found at '{name}'"):
        open_checkpoint(name)


def test_a_hub_failure_mentions_the_missing_path_first(tmp_path, monkeypatch):
    def refuse(name, *, revision, local_files_only):
        raise CheckpointError(f"The hub repository {name!r} cannot be downloaded.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source_module, "fetch_from_hub", refuse)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint("owner/model")
    assert str(caught.value) == (
        "No local model was found at 'owner/model'. The hub repository 'owner/model' cannot be downloaded."
    )


def test_a_revision_is_only_accepted_for_hub_models(hdf5_folder):
    for source in (hdf5_folder, "small"):
        with pytest.raises(CheckpointError, match="revision is 'main', but .* is not a hub model"):
            open_checkpoint(source, revision="main")
