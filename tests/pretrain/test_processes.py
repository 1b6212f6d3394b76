"""Real processes: killed and resumed, and two that give the results of one."""

import os
import signal
import subprocess
import sys
import time

import pytest

from elmo.pretrain.metrics import read_metrics

CHANGES = ("num_rows=4", "num_steps=10", "num_samples=8", "log_every=1", "model.encoder.cell_dim=16")
SETTINGS = ["--preset", "tiny", "--set", "model.encoder.output_dim=8"]
SETTINGS += [argument for change in CHANGES for argument in ("--set", change)]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
TWO_PROCESSES = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")


def train_lines(folder):
    return [line for line in read_metrics(folder) if line["kind"] == "train"]


def start(*arguments, launcher=()):
    return start_python(*launcher, "-m", "elmo", "train", *arguments)


def start_python(*arguments):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ONE_THREAD)


def finish(process):
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return out


@pytest.mark.needs("SIGKILL")
def test_a_run_killed_at_any_moment_resumes_with_the_same_losses(corpus_folder, tmp_path):
    settings = [*SETTINGS, "--set", "max_updates=160", "--set", "checkpoint_every=20"]
    finish(start(corpus_folder, "-o", tmp_path / "whole", *settings))
    process = start(corpus_folder, "-o", tmp_path / "cut", *settings)
    for kills_at in (30, 75):
        wait_for_updates(tmp_path / "cut", kills_at, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        process = start("--resume", tmp_path / "cut")
    finish(process)
    assert train_lines(tmp_path / "cut") == train_lines(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.needs("SIGKILL")
def test_a_run_that_receives_a_signal_saves_first(corpus_folder, tmp_path, number):
    settings = [*SETTINGS, "--set", "max_updates=1000000", "--set", "checkpoint_every=1000000"]
    process = start(corpus_folder, "-o", tmp_path / "run", *settings)
    wait_for_updates(tmp_path / "run", 1, process)
    process.send_signal(number)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 128 + number
    (saved,) = (tmp_path / "run" / "checkpoints").iterdir()
    last = train_lines(tmp_path / "run")[-1]["update"]
    assert saved.name == f"update-{last:08}"
    assert f"stopped after update {last:,}, which is saved; resume: elmo train --resume" in err


@pytest.mark.slow
@pytest.mark.needs("SIGKILL")
def test_processes_that_receive_a_signal_save_first(corpus_folder, tmp_path):
    settings = [*SETTINGS, "--set", "max_updates=100000", "--set", "checkpoint_every=100000"]
    process = start(corpus_folder, "-o", tmp_path / "run", *settings, launcher=TWO_PROCESSES)
    wait_for_updates(tmp_path / "run", 20, process)
    process.send_signal(signal.SIGTERM)  # torchrun hands it on
    _, err = process.communicate(timeout=240)
    (saved,) = (tmp_path / "run" / "checkpoints").iterdir()
    assert saved.name == f"update-{train_lines(tmp_path / 'run')[-1]['update']:08}"
    assert err.count("which is saved") == 1


def wait_for_updates(folder, number, process):
    while len(train_lines(folder)) < number:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def test_two_processes_give_the_losses_of_one(corpus_folder, tmp_path):
    settings = [*SETTINGS, "--set", "max_updates=20", "--set", "dropout=0", "--set", "checkpoint_every=8"]
    finish(start(corpus_folder, "-o", tmp_path / "one", *settings))
    out = finish(start(corpus_folder, "-o", tmp_path / "two", *settings, launcher=TWO_PROCESSES))
    assert out.count("is done") == 1
    one, two = train_lines(tmp_path / "one"), train_lines(tmp_path / "two")
    assert len(one) == len(two) == 20
    for expected, actual in zip(one, two, strict=True):
        assert actual["num_words"] == expected["num_words"]
        for name in ("left_to_right_sampled_loss", "right_to_left_sampled_loss"):
            assert actual[name] == pytest.approx(expected[name], abs=1e-5)


def test_a_mistake_is_one_line(tmp_path, corpus_folder):
    process = start(corpus_folder, "-o", tmp_path / "run", "--set", "optimizer.learning_rat=1")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.count("\n") == 1 and "unknown key 'optimizer.learning_rat' (did you mean 'learning_rate'?)" in err
    assert not (tmp_path / "run").exists()
