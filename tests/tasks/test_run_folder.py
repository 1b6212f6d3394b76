"""The folder of a run: restarted if empty, resumed at any point, readable."""

import dataclasses
import json
import os

import pytest

from elmo import CheckpointError, InputError
from elmo.tasks.comparison import ComparisonSettings, run_comparison
from elmo.tasks.settings import TaskInputs
from elmo.tasks.shared_inputs import SharedInputs
from elmo.tasks.training import read_run, start, train_task
from tests.tasks.toys import small

SETTINGS = small("classification", fit__num_epochs=1)


def test_a_folder_from_a_start_that_was_killed_can_be_reused(toy_inputs, tmp_path):
    inputs, folder = toy_inputs("classification"), tmp_path / "run"
    (folder / "training").mkdir(parents=True)
    (folder / "training" / ".run.json.saving-12345").write_text('{"half')
    start(inputs, SETTINGS, folder)
    assert sorted(path.name for path in (folder / "training").iterdir()) == [".lock", "run.json"]
    with pytest.raises(InputError, match="exists already"):
        start(inputs, SETTINGS, folder)


def test_a_missing_file_leaves_no_folder(toy_inputs, tmp_path):
    shared = SharedInputs(toy_inputs("classification", word_vectors="missing.txt"))
    with pytest.raises(InputError, match="No such file: 'missing.txt'"):
        train_task(shared, small("classification", words__kinds=["pretrained"]), tmp_path / "run", is_new=True)
    assert not (tmp_path / "run").exists()


def test_training_removes_files_of_killed_processes_and_locks_the_run(toy_inputs, tmp_path):
    from filelock import FileLock

    inputs, folder = toy_inputs("classification"), tmp_path / "run"
    start(inputs, SETTINGS, folder)
    left = [".scores.json.saving-1", ".files.saving-2", "training/.state.pt.saving-1"]
    for name in left:
        (folder / name).mkdir()
    with (
        FileLock(folder / "training" / ".lock"),
        pytest.raises(InputError, match="Another process is training in "),
    ):
        train_task(SharedInputs(inputs), SETTINGS, folder)
    train_task(SharedInputs(inputs), SETTINGS, folder)
    assert not any((folder / name).exists() for name in left)


def test_a_comparison_that_was_killed_before_its_record_starts_again(toy_inputs, tmp_path):
    folder, request = tmp_path / "compared", ComparisonSettings(("baseline",), (0,))
    folder.mkdir()
    (folder / ".compare.json.saving-12345").write_text("{")
    run_comparison(SharedInputs(toy_inputs("classification")), SETTINGS, folder, request)
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "compare.json", "results.json", "runs"]
    # A run of the comparison, too, may have been killed before its own record.
    (folder / "runs" / "baseline-1-1" / "training").mkdir(parents=True)
    run_comparison(
        SharedInputs(toy_inputs("classification")), SETTINGS, folder, ComparisonSettings(("baseline",), (0, 1))
    )
    assert len(json.loads((folder / "results.json").read_text())["runs"]) == 2


def test_a_run_is_resumed_from_another_directory(toy_inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = toy_inputs("classification")
    options = dataclasses.replace(inputs.options, cache_folder="cache")
    relative = TaskInputs("classification", "train.csv", "dev.csv", model=inputs.model, options=options)
    start(relative, SETTINGS, tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    recorded, settings = read_run(tmp_path / "run")
    assert (recorded.train, recorded.options.cache_folder) == (str(tmp_path / "train.csv"), str(tmp_path / "cache"))
    train_task(SharedInputs(recorded), settings, tmp_path / "run")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_all_files_of_a_task_have_the_same_permissions(train_toy):
    folder, _ = train_toy("classification", fit__num_epochs=1)
    mask = os.umask(0)
    os.umask(mask)
    names = ("task.json", "words.json", "weights.safetensors")
    assert [(folder / name).stat().st_mode & 0o777 for name in names] == [0o666 & ~mask] * 3


@pytest.mark.parametrize("content", ["[]", "{}", '{"inputs": {"read": {}}, "data": {}, "settings": {}}', "{"])
def test_a_damaged_record_is_reported(toy_inputs, tmp_path, content):
    start(toy_inputs("classification"), SETTINGS, tmp_path / "run")
    (tmp_path / "run" / "training" / "run.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"run.json (is damaged|is not valid JSON|holds a JSON list)"):
        read_run(tmp_path / "run")
