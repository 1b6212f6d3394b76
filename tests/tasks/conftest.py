"""The tiny model in a folder, and training on toy files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from elmo import Elmo
from elmo.tasks.settings import TaskInputs, TaskOptions
from elmo.tasks.shared_inputs import SharedInputs
from elmo.tasks.training import TaskResult, train_task
from tests.tasks.toys import small, write_toy


@pytest.fixture(scope="session")
def bilm_folder(tiny_model: Elmo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bilm") / "tiny"
    tiny_model.save_pretrained(folder)
    return folder


@pytest.fixture
def toy_inputs(bilm_folder: Path, tmp_path: Path) -> Callable[..., TaskInputs]:
    def make(family: str, *, model: Path | str | None = bilm_folder, **options) -> TaskInputs:
        files = [
            str(write_toy(family, tmp_path, name, seed=seed, size=size))
            for name, seed, size in (("train", 0, 24), ("dev", 1, 12), ("test", 2, 12))
        ]
        chosen = TaskOptions(**{"cache_folder": str(tmp_path / "cache"), **options})
        return TaskInputs(family, *files, None if model is None else str(model), chosen)

    return make


@pytest.fixture
def train_toy(toy_inputs, tmp_path):
    def train(family: str, *, name: str = "run", inputs: dict | None = None, **changes) -> tuple[Path, TaskResult]:
        """Return the folder and the result of a run with tiny settings."""
        shared = SharedInputs(toy_inputs(family, **(inputs or {})))
        result = train_task(shared, small(family, **changes), tmp_path / name, is_new=True)
        return tmp_path / name, result

    return train
