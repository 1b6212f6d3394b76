"""Models made by hand to do harm: each is refused in one sentence, in little memory and time."""

import gzip
import os
import re
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo import CheckpointError, ConfigError
from elmo.checkpoint.open import open_checkpoint
from tests.checkpoint import manylangs_files

pytestmark = pytest.mark.needs("resource", "/proc")
GIB = 2**30


@pytest.fixture(autouse=True)
def little_memory():
    """Fail with MemoryError where a hostile file would take gigabytes."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:  # noqa: PTH123
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * GIB, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def refusal(source):
    with pytest.raises((CheckpointError, ConfigError)) as raised:
        open_checkpoint(source)
    return str(raised.value)


@pytest.mark.parametrize("storage", ["external storage", "virtual"])
def test_numbers_of_other_files_are_not_taken(hdf5_folder, storage):
    with h5py.File(hdf5_folder / "weights.hdf5", "a") as file:
        shape = file["CNN_proj/b_proj"].shape
        del file["CNN_proj/b_proj"]
        if storage == "virtual":
            layout = h5py.VirtualLayout(shape=shape, dtype=np.float32)
            layout[:] = h5py.VirtualSource("secret.h5", "secret", shape=shape)
            file.create_virtual_dataset("CNN_proj/b_proj", layout)
        else:
            file.create_dataset("CNN_proj/b_proj", shape, np.float32, external=[(hdf5_folder / "secret", 0, 32)])
    assert "is a link to another file" in refusal(hdf5_folder)


def test_an_empty_dataset_that_claims_gigabytes_is_refused(hdf5_folder):
    with h5py.File(hdf5_folder / "weights.hdf5", "a") as file:
        del file["CNN_proj/b_proj"]
        file.create_dataset("CNN_proj/b_proj", shape=(6 * GIB // 4,), chunks=(1 << 20,), dtype=np.float32)
    assert "would expand to 6,442,450,944 or more" in refusal(hdf5_folder)


def test_an_archive_that_would_become_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile.ZipFile, "extractall", lambda *_: pytest.fail("was unpacked"))
    with zipfile.ZipFile(tmp_path / "model.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("weights.hdf5", bytes(100 << 20))
    assert "would expand to 104,857,600 or more" in refusal(tmp_path / "model.zip")


@pytest.mark.parametrize(
    "names", [[f"f{n}/" for n in range(20_000)], ["/".join("a" * 3000) + "/x"]], ids=["many", "deep"]
)
def test_an_archive_of_very_many_folders_is_refused(tmp_path, names):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as file:
        for name in names:
            file.writestr(name, "")
    assert "more files or folders than any model" in refusal(tmp_path / "model.zip")


@pytest.mark.parametrize("deletes_mapped_files", [True, False])
def test_an_archive_leaves_no_temporary_files(tiny_model, tmp_path, monkeypatch, deletes_mapped_files):
    monkeypatch.setattr("elmo.checkpoint.tensors._CAN_DELETE_MAPPED_FILES", deletes_mapped_files)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    tiny_model.save_pretrained(tmp_path / "elmo")
    with zipfile.ZipFile(tmp_path / "model.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for path in (tmp_path / "elmo").iterdir():
            file.write(path, path.name)
    checkpoint = open_checkpoint(tmp_path / "model.zip")
    assert not list((tmp_path / "temporary").iterdir())
    assert checkpoint.config == tiny_model.config
    expected = open_checkpoint(tmp_path / "elmo").weights
    assert all(np.array_equal(array, expected[name]) for name, array in checkpoint.weights.items())
    # Windows can delete the folder only if nothing in it is mapped any more.
    assert deletes_mapped_files == (str(tmp_path / "temporary") in Path("/proc/self/maps").read_text())


def test_a_vocabulary_that_would_become_gigabytes_is_refused(hdf5_folder):
    (hdf5_folder / "vocab.txt").unlink()
    with gzip.open(hdf5_folder / "vocab.txt.gz", "wb") as file:
        for _ in range(300):
            file.write(b"word\n" * (1 << 18))
    assert "no model compresses like that" in refusal(hdf5_folder)


def test_a_tensor_that_repeats_few_numbers_is_refused(tmp_path):
    settings = manylangs_files.make_settings()
    tokens, encoder = manylangs_files.make_state_dicts(settings)
    name = next(iter(encoder))
    encoder[name] = torch.ones(1, dtype=torch.float64).expand(1_500_000_000)
    folder = manylangs_files.write_model(tmp_path / "manylangs", settings, tokens, encoder)
    assert f"something other than a dense tensor of numbers under {name!r}" in refusal(folder)


def test_a_torch_file_that_would_become_gigabytes_is_refused(tmp_path):
    settings = manylangs_files.make_settings()
    folder = manylangs_files.write_model(tmp_path / "manylangs", settings, *manylangs_files.make_state_dicts(settings))
    with zipfile.ZipFile(folder / "encoder.pkl", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("archive/data/1", bytes(100 << 20))
    assert "no model compresses like that" in refusal(folder)


@pytest.mark.parametrize("name", ["model", "model.hdf5", "hdf5/weights.hdf5", "hdf5/options.json"])
@pytest.mark.needs("mkfifo")
def test_a_pipe_is_no_model_and_is_not_waited_for(hdf5_folder, tmp_path, name):
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    message = refusal(tmp_path / name.partition("/")[0])
    assert re.search("is not a model|has no options files|is a pipe or a device; a file was expected", message)
