"""The examples of tasks run from start to end."""

import runpy
import sys
from pathlib import Path

import pytest

from tests.tasks.toys import write_toy

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run_example(monkeypatch, tmp_path):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    return run


def test_movie_reviews(run_example, tmp_path, bilm_folder, capsys):
    reviews = write_toy("classification", tmp_path, size=40)
    run_example("movie_reviews.py", reviews, "--model", bilm_folder, "--lstm", "--epochs", 1, "--say", "a cat")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("TF-IDF") and printed[1].startswith("epoch 1: loss ")
    assert printed[-1] in ("'a cat' is good", "'a cat' is bad")


def test_entities(run_example, tmp_path, bilm_folder, capsys):
    files = [write_toy("tagging", tmp_path, name, seed=seed) for seed, name in enumerate(("train", "dev"))]
    text = "we like Rome city ."
    run_example("entities.py", *files, tmp_path / "run", "--model", bilm_folder, "--epochs", 4, "--say", text)
    assert capsys.readouterr().out.splitlines()[-1] == "place: Rome city"
