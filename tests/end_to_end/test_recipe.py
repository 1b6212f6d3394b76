"""The recipe of the default model on a small text: from raw text to a folder, resumed after a kill."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from elmo import Elmo
from elmo.checkpoint.source import list_checkpoints
from tests.pretrain.conftest import make_text
from tests.pretrain.tiny_encoder import save_encoder

SCRIPT = Path(__file__).parents[2] / "recipes" / "en-small" / "run.sh"
SIZES = {"num_rows": 4, "num_steps": 10, "num_samples": 8, "checkpoint_every": 10, "validate_every": 40}


def start(work, folder, *, teacher=None):
    changes = {**SIZES, "max_updates": 60, "model.encoder.cell_dim": 16, "model.encoder.output_dim": 8}
    environment = {
        **os.environ,
        **({"TEACHER": str(teacher)} if teacher else {}),
        "OMP_NUM_THREADS": "1",
        "ELMO": f"{sys.executable} -m elmo",
        "VOCABULARY_SIZE": "20",
        "VECTOR_DIM": "6",
        "TRAIN_OPTIONS": " ".join(["--preset tiny"] + [f"--set {name}={value}" for name, value in changes.items()]),
    }
    command = ["bash", str(SCRIPT), str(work), str(folder / "valid.txt"), str(folder / "text.txt")]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def finish(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here to run the recipe")
@pytest.mark.needs("SIGKILL")
def test_the_recipe_makes_a_model_and_resumes_after_a_kill(tmp_path):
    (tmp_path / "text.txt").write_text(make_text(0, 2000))
    (tmp_path / "valid.txt").write_text(make_text(1, 40))
    work = tmp_path / "work"
    process = start(work, tmp_path)
    while not list_checkpoints(work / "run"):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (work / "en-small").exists()
    vectors = (work / "vectors.txt").stat().st_mtime_ns
    out = finish(start(work, tmp_path))
    assert "perplexity" in out and (work / "vectors.txt").stat().st_mtime_ns == vectors
    model = Elmo.from_pretrained(work / "en-small")
    assert model.embed("the bank sees the river .", layers="meaning").shape == (6, 16 + 6)
    made = (work / "en-small" / "config.json").stat().st_mtime_ns
    assert "is done" in finish(start(work, tmp_path))
    assert (work / "en-small" / "config.json").stat().st_mtime_ns == made
    usage = subprocess.run(["bash", str(SCRIPT)], capture_output=True, text=True)
    assert usage.returncode == 2 and usage.stderr.startswith("usage: ")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here to run the recipe")
@pytest.mark.needs("SIGKILL")
def test_the_recipe_learns_from_a_teacher_and_keeps_the_last_checkpoint(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the extra distill is not installed")
    (tmp_path / "text.txt").write_text(make_text(0, 2000))
    (tmp_path / "valid.txt").write_text(make_text(1, 40))
    work, teacher = tmp_path / "work", save_encoder(tmp_path / "encoder", transformers)
    finish(start(work, tmp_path, teacher=teacher))
    metrics = [json.loads(line) for line in (work / "run" / "metrics.jsonl").read_text().splitlines()]
    distilled = [line["update"] for line in metrics if line["kind"] == "train" and "teacher_cosine" in line]
    assert distilled and min(distilled) > 36  # the last 40% of 60 updates
    made = (work / "en-small" / "config.json").stat().st_mtime_ns
    model = Elmo.from_pretrained(work / "en-small")
    assert model.embed("the bank", layers="meaning").shape == (2, 16 + 6) and model.context.share == 1
    assert model.encode("the bank").shape == (12,)  # by the sentence head
    finish(start(work, tmp_path, teacher=teacher))
    assert (work / "en-small" / "config.json").stat().st_mtime_ns == made
    # The lowest perplexity may be one from before distillation: what is kept is the last checkpoint.
    before, *_, last = list_checkpoints(work / "run")
    sentence = [["the", "bank", "sees", "the", "river", "."]]
    (found,), (expected,), (other,) = (
        Elmo.from_pretrained(each).score(sentence) for each in (work / "en-small", last, before)
    )
    np.testing.assert_allclose(found.left_to_right, expected.left_to_right, atol=0.03)  # stored in 8 bits
    assert np.abs(found.left_to_right - other.left_to_right).max() > 0.1
