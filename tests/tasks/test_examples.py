"""The examples of tasks run."""

import runpy
import sys
from pathlib import Path

import pytest

from tests.tasks.toys import write_toy

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def cache_layers_here(monkeypatch, tmp_path):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("cache_layers_here")
def test_movie_reviews(monkeypatch, tmp_path, bilm_folder, capsys):
    reviews = write_toy("classification", tmp_path, size=40)
    options = ["--model", str(bilm_folder), "--lstm", "--epochs", "1", "--say", "a cat"]
    monkeypatch.setattr(sys, "argv", ["movie_reviews.py", str(reviews), *options])
    runpy.run_path(str(EXAMPLES / "movie_reviews.py"), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("TF-IDF") and printed[1].startswith("epoch 1: loss ")
    assert printed[-1] in ("'a cat' is good", "'a cat' is bad")


@pytest.mark.usefixtures("cache_layers_here")
def test_entities(tmp_path, bilm_folder, capsys):
    train, dev = (write_toy("tagging", tmp_path, name, seed=seed) for seed, name in enumerate(("train", "dev")))
    example = runpy.run_path(str(EXAMPLES / "entities.py"))
    tagger = example["train_tagger"](train, dev, tmp_path / "run", model=str(bilm_folder), num_epochs=4)
    example["print_entities"](tagger, "we like Rome city .")
    assert capsys.readouterr().out.splitlines()[-1] == "place: Rome city"
