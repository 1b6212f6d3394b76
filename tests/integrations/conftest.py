"""Small models in folders, and labelled toy sentences, for the integrations."""

import os
from pathlib import Path

import pytest

from elmo import Elmo

from .toys import make_models

os.environ.setdefault("USE_TF", "0")  # transformers 4 would import TensorFlow and fail on its Keras


def pytest_collection_modifyitems(items):
    # The libraries warn about their own internals; nothing here can act on it.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"), append=False)


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models that read characters, words, or both, saved in folders."""
    made = tmp_path_factory.mktemp("models")
    folders = {}
    for name, model in make_models().items():
        folders[name] = made / name
        model.save_pretrained(folders[name])
    return folders


@pytest.fixture(scope="session")
def model_folder(model_folders: dict[str, Path]) -> Path:
    return model_folders["characters"]


@pytest.fixture(scope="session")
def model(model_folder: Path) -> Elmo:
    """The model of that folder; it must not be changed by a test."""
    return Elmo.from_pretrained(model_folder)


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No library may ask a hub, or write into a home folder."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("WANDB_DISABLED", "true")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
