"""Damaged, invalid or unreadable files are reported in one sentence, never as an error of another library."""

import contextlib
import gzip
import random
import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo import CheckpointError, ConfigError, Elmo
from elmo.checkpoint.open import open_checkpoint

WORDS = ["<S>", "</S>", "<UNK>", "the"]


@pytest.fixture
def elmo_folder(tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path / "elmo")
    return tmp_path / "elmo"


@pytest.mark.parametrize(
    ("folder_name", "file_name"),
    [
        ("hdf5_folder", "weights.hdf5"),
        ("hdf5_folder", "options.json"),
        ("manylangs_folder", "encoder.pkl"),
        ("manylangs_folder", "word.dic"),
        ("elmo_folder", "weights.safetensors"),
        ("elmo_folder", "config.json"),
    ],
)
def test_flipped_bytes_end_in_success_or_one_sentence(folder_name, file_name, request):
    folder = request.getfixturevalue(folder_name)
    content = (folder / file_name).read_bytes()
    rng = random.Random(0)
    for _ in range(20):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 3, 30])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (folder / file_name).write_bytes(damaged)
        with contextlib.suppress(CheckpointError, ConfigError):
            open_checkpoint(folder)


def replace_dataset(folder, name, write):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file[name]
        write(file)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda file: file.create_group("CNN_proj/b_proj"),
            "tokens.projection.bias is missing",
        ),
        (
            lambda file: file.create_dataset("CNN_proj/b_proj", data="text"),
            "has the type object; it must be an array",
        ),
        (
            lambda file: file.create_dataset("CNN_proj/b_proj", data=h5py.Empty("f4")),
            "it must be an array of numbers",
        ),
        (
            lambda file: file.create_dataset("CNN_proj/b_proj", data=np.zeros(6, "c8")),
            "has the type complex64",
        ),
        (
            lambda file: file.create_dataset("CNN_proj/b_proj", data=np.float32(1)),
            "has shape (1,), the configuration needs (6,)",
        ),
        (lambda file: file.create_dataset("CNN_proj/b_proj", (10**9,), "f4"), "ends before its 4000000000 bytes"),
        (
            lambda file: file.create_dataset("CNN_proj/b_proj", data=np.full(6, 1e300)),
            "make vectors overflow: tokens.projection.bias (inf)",
        ),
    ],
    ids=["group", "text", "empty", "complex", "scalar", "no data", "too large"],
)
def test_invalid_datasets_are_named(hdf5_folder, write, message):
    replace_dataset(hdf5_folder, "CNN_proj/b_proj", write)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(hdf5_folder)
    assert message in str(caught.value)


@pytest.mark.parametrize("dtype", [">f4", "<f8", ">f8", "<f2"])
def test_numbers_of_any_type_and_byte_order_are_read(hdf5_folder, dtype):
    expected = open_checkpoint(hdf5_folder).weights["tokens.projection.bias"]
    changed = expected.astype(dtype)
    replace_dataset(hdf5_folder, "CNN_proj/b_proj", lambda file: file.create_dataset("CNN_proj/b_proj", data=changed))
    actual = open_checkpoint(hdf5_folder).weights["tokens.projection.bias"]
    np.testing.assert_array_equal(actual, changed.astype(np.float32))


@pytest.mark.parametrize(
    ("folder_name", "file_name"),
    [
        ("hdf5_folder", "weights.hdf5"),
        ("hdf5_folder", "options.json"),
        ("hdf5_folder", "vocab.txt"),
        ("manylangs_folder", "encoder.pkl"),
        ("manylangs_folder", "char.dic"),
        ("elmo_folder", "weights.safetensors"),
        ("elmo_folder", "config.json"),
    ],
)
def test_a_file_that_may_not_be_read_is_not_called_damaged(folder_name, file_name, request, monkeypatch):
    folder = request.getfixturevalue(folder_name)
    forbid(monkeypatch, folder / file_name)
    with pytest.raises(CheckpointError, match=rf"{file_name} could not be read: Permission denied\.$"):
        open_checkpoint(folder)


@pytest.mark.parametrize("name", ["model.zip", "model.hdf5", "model"])
def test_a_model_file_that_may_not_be_read_is_not_called_damaged(name, hdf5_folder, tmp_path, monkeypatch):
    shutil.copy(hdf5_folder / "options.json", tmp_path)
    shutil.copy(hdf5_folder / "weights.hdf5", tmp_path / name)
    forbid(monkeypatch, tmp_path / name)
    with pytest.raises(CheckpointError, match=rf"{name} could not be read: Permission denied\.$"):
        open_checkpoint(tmp_path / name)


def test_a_folder_that_may_not_be_looked_into_is_named(hdf5_folder, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(CheckpointError, match=rf"{hdf5_folder} could not be read: Permission denied\.$"):
        open_checkpoint(hdf5_folder)


def test_a_broken_gzipped_vocabulary_is_explained(hdf5_folder):
    (hdf5_folder / "vocab.txt").unlink()
    whole = gzip.compress("\n".join(WORDS).encode())
    for content in (b"plain", whole[:-9], whole[:12] + b"\xff" + whole[13:]):
        (hdf5_folder / "vocab.txt.gz").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"vocab.txt.gz is damaged"):
            open_checkpoint(hdf5_folder)


def test_a_member_that_is_damaged_or_locked_is_named(elmo_folder, tmp_path):
    archive = tmp_path / "model.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in elmo_folder.iterdir():
            file.write(path, path.name)
    whole = archive.read_bytes()
    place = whole.index(b"PK\x01\x02")
    damaged, locked = bytearray(whole), bytearray(whole)
    damaged[60:70] = bytes(10)
    while place >= 0:
        locked[place + 8] |= 1  # the flag of encryption, in the table at the end
        place = whole.find(b"PK\x01\x02", place + 1)
    for content in (damaged, locked):
        archive.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"model.zip is not a complete zip archive: .*; download it again"):
            Elmo.from_pretrained(archive)


def forbid(monkeypatch, forbidden):
    """Root may read anything, so the system's refusal is played."""
    real = Path.open

    def refuse(self, *args, **kwargs):
        if self == forbidden:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
