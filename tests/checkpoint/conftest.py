from collections.abc import Iterator
from pathlib import Path

import pytest

from . import bilm_files
from .fake_hub import FakeHub
from .file_server import FileServer


@pytest.fixture(autouse=True)
def no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ELMO_CACHE", "ELMO_MIRROR", "XDG_CACHE_HOME", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as running:
        yield running


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as running:
        yield running


@pytest.fixture
def hdf5_folder(tmp_path: Path) -> Path:
    options, words = bilm_files.make_options(), ["<S>", "</S>", "<UNK>", "the"]
    return bilm_files.write_model(tmp_path / "hdf5", options, bilm_files.make_variables(options), words)


@pytest.fixture
def manylangs_folder(tmp_path: Path) -> Path:
    from . import manylangs_files  # imports torch

    settings = manylangs_files.make_settings()
    return manylangs_files.write_model(tmp_path / "manylangs", settings, *manylangs_files.make_state_dicts(settings))
