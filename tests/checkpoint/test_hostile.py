"""Models made by hand to do harm: each is refused in one sentence, in little memory and time."""

import gzip
import io
import json
import os
import zipfile

import h5py
import numpy as np
import pytest
import torch

from elmo import CheckpointError, ConfigError
from elmo.checkpoint.open import open_checkpoint
from tests.checkpoint import bilm_files, manylangs_files

pytestmark = pytest.mark.needs("resource", "/proc")
WORDS = ["<S>", "</S>", "<UNK>", "the"]
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


@pytest.fixture
def hdf5_folder(tmp_path):
    options = bilm_files.make_options()
    return bilm_files.write_model(tmp_path / "hdf5", options, bilm_files.make_variables(options), WORDS)


@pytest.fixture
def elmo_folder(tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path / "elmo")
    return tmp_path / "elmo"


def refusal(source):
    with pytest.raises((CheckpointError, ConfigError)) as raised:
        open_checkpoint(source)
    return str(raised.value)


def put_secret(folder):
    """Make a file whose numbers must not end up in a model."""
    with h5py.File(folder / "secret.h5.private", "w") as file:
        file.create_dataset("secret", data=np.full(8, 42, dtype=np.float32))
    (folder / "secret.raw").write_bytes(np.full(8, 42, dtype=np.float32).tobytes())


def add_external_storage(file, shape):
    raw = os.fsencode(str(file.filename)[: -len("weights.hdf5")] + "secret.raw")
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_external(raw, 0, 32)
    space = h5py.h5s.create_simple(shape)
    h5py.h5d.create(file["CNN_proj"].id, b"b_proj", h5py.h5t.NATIVE_FLOAT, space, properties)


@pytest.mark.parametrize("kind", ["external link", "external link to a group", "external storage", "virtual"])
def test_numbers_of_other_files_are_not_taken(hdf5_folder, kind):
    put_secret(hdf5_folder)
    with h5py.File(hdf5_folder / "weights.hdf5", "a") as file:
        shape = file["CNN_proj/b_proj"].shape
        if kind == "external link to a group":
            del file["CNN_proj"]
            file["CNN_proj"] = h5py.ExternalLink("secret.h5.private", "/")
        else:
            del file["CNN_proj/b_proj"]
            if kind == "external link":
                file["CNN_proj/b_proj"] = h5py.ExternalLink("secret.h5.private", "/secret")
            elif kind == "external storage":
                add_external_storage(file, shape)
            else:
                layout = h5py.VirtualLayout(shape=shape, dtype=np.float32)
                layout[:] = h5py.VirtualSource("secret.h5.private", "secret", shape=(8,))[: shape[0]]
                file.create_virtual_dataset("CNN_proj/b_proj", layout)
    assert "a model holds its own numbers, so it was not opened" in refusal(hdf5_folder)


