"""The example of training curves runs on the metrics of a run."""

import runpy
from pathlib import Path

import elmo
from tests.pretrain.test_launch import TINY

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_training_curves(corpus_folder, validation_file, tmp_path):
    elmo.train(corpus_folder, tmp_path / "run", preset="tiny", changes=TINY, validation=[validation_file])
    example = runpy.run_path(str(EXAMPLES / "training_curves.py"))
    assert len(example["read_metrics"](tmp_path / "run", "train")) == 20
    example["plot_curves"](tmp_path / "run", tmp_path / "curves.svg")
    drawn = (tmp_path / "curves.svg").read_text()
    for text in ("left_to_right_sampled_loss", "right_to_left_sampled_loss", "left_to_right_perplexity", "validation"):
        assert f"<!-- {text} -->" in drawn
