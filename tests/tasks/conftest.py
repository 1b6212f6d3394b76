"""The tiny model in a folder, and a training run on toy files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from elmo import Elmo
from elmo.tasks.run_folder import TaskInputs, start
from elmo.tasks.training import train_task
from elmo.tasks.workbench import Workbench
from tests.tasks.toys import small, write_toy


@pytest.fixture(scope="session")
def bilm_folder(tiny_model: Elmo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bilm") / "tiny"
    tiny_model.save_pretrained(folder)
    return folder


@pytest.fixture
def toy_inputs(bilm_folder: Path, tmp_path: Path) -> Callable[..., TaskInputs]:
    def make(family: str, **changes) -> TaskInputs:
        files = [
            str(write_toy(family, tmp_path, name, seed=seed, size=size))
            for name, seed, size in (("train", 0, 24), ("dev", 1, 12), ("test", 2, 12))
        ]
        cache = str(tmp_path / "cache")
        return TaskInputs(family, *files, **{"model": str(bilm_folder), "cache_folder": cache, **changes})

    return make


@pytest.fixture
def train_toy(toy_inputs, tmp_path):
    def train(family: str, *, name: str = "run", inputs: dict | None = None, **changes):
        """Give the folder and the scores of a run with tiny settings."""
        given = toy_inputs(family, **(inputs or {}))
        settings = small(family, **changes)
        start(given, settings, tmp_path / name)
        return tmp_path / name, train_task(Workbench(given), settings, tmp_path / name)

    return train
