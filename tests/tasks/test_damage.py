"""A damaged task folder is reported in one sentence."""

import json
import shutil

import pytest

from elmo import CheckpointError, tasks
from elmo.tasks import load


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    from tests.tasks.toys import small, write_toy

    folder = tmp_path_factory.mktemp("task")
    files = [str(write_toy("tagging", folder, name)) for name in ("train", "dev")]
    settings = small("tagging", fit__num_epochs=1, elmo__where="none")
    return tasks.train(files[0], kind="ner", dev=files[1], output=folder / "task", settings=settings).folder


@pytest.fixture
def task(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "task")
    return tmp_path / "task"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("words.json", {"learned": 3}),
        ("words.json", {"learned": [1, 2]}),
        ("words.json", {"learned": ["a"]}),
        ("task.json", {"labels": []}),
        ("task.json", {"labels": {}}),
        ("task.json", {"labels": {"tags": 5}}),
        ("task.json", {"labels": {"tags": ["O"], "marks_spans": False, "strict": False, "crf": False}}),
        ("task.json", {"read": []}),
        ("task.json", {"read": {"columns": 3}}),
        ("task.json", {"read": {"scripts": "Han"}}),
        ("task.json", {"read": {"scripts": ["Elvish"]}}),
        ("task.json", {"family": ["tagging"]}),
        ("task.json", {"family": "pairs"}),
        ("task.json", {"settings": None}),
        ("task.json", {"bilm": 1}),
        ("task.json", {"format_version": None}),
    ],
)
def test_impossible_values_are_reported(task, name, changes):
    content = json.loads((task / name).read_text())
    (task / name).write_text(json.dumps({**content, **changes}))
    with pytest.raises(CheckpointError, match=r"task (is damaged|has format version)"):
        load(task)


@pytest.mark.parametrize("content", ["", "[]", "3", "null", "{", '{"a": ' * 100_000])
@pytest.mark.parametrize("name", ["task.json", "words.json"])
def test_invalid_files_are_reported(task, name, content):
    (task / name).write_text(content)
    with pytest.raises(CheckpointError, match="is damaged"):
        load(task)
