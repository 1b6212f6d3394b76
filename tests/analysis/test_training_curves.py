"""Plots of a run are complete, or a message says why not."""

import json
import sys

import pytest

from elmo import CheckpointError, ConfigError, InputError
from elmo.analysis import draw_training_curves
from elmo.cli import main


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"format": "modern-elmo-run", "version": 1}))
    lines = [
        {"kind": "train", "update": n, "num_words": 1000 * n,
         "left_to_right_sampled_loss": 5 / n, "right_to_left_sampled_loss": 6 / n}
        for n in range(1, 30)
    ]  # fmt: skip
    lines += [
        {"kind": "validation", "update": n, "perplexity": 90 / n,
         "left_to_right_perplexity": 80 / n, "right_to_left_perplexity": 101 / n}
        for n in (10, 20)
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_the_command_draws_both_curves_with_their_names(run, tmp_path, capsys):
    assert main(["plot", "training", str(run), "-o", str(tmp_path / "curves.svg")]) == 0
    drawn = (tmp_path / "curves.svg").read_text()
    for label in ("left to right", "right to left", "Training loss, sampled softmax", "full softmax"):
        assert label in drawn
    assert "curves.svg" in capsys.readouterr().out
    draw_training_curves(run, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "teacher" not in drawn


def test_a_run_with_a_teacher_shows_how_near_it_came(run, tmp_path):
    metrics = run / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    lines[3]["teacher_cosine"] = lines[-1]["teacher_cosine"] = 0.5  # not every update has a lesson
    metrics.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    draw_training_curves(run, tmp_path / "curves.svg")
    drawn = (tmp_path / "curves.svg").read_text()
    for label in ("Similarity to the teacher's vectors", "training", "validation", "left to right"):
        assert label in drawn


def test_undrawable_input_is_an_error(run, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="should end in .png or .svg"):
        draw_training_curves(run, tmp_path / "curves.txt")
    with pytest.raises(CheckpointError, match="holds no training run"):
        draw_training_curves(tmp_path, tmp_path / "curves.png")
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(InputError, match="has no metrics yet"):
        draw_training_curves(run, tmp_path / "curves.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install .*\[plot\]"):
        draw_training_curves(run, tmp_path / "curves.png")
