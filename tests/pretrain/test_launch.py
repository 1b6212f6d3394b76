"""Training from Python: results, output and errors of elmo.train and elmo.resume_training."""

import os
import signal

import pytest

import elmo
from elmo import ConfigError, Elmo, InputError
from elmo.checkpoint.source import list_checkpoints
from elmo.pretrain.metrics import read_metrics

TINY = {
    "model.encoder.cell_dim": 16, "model.encoder.output_dim": 8, "num_rows": 4, "num_steps": 10, "num_samples": 8,
    "max_updates": 20, "log_every": 1, "checkpoint_every": 10, "validate_every": 10,
}  # fmt: skip


def test_a_run_returns_its_result_and_prints_nothing(corpus_folder, validation_file, tmp_path, capsys):
    result = elmo.train(corpus_folder, tmp_path / "run", preset="tiny", changes=TINY, validation=[validation_file])
    *_, last = (line for line in read_metrics(tmp_path / "run") if line["kind"] == "validation")
    assert result.is_done and result.stopped_by is None and result.folder == tmp_path / "run"
    assert (result.num_updates, result.num_words, result.perplexity) == (20, 20 * 40, last["perplexity"])
    assert Elmo.from_pretrained(result.folder).embed("the bank").shape == (2, 16)
    again = elmo.resume_training(result.folder)
    assert again.is_done and again.num_updates == 20 and again.perplexity is None
    assert capsys.readouterr() == ("", "")


def test_progress_is_shown_on_stderr(corpus_folder, validation_file, tmp_path, capsys):
    elmo.train(
        corpus_folder,
        tmp_path / "run",
        preset="tiny",
        changes=TINY,
        validation=[validation_file],
        show_progress_bar=True,
    )
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "update 10: validation perplexity (full softmax) " in shown.err
    assert f"saved {tmp_path / 'run' / 'checkpoints' / 'update-00000020'}" in shown.err
    list_checkpoints(tmp_path / "run")[-1].rename(tmp_path / "taken away")
    elmo.resume_training(tmp_path / "run", show_progress_bar=True)
    assert capsys.readouterr().err.startswith("Resuming after update 10 of 20.\n")


def test_a_signal_saves_and_returns(corpus_folder, tmp_path, monkeypatch):
    from elmo.pretrain import launch

    class Killing(launch.TrainingReport):
        def on_update(self, report):
            if report.update == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(launch, "TrainingReport", Killing)
    before = signal.getsignal(signal.SIGTERM)
    result = elmo.train(corpus_folder, tmp_path / "run", preset="tiny", changes=TINY, show_progress_bar=True)
    assert not result.is_done and result.stopped_by == signal.SIGTERM
    assert [folder.name for folder in list_checkpoints(tmp_path / "run")] == [f"update-{result.num_updates:08}"]
    assert signal.getsignal(signal.SIGTERM) == before
    monkeypatch.undo()
    assert elmo.resume_training(tmp_path / "run").num_updates == 20


def test_mistakes_are_one_sentence(corpus_folder, tmp_path):
    with pytest.raises(InputError, match="has the configuration of that model, so model.words, share_softmax cannot"):
        elmo.train(
            corpus_folder,
            tmp_path / "run",
            init="x",
            changes={"model.words": 1, "share_softmax": False},
        )
    with pytest.raises(ConfigError, match="The preset 'huge' is not known"):
        elmo.train(corpus_folder, tmp_path / "run", preset="huge")
    assert not (tmp_path / "run").exists()
