"""Several processes, also killed ones: the folder is the same to the last byte."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.vectors import VectorSettings, embed_files, writing
from tests.vectors.conftest import PART_BYTES, WorkerKiller, read_all

SETTINGS = VectorSettings(part_bytes=PART_BYTES)


@pytest.fixture
def workers(monkeypatch):
    """A function that lists the ids of the worker processes that were started."""
    started = []

    class Watched(writing.Workers):
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, **more)
            started.append(self)

    monkeypatch.setattr(writing, "Workers", Watched)
    return lambda: [worker._process.pid for pool in started for worker in pool._started]


@pytest.mark.needs("SIGKILL")
def test_two_processes_and_a_killed_one_write_the_same_folder(
    tiny_model, text_file, tmp_path, workers, caplog, on_progress
):
    embed_files(tiny_model, [text_file], tmp_path / "whole", SETTINGS)
    on_progress(WorkerKiller(workers))
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, num_workers=2, num_threads=2)
    assert len(workers()) == 3
    assert "A worker process died (killed by SIGKILL" in caplog.text
    assert read_all(tmp_path / "out") == read_all(tmp_path / "whole")


@pytest.mark.needs("/proc")
def test_no_worker_outlives_a_job_that_stops_at_a_row(tiny_model, tmp_path, workers):
    rows = [f'{{"text": "I went", "at": [[0, {9 if number == 20 else 1}]]}}\n' for number in range(60)]
    (tmp_path / "rows.jsonl").write_text("".join(rows))
    settings = VectorSettings(unit="spans", spans="at", part_bytes=20)
    with pytest.raises(InputError, match=r"line 21, has the span \[0, 9\]"):
        embed_files(tiny_model, [tmp_path / "rows.jsonl"], tmp_path / "out", settings, num_workers=2, num_threads=2)
    assert workers() and not any(Path(f"/proc/{process}").exists() for process in workers())


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.needs("SIGKILL")
def test_a_killed_command_goes_on_to_the_same_folder(tiny_model, text_file, tmp_path, num_workers):
    tiny_model.save_pretrained(tmp_path / "model")
    text_file.write_text(text_file.read_text() * 20)  # so much that nobody is done before the last kill
    embed_files(tiny_model, [text_file], tmp_path / "whole", replace(SETTINGS, part_bytes=100))
    output = tmp_path / "out"
    command = [sys.executable, "-m", "elmo", "embed", text_file, "--output", output, "--model", tmp_path / "model"]
    command += ["--part-bytes", "100", "--workers", str(num_workers), "--precision", "float32"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    num_kills = 0
    for wanted in (1, 5, 12):
        process = subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL)
        while process.poll() is None and len(list(output.glob("part-*"))) < wanted:
            time.sleep(0.002)
        process.kill()
        num_kills += process.wait() == -signal.SIGKILL
        assert not (output / "manifest.json").exists()
    assert num_kills == 3
    subprocess.run(list(map(str, command)), env=environment, check=True)
    assert read_all(output) == read_all(tmp_path / "whole")
