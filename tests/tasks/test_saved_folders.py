"""Folders of every family that earlier commits wrote open and predict what they predicted then.

They were trained on the files of toys.py for four epochs with a tiny random model; predictions.json has answers.
"""

import dataclasses
import json
from pathlib import Path

import pytest

from elmo.tasks import load
from tests.tasks.toys import write_toy

FOLDERS = Path(__file__).parent / "saved_folders"
EXPECTED = json.loads((FOLDERS / "predictions.json").read_text())


def rounded(value):
    """The values with their numbers rounded, as float rounding may differ between processors."""
    if isinstance(value, float):
        return pytest.approx(value, abs=1e-4)
    if isinstance(value, dict):
        return {name: rounded(entry) for name, entry in value.items()}
    return [rounded(entry) for entry in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", EXPECTED)
def test_a_saved_folder_predicts_the_same(name):
    task = load(FOLDERS / name, bilm=FOLDERS / "bilm")
    assert task.family == name
    predictions = [dataclasses.asdict(prediction) for prediction in task.predict(EXPECTED[name]["items"])]
    assert json.loads(json.dumps(predictions)) == rounded(EXPECTED[name]["predictions"])


@pytest.mark.parametrize("name", EXPECTED)
def test_a_saved_folder_has_the_same_scores(name, tmp_path):
    task = load(FOLDERS / name, bilm=FOLDERS / "bilm")
    test_file = write_toy(task.family, tmp_path, "test", seed=2, size=12)
    assert task.evaluate(test_file) == pytest.approx(EXPECTED[name]["test"])
