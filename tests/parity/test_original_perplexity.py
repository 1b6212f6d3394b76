"""Perplexity agrees with bilm-tf's own evaluation of a checkpoint."""

import json

import pytest

from elmo import Elmo
from elmo.cli import main
from elmo.inference.scoring import evaluate_text

ORIGINAL, TOLERANCE = 33.68909, 1e-3


@pytest.fixture(scope="module")
def folder(original_vectors):
    pytest.importorskip("tensorflow", reason="the extra modern-elmo[tensorflow] is not installed")
    return original_vectors / "tf-checkpoint"


def test_in_python(folder):
    model = Elmo.from_pretrained(folder, format="tensorflow", state="carry")
    with (folder / "heldout.txt").open(encoding="utf-8") as lines:
        found = evaluate_text(model, (line.rstrip("\n") for line in lines), split_on_spaces=True)
    assert found.perplexity == pytest.approx(ORIGINAL, abs=TOLERANCE)
    assert found.num_predictions == 1571


def test_by_the_command(folder, capsys):
    arguments = ["--model-format", "tensorflow", "--split-on-spaces", "--state", "carry", "--json"]
    assert main(["evaluate", str(folder / "heldout.txt"), "--model", str(folder), *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["perplexity"] == pytest.approx(ORIGINAL, abs=TOLERANCE)
    assert found["num_predictions"] == 1571
