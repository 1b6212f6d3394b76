"""A command killed before any of its file operations resumes and writes the same files."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elmo.corpus.prepare import prepare
from elmo.vectors import VectorSettings, embed_files
from tests.language_models import make_language_model
from tests.pretrain.conftest import make_text
from tests.tasks.toys import SMALL, write_toy

ROOT = Path(__file__).parents[2]
TINY = {
    "model.encoder.cell_dim": 8, "model.encoder.output_dim": 4, "num_rows": 2, "num_steps": 5, "num_samples": 8,
    "max_updates": 6, "log_every": 2, "checkpoint_every": 2, "validate_every": 2, "keep_checkpoints": 2,
}  # fmt: skip


def as_options(settings):
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Everything that the commands read, in one folder."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "text.txt").write_text(make_text(0, 40))
    (folder / "valid.txt").write_text(make_text(1, 5))
    prepare([folder / "text.txt"], folder / "corpus", split="lines", vocabulary_size=18, num_workers=1)
    model = make_language_model()
    model.save_pretrained(folder / "model")
    for seed, name in enumerate(("train", "dev")):
        write_toy("classification", folder, name, seed=seed, size=8)
    embed_files(model, [folder / "valid.txt"], folder / "finished" / "out", VectorSettings(part_bytes=100))
    return folder


def scenario_of(name, inputs):
    embed = ["embed", f"{inputs}/text.txt", "-m", f"{inputs}/model", "-o", "out", "--part-bytes", "500"]
    task = [
        "task", "train", "classification", "--train", f"{inputs}/train.csv", "--dev", f"{inputs}/dev.csv",
        "--model", f"{inputs}/model", "--cache", "cache", "--output", "out", "--epochs", "2",
    ]  # fmt: skip
    small = as_options({name: value for name, value in SMALL.items() if name != "fit.num_epochs"})
    resume_task = ["task", "train", "--resume", "out"]
    train = ["train", f"{inputs}/corpus", "--preset", "tiny", "--validation", f"{inputs}/valid.txt"]
    return {
        "prepare": {"command": ["prepare", f"{inputs}/text.txt", "-o", "out", "--workers", "1"]},
        "train": {
            "command": [*train, "--output", "out", *as_options(TINY)],
            "resume": ["train", "--resume", "out"],
        },
        "embed": {"command": [*embed, "--workers", "1"]},
        "embed npy": {"command": [*embed, "--workers", "1", "--file-format", "npy", "--dtype", "int8"]},
        "embed --force": {"command": [*embed, "--workers", "1", "--force"], "begins_with": f"{inputs}/finished"},
        "task train": {"command": [*task, *small], "resume": resume_task},
        "task train --tune": {"command": [*task, *small, "--tune"], "resume": resume_task},
        "task train --compare": {"command": [*task, *small, "--compare", "--seeds", "1", "--variants", "top,baseline"]},
        "neighbors --build": {
            "command": ["neighbors", "--build", "out", "--corpus", f"{inputs}/text.txt", "-m", f"{inputs}/model"]
        },
    }[name]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name",
    ["prepare", "train", "embed", "embed npy", "embed --force", "task train", "task train --tune",
     "task train --compare", "neighbors --build"],
)  # fmt: skip
@pytest.mark.needs("fork")
def test_every_point_of_a_kill_ends_as_if_nothing_had_happened(inputs, tmp_path, name):
    (tmp_path / "scenario.json").write_text(json.dumps(scenario_of(name, inputs)))
    done = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.kill_points", str(tmp_path / "scenario.json")],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["num_points"] >= 10 and found["num_killed"] >= 0.9 * found["num_points"], found
    assert found["failures"] == [], f"{len(found['failures'])} of {found['num_points']} points"
    shutil.rmtree(tmp_path / "trial")
