"""Runs: exact resumption, complete files, and folders that record their settings."""

import json
import math
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from elmo import CheckpointError, ConfigError, Elmo, InputError
from elmo.tasks import load
from elmo.tasks.fit import FitState
from elmo.tasks.settings import FitSettings, TaskInputs, make_settings
from elmo.tasks.shared_inputs import SharedInputs
from elmo.tasks.training import SCORES_FILE, TRAINING, read_run, start, train_task
from tests.conftest import TINY_CONFIG
from tests.tasks.toys import small, watching, write_toy

KILL_AFTER_EPOCH = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from elmo.tasks.fit import TaskReport
from elmo.tasks.training import read_run, train_task
from elmo.tasks.shared_inputs import SharedInputs
inputs, settings = read_run(Path(sys.argv[1]))
def end(record):
    if record["epoch"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
report = TaskReport()
report.on_epoch = end
train_task(SharedInputs(inputs, report), settings, Path(sys.argv[1]))
"""
DROPOUT = {"words__dropout": 0.3, "network__dropout": 0.3, "elmo__dropout": 0.5, "fit__num_epochs": 4}


def without_time(scores):
    return {name: value for name, value in scores.to_dict().items() if name != "elapsed_seconds"}


def interrupt(run, inputs, settings):
    """Train two epochs, then fail as if the machine had."""

    def end(record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_task(SharedInputs(inputs, watching(on_epoch=end)), settings, run)


def kill(run, inputs, settings):
    """Train two epochs in another process, which then kills itself."""
    code = [sys.executable, "-c", KILL_AFTER_EPOCH, str(run)]
    assert subprocess.run(code, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize("stop", [interrupt, pytest.param(kill, marks=pytest.mark.slow)])
@pytest.mark.needs("SIGKILL")
def test_an_interrupted_run_resumes_to_the_same_scores(train_toy, toy_inputs, tmp_path, stop):
    _, whole = train_toy("tagging", name="whole", **DROPOUT)
    inputs, settings = toy_inputs("tagging"), small("tagging", **DROPOUT)
    run = tmp_path / "stopped"
    start(inputs, settings, run)
    stop(run, inputs, settings)
    assert [entry.name for entry in run.iterdir()] == [TRAINING]
    with pytest.raises(CheckpointError, match="is not a trained task"):
        load(run)
    assert read_run(run) == (inputs, settings)
    epochs = []
    report = watching(on_epoch=lambda record: epochs.append(record["epoch"]))
    resumed = train_task(SharedInputs(inputs, report), settings, run)
    assert epochs == [3, 4]
    assert without_time(resumed) == without_time(whole)
    assert json.loads((run / SCORES_FILE).read_text()) == json.loads(json.dumps(resumed.to_dict()))


def test_the_seed_determines_the_network(train_toy):
    runs = [
        train_toy("tagging", name=name, fit__seed=seed, fit__num_epochs=1)[1]
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert runs[0].history == runs[1].history != runs[2].history


def test_training_stops_when_the_dev_score_no_longer_rises(train_toy):
    _, scores = train_toy("classification", fit__num_epochs=30, fit__patience=2)
    assert len(scores.history) == scores.best_epoch + 2 < 30


def test_linear_decay_falls_to_almost_nothing(train_toy, monkeypatch):
    rates = []
    monkeypatch.setattr(
        "elmo.tasks.training.save_state",
        lambda path, state: rates.append(state.optimizer["param_groups"][0]["lr"]),
    )
    train_toy("tagging", fit__num_epochs=2, fit__patience=2, fit__linear_decay=True, fit__learning_rate=0.01)
    assert 0.015 < rates[0] < 0.025  # of few epochs it starts higher
    assert 0 < rates[1] < 0.008


def test_a_run_is_not_resumed_with_changed_data(toy_inputs, tmp_path):
    inputs = toy_inputs("tagging")
    start(inputs, small("tagging"), tmp_path / "run")
    write_toy("tagging", tmp_path, "train", seed=7)
    with pytest.raises(InputError, match="has changed since the run"):
        read_run(tmp_path / "run")


def test_a_run_is_not_resumed_with_another_bilm(toy_inputs, tmp_path):
    Elmo.from_config(TINY_CONFIG, seed=1).save_pretrained(tmp_path / "moving")
    inputs, settings = toy_inputs("tagging", model=str(tmp_path / "moving")), small("tagging", **DROPOUT)
    start(inputs, settings, tmp_path / "run")
    interrupt(tmp_path / "run", inputs, settings)
    shutil.rmtree(tmp_path / "moving")
    Elmo.from_config(TINY_CONFIG, seed=2).save_pretrained(tmp_path / "moving")
    with pytest.raises(InputError, match="moving is not the biLM that the run in .*run started with"):
        train_task(SharedInputs(inputs), settings, tmp_path / "run")


def test_negative_and_nan_scores_still_select_an_epoch():
    state, best = FitState(), []
    for epoch, score in enumerate([math.nan, -40.0, -60.0, -20.0, math.nan], start=1):
        state.epoch = epoch
        state.record_epoch(0.0, {"accuracy": score}, "accuracy", FitSettings())
        best.append(state.best_epoch)
    assert best == [1, 2, 2, 4, 4]


def test_a_folder_that_is_not_empty_is_not_overwritten(toy_inputs, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("x")
    with pytest.raises(InputError, match="exists already"):
        start(toy_inputs("tagging"), small("tagging"), tmp_path / "run")


def test_a_folder_opens_only_with_its_own_bilm(train_toy, bilm_folder, tmp_path):
    folder, _ = train_toy("tagging", fit__num_epochs=1)
    Elmo.from_config(TINY_CONFIG, seed=3).save_pretrained(tmp_path / "other")
    with pytest.raises(CheckpointError, match="was trained with another biLM"):
        load(folder, bilm=tmp_path / "other")
    description = json.loads((folder / "task.json").read_text())
    description["bilm"]["source"] = str(tmp_path / "gone")
    (folder / "task.json").write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match="The biLM of .* could not be opened"):
        load(folder)
    assert load(folder, bilm=bilm_folder).predict([["Rome"]])
    opened = Elmo.from_pretrained(bilm_folder)
    assert load(folder, bilm=opened).predict([["Rome"]]) == load(folder, bilm=bilm_folder).predict([["Rome"]])
    with pytest.raises(CheckpointError, match="another biLM than Elmo"):
        load(folder, bilm=Elmo.from_config(TINY_CONFIG, seed=3))


def test_a_carried_bilm_makes_the_folder_self_contained(train_toy):
    folder, _ = train_toy("tagging", inputs={"carry_bilm": True}, fit__num_epochs=1)
    description = json.loads((folder / "task.json").read_text())
    description["bilm"]["source"] = "nowhere"
    (folder / "task.json").write_text(json.dumps(description))
    assert load(folder).predict([["Rome"]])


def test_a_damaged_folder_is_reported(train_toy):
    folder, _ = train_toy("tagging", inputs={"model": None}, elmo__where="none", fit__num_epochs=1)
    (folder / "weights.safetensors").write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="is damaged"):
        load(folder)


def test_labels_unknown_in_training_are_reported_with_their_line(toy_inputs, tmp_path, caplog):
    inputs = toy_inputs("classification")
    (tmp_path / "test.csv").write_text('text,label\n"look, a cat here",good\n"a unicorn",fabulous\n')
    settings = small("classification", fit__num_epochs=1)
    scores = train_task(SharedInputs(inputs), settings, tmp_path / "run", is_new=True)
    assert "test.csv, line 3: 'fabulous' was not among the labels in training (1 such test examples)" in caplog.text
    assert scores.test["accuracy"] <= 50


def test_word_vectors_of_a_file_are_used_and_kept_in_the_folder(train_toy, tmp_path):
    vectors = tmp_path / "vectors.txt"
    words = ["cat", "dog", "rat", "bug", "unseen"]
    vectors.write_text("".join(f"{word} {' '.join(['0.5', str(number)])}\n" for number, word in enumerate(words)))
    folder, scores = train_toy(
        "classification", inputs={"word_vectors": str(vectors)}, words__kinds=["pretrained"], elmo__where="none"
    )
    vectors.unlink()
    assert scores.dev["accuracy"] > 90
    assert json.loads((folder / "words.json").read_text())["pretrained"] == sorted(words)
    assert load(folder).predict(["a cat"])


def test_pretrained_words_without_a_file_are_rejected(toy_inputs, tmp_path):
    with pytest.raises(InputError, match="give --word-vectors FILE"):
        train_task(
            SharedInputs(toy_inputs("tagging")),
            small("tagging", words__kinds=["pretrained"]),
            tmp_path / "run",
            is_new=True,
        )
    assert not (tmp_path / "run").exists()


def test_held_out_dev_examples_are_the_same_for_every_seed_and_fraction(toy_inputs):
    path = toy_inputs("tagging").train
    splits = SharedInputs(TaskInputs("tagging", path)).splits
    choices = [small("tagging", fit__seed=seed, fit__fraction=part).fit for seed, part in ((0, 1.0), (1, 0.5))]
    drawn = [splits.draw(choice) for choice in choices]
    assert drawn[0][1] == drawn[1][1] and len(drawn[0][1]) == 6
    assert len(drawn[1][0]) == len(drawn[0][0]) // 2
    assert all(example not in drawn[0][1] for example in drawn[0][0] if drawn[0][0].count(example) == 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words.kinds": [], "elmo.where": "output"}, "the network would have no input"),
        ({"words.kinds": ["glove"]}, "must be one of 'pretrained', 'learned', 'characters'"),
        ({"network.kind": "rnn"}, "'bilstm', 'cnn', 'linear'"),
        ({"network.dim": 7}, "must be even"),
        ({"network.size": 7}, "unknown key 'network.size'"),
        ({"fit.fraction": 0.0}, "must be above 0"),
        ({"network.kind": "pooled", "elmo.tune": True}, "which uses a frozen biLM"),
    ],
)
def test_invalid_settings_are_rejected(changes, message):
    with pytest.raises(ConfigError) as caught:
        make_settings("tagging", changes)
    assert message in str(caught.value)


@pytest.mark.parametrize("layers", ["learned", "top", "concat"])
def test_gamma_is_initialized_by_the_spread_of_the_layers(train_toy, toy_inputs, bilm_folder, layers):
    still = {"fit__learning_rate": 1e-12, "fit__num_epochs": 1, "elmo__layers": layers}
    _, result = train_toy("tagging", **still)
    examples = SharedInputs(toy_inputs("tagging")).splits.train
    kind = {"learned": "average", "top": "top", "concat": "concat"}[layers]
    vectors = np.concatenate(
        Elmo.from_pretrained(bilm_folder).embed([list(each.words) for each in examples], layers=kind)
    )
    for mix in result.mixes:
        assert mix["gamma"] * vectors.std(axis=0).mean() == pytest.approx(0.5, rel=1e-2)
