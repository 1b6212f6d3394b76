"""A run that resumes in a new folder with changed settings."""

import json

import pytest

from elmo import CheckpointError, ConfigError
from elmo.checkpoint.source import list_checkpoints
from elmo.cli.run import main
from elmo.pretrain.launch import resume_run, start_run
from elmo.pretrain.metrics import read_metrics
from elmo.pretrain.run import Watcher


@pytest.fixture
def source(corpus_folder, tmp_path, tiny_settings):
    run = start_run(tmp_path / "run", corpus_folder, tiny_settings(max_updates=20))
    run.train(Watcher())
    run.close()
    return tmp_path / "run"


def resume(source, folder, **changes):
    run = resume_run(source, output=folder, changes=changes)
    run.train(Watcher())
    run.close()
    return [line for line in read_metrics(folder) if line["kind"] == "train"]


def without_times(lines):
    return [{name: value for name, value in line.items() if name != "time"} for line in lines]


def test_it_resumes_as_the_run_itself_would(source, corpus_folder, tmp_path, tiny_settings):
    found = resume(source, tmp_path / "longer", max_updates=30)
    whole = start_run(tmp_path / "whole", corpus_folder, tiny_settings(max_updates=30))
    whole.train(Watcher())
    whole.close()
    expected = [line for line in read_metrics(tmp_path / "whole") if line["kind"] == "train"]
    assert without_times(found) == without_times(expected)
    assert [folder.name for folder in list_checkpoints(source)] == ["update-00000010", "update-00000020"]


def test_settings_that_were_changed_count_from_there(source, tmp_path):
    changes = {"max_updates": 24, "optimizer.cooldown_steps": 4, "optimizer.learning_rate": 0.5, "dropout": 0.0}
    found = resume(source, tmp_path / "cooled", **changes)
    assert [line["learning_rate"] for line in found[-4:]] == pytest.approx([0.4, 0.3, 0.2, 0.1])
    record = json.loads((tmp_path / "cooled" / "run.json").read_text())
    assert record["branched_from"] == str(source.resolve())
    assert record["settings"]["dropout"] == 0.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_rows": 8}, "cannot resume with another num_rows; leave that unchanged, or start a new run"),
        ({"model.encoder.cell_dim": 32, "optimizer.kind": "adamw"}, "another model, optimizer.kind;"),
        ({"teacher.model": "an-encoder"}, "another teacher.model, teacher.words, teacher.sentences;"),
        ({"dropout": 2.0}, "dropout is 2.0; it must be at least 0"),
        ({"max_updats": 30}, "max_updats"),
        (
            {"max_updates": 20},
            r"is at update 20, and with max_updates \(20\) .* the run ends at 20; raise them",
        ),
        ({"max_updates": None, "num_epochs": 0.01}, r"num_epochs \(0.01\) the run ends at \d+; raise them"),
        ({"max_updates": 40, "windows_per_update": 2}, "another windows_per_update;"),
    ],
)
def test_what_a_checkpoint_does_not_fit_is_refused_and_nothing_is_written(source, tmp_path, changes, said):
    with pytest.raises(ConfigError, match=said):
        resume_run(source, output=tmp_path / "new", changes=changes)
    assert not (tmp_path / "new").exists()


def test_unusable_folders_are_errors(source, corpus_folder, tmp_path, tiny_settings):
    with pytest.raises(ConfigError, match="already exists; give a new folder"):
        resume_run(source, output=source, changes={})
    with pytest.raises(CheckpointError, match="holds no training run"):
        resume_run(tmp_path / "nothing", output=tmp_path / "new", changes={})
    start_run(tmp_path / "fresh", corpus_folder, tiny_settings()).close()
    with pytest.raises(CheckpointError, match="has no checkpoint yet"):
        resume_run(tmp_path / "fresh", output=tmp_path / "new", changes={})


def test_the_command_branches_and_says_what_it_needs(source, tmp_path, capsys):
    assert main(["train", "--resume", str(source), "--output", str(tmp_path / "new"), "--set", "max_updates=21"]) == 0
    assert [folder.name for folder in list_checkpoints(tmp_path / "new")] == ["update-00000020", "update-00000021"]
    assert main(["train", "--resume", str(source), "--set", "max_updates=30"]) == 2
    assert "to change its settings, give a new folder too (--output)." in capsys.readouterr().err


def test_the_decay_of_weights_can_be_changed(corpus_folder, tmp_path, tiny_settings):
    settings = tiny_settings(**{"optimizer.kind": "adamw", "optimizer.learning_rate": 0.01})
    run = start_run(tmp_path / "run", corpus_folder, settings)
    run.train(Watcher())
    run.close()
    changed = resume_run(
        tmp_path / "run", output=tmp_path / "decaying", changes={"max_updates": 30, "optimizer.weight_decay": 0.5}
    )
    assert [group["weight_decay"] for group in changed.state.optimizer.param_groups] == [0.5]
    changed.close()