def test_an_empty_dataset_that_claims_gigabytes_is_refused(hdf5_folder):
    with h5py.File(hdf5_folder / "weights.hdf5", "a") as file:
        del file["CNN_proj/b_proj"]
        file.create_dataset("CNN_proj/b_proj", shape=(6 * GIB // 4,), chunks=(1 << 20,), dtype=np.float32)
    assert "would expand to 6,442,450,944; no model compresses like that" in refusal(hdf5_folder)


def test_a_file_of_very_many_entries_is_refused(hdf5_folder):
    with h5py.File(hdf5_folder / "weights.hdf5", "a") as file:
        for number in range(10_001):
            file.create_group(f"more/{number}")
    assert "has more than 10000 entries" in refusal(hdf5_folder)


def pack(folder, archive, **replaced):
    """Zip a folder; `replaced` are sizes of members that become zeros."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(folder.iterdir()):
            if path.name in replaced:
                with file.open(path.name, "w") as member:
                    for _ in range(replaced[path.name] >> 20):
                        member.write(bytes(1 << 20))
            else:
                file.write(path, path.name)
    return archive


@pytest.mark.parametrize("name", ["weights.hdf5", "options.json", "vocab.txt"])
def test_an_archive_that_would_become_gigabytes_is_refused(hdf5_folder, tmp_path, name):
    archive = pack(hdf5_folder, tmp_path / "model.zip", **{name: 300 << 20})
    assert archive.stat().st_size < 1 << 20
    message = refusal(archive)
    assert "314,572,800" in message and message.endswith("it was not opened.")


@pytest.mark.parametrize("names", [[f"f{n}/" for n in range(60_000)], ["/".join("a" * 3000) + "/x"]])
def test_an_archive_of_very_many_folders_is_refused(tmp_path, names):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as file:
        for name in names:
            file.writestr(name, "")
    assert "no published model has, so the archive was not opened" in refusal(tmp_path / "model.zip")


def test_an_archive_of_a_real_model_opens(hdf5_folder, tmp_path):
    archive = pack(hdf5_folder, tmp_path / "model.zip")
    assert open_checkpoint(archive).vocabulary == tuple(WORDS)


@pytest.mark.parametrize("line", [b"\n", b"word\n", bytes(1000)])
def test_a_vocabulary_that_would_become_gigabytes_is_refused(hdf5_folder, line):
    (hdf5_folder / "vocab.txt").unlink()
    with gzip.open(hdf5_folder / "vocab.txt.gz", "wb") as file:
        for _ in range(300):
            file.write(line * ((1 << 20) // len(line)))
    assert "but this model needs at most 67,108,864; it was not opened" in refusal(hdf5_folder)


def test_a_tensor_that_repeats_few_numbers_is_refused(tmp_path):
    settings = manylangs_files.make_settings()
    tokens, encoder = manylangs_files.make_state_dicts(settings)
    name = next(iter(encoder))
    encoder[name] = torch.ones(1, dtype=torch.float64).expand(1_500_000_000)
    folder = manylangs_files.write_model(tmp_path / "manylangs", settings, tokens, encoder)
    assert f"has under {name!r} a tensor of shape (1500000000,), but not as many numbers" in refusal(folder)


def test_a_torch_file_that_would_become_gigabytes_is_refused(tmp_path):
    settings = manylangs_files.make_settings()
    folder = manylangs_files.write_model(tmp_path / "manylangs", settings, *manylangs_files.make_state_dicts(settings))
    content = io.BytesIO()
    torch.save({"a": torch.zeros(1)}, content)
    with (
        zipfile.ZipFile(content) as stored,
        zipfile.ZipFile(folder / "encoder.pkl", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for member in stored.infolist():
            packed.writestr(member.filename, stored.read(member))
        with packed.open("archive/data/1", "w") as member:
            for _ in range(300):
                member.write(bytes(1 << 20))
    assert "no model compresses like that, so it was not opened" in refusal(folder)


@pytest.mark.parametrize(
    ("part", "name", "value", "message"),
    [
        ("encoder", "forget_bias", float("nan"), "'encoder.forget_bias' is nan"),
        ("encoder", "cell_clip", float("inf"), "'encoder.cell_clip' is inf"),
        ("characters", "max_characters", 10**8, "max_characters is 100000000"),
        ("characters", "max_characters", 10**9, "max_characters is 1000000000"),
        ("characters", "filters", [[1, 1]] * 100_000, "filters has 100000 entries"),
        ("characters", "filters", [[1, 2**40]], "the channels 1 to 1048576"),
        ("characters", "num_highways", 10**7, "num_highways is 10000000"),
        ("softmax", "num_words", 10**30, "num_words is 1000000000000000000000000000000"),
    ],
)
def test_settings_that_no_model_has_are_refused(elmo_folder, part, name, value, message):
    config = json.loads((elmo_folder / "config.json").read_text())
    config["model"][part] = {**(config["model"][part] or {}), name: value}
    (elmo_folder / "config.json").write_text(json.dumps(config))
    assert message in refusal(elmo_folder)


def test_a_context_that_no_model_has_is_refused(elmo_folder):
    config = json.loads((elmo_folder / "config.json").read_text())
    config["model"]["encoder"] = {"kind": "transformer", "context": 10**30}
    (elmo_folder / "config.json").write_text(json.dumps(config))
    assert "context is 1000000000000000000000000000000; it must be at most 1048576" in refusal(elmo_folder)


def test_settings_of_many_megabytes_are_refused(elmo_folder):
    with (elmo_folder / "config.json").open("ab") as file:
        file.write(b" " * (17 << 20))
    assert "config.json has 17,826,790 bytes, but this model needs at most" in refusal(elmo_folder)


@pytest.mark.parametrize("name", ["model", "model.hdf5", "model.zip"])
@pytest.mark.needs("mkfifo")
def test_a_pipe_is_no_model_and_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert "is a pipe or a device; a file was expected" in refusal(tmp_path / name)


@pytest.mark.needs("mkfifo")
def test_a_pipe_in_a_model_folder_is_not_waited_for(hdf5_folder):
    (hdf5_folder / "weights.hdf5").unlink()
    os.mkfifo(hdf5_folder / "weights.hdf5")
    assert "weights.hdf5 is a pipe or a device" in refusal(hdf5_folder)
