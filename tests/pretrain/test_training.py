"""A run learns, can be adapted to other text, and gives an ordinary model."""

import math

import numpy as np
import pytest

from elmo import CheckpointError, ConfigError, Elmo, ElmoError, InputError
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.checkpoint.source import list_checkpoints
from elmo.corpus.prepare import prepare
from elmo.inference.scoring import evaluate_text
from elmo.pretrain.launch import resume_run, start_run
from elmo.pretrain.metrics import read_metrics
from tests.pretrain.conftest import interrupt

from .conftest import make_text


def train(folder, corpus, settings, **inputs):
    run = start_run(folder, corpus, settings, **inputs)
    run.train()
    run.close()
    return run


def losses(folder):
    return [line["left_to_right_sampled_loss"] for line in read_metrics(folder) if line["kind"] == "train"]


def test_two_hundred_updates_reach_the_loss_that_the_grammar_allows(
    corpus_folder, validation_file, tmp_path, tiny_settings
):
    settings = tiny_settings(max_updates=200, num_samples=0, **{"optimizer.learning_rate": 0.4})
    train(tmp_path / "run", corpus_folder, settings, validation=(str(validation_file),))
    *_, last = (line for line in read_metrics(tmp_path / "run") if line["kind"] == "validation")
    # Choosing among 6 nouns and 4 verbs costs about 0.8 nats a word; knowing nothing costs log(18) = 2.9.
    assert 2.0 < last["perplexity"] < 2.9
    assert last["unknown_rate"] == 0
    model = Elmo.from_pretrained(tmp_path / "run")
    offered = {
        substitute.word for substitute in model.substitutes("the [bank] sees the cat .", top_k=6, same_word=True)
    }
    assert offered == {"bank", "river", "cat", "market", "king", "tree"}
    counts = dict(zip(model.vocabulary.words, model.checkpoint().word_counts, strict=True))
    text = make_text(0, 4000)
    assert counts["bank"] == text.split().count("bank") and counts["."] == counts["<S>"] == 4000


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer.kind": "adamw", "optimizer.learning_rate": 0.01, "optimizer.warmup_steps": 5},
        {"optimizer.decay": "cosine"},
        {"reset_state": "never"},
        {"num_samples": 0},
        {"share_softmax": False},
        {"model.encoder": {"kind": "transformer", "output_dim": 8, "num_heads": 2, "num_layers": 1}},
        {"precision": "bfloat16"},
        {"model.encoder.num_layers": 1},
        {"model.characters": None, "model.words": {"embedding_dim": 8}, "model.token_projection": False},
        {"model.words": {"embedding_dim": 5}},
    ],
    ids=str,
)
def test_every_way_to_train_lowers_the_loss(corpus_folder, tmp_path, tiny_settings, changes):
    settings = tiny_settings(max_updates=60, dropout=0.0, **changes)
    train(tmp_path / "run", corpus_folder, settings)
    kind = "sampled" if settings.num_samples else "full"
    name = f"right_to_left_{kind}_loss"
    values = [line[name] for line in read_metrics(tmp_path / "run") if line["kind"] == "train"]
    assert np.mean(values[-10:]) < np.mean(values[:5]) - 0.3
    assert Elmo.from_pretrained(tmp_path / "run").embed("the bank").shape == (2, 16)


def test_further_training_on_other_text_lowers_its_perplexity(corpus_folder, tmp_path, tiny_settings):
    train(tmp_path / "first", corpus_folder, tiny_settings(max_updates=60))
    other = ["tree", "king"]
    (tmp_path / "other.txt").write_text(make_text(2, 2000, nouns=other))
    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_bytes((corpus_folder / "vocabulary.txt").read_bytes())
    prepare(
        [str(tmp_path / "other.txt")],
        tmp_path / "other",
        split="lines",
        vocabulary=vocabulary,
        num_workers=1,
    )
    before = Elmo.from_pretrained(tmp_path / "first")
    train(tmp_path / "second", tmp_path / "other", tiny_settings(max_updates=60), start_from=str(tmp_path / "first"))
    after = Elmo.from_pretrained(tmp_path / "second")
    held_out = [line.split() for line in make_text(3, 50, nouns=other).splitlines()]
    assert evaluate_text(after, held_out).perplexity < 0.9 * evaluate_text(before, held_out).perplexity


def test_a_trained_model_exported_for_the_old_programs_gives_the_same_vectors(corpus_folder, tmp_path, tiny_settings):
    train(tmp_path / "run", corpus_folder, tiny_settings())
    model = Elmo.from_pretrained(tmp_path / "run")
    write_hdf5(model.checkpoint(), tmp_path / "hdf5")
    exported = Elmo.from_pretrained(tmp_path / "hdf5")
    np.testing.assert_array_equal(
        model.embed("the bank sees", layers="all"), exported.embed("the bank sees", layers="all")
    )


def test_the_last_checkpoints_are_kept_and_the_last_is_opened(corpus_folder, tmp_path, tiny_settings):
    settings = tiny_settings(max_updates=50, checkpoint_every=10, keep_checkpoints=2)
    train(tmp_path / "run", corpus_folder, settings)
    checkpoints = list_checkpoints(tmp_path / "run")
    assert [folder.name for folder in checkpoints] == ["update-00000040", "update-00000050"]
    weights = [Elmo.from_pretrained(folder).checkpoint().weights for folder in (tmp_path / "run", checkpoints[-1])]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_loss_that_is_no_number_stops_and_leaves_the_last_checkpoint(corpus_folder, tmp_path, tiny_settings):
    run = start_run(tmp_path / "run", corpus_folder, tiny_settings(max_updates=30))

    def poison():
        if run.state.num_updates == 15:
            run.state.parameters[0].data.fill_(math.nan)
        return False

    with pytest.raises(ElmoError, match="not a number at update 16"):
        run.train(should_stop=poison)
    (checkpoint,) = list_checkpoints(tmp_path / "run")
    assert checkpoint.name == "update-00000010"
    assert np.isfinite(Elmo.from_pretrained(tmp_path / "run").embed("the bank")).all()


def test_a_run_resumes_exactly_in_the_same_process_too(corpus_folder, tmp_path, tiny_settings):
    settings = tiny_settings(max_updates=24, dropout=0.3)
    train(tmp_path / "whole", corpus_folder, settings)
    run = start_run(tmp_path / "cut", corpus_folder, settings)
    interrupt(run, 17)
    resumed = resume_run(tmp_path / "cut")
    assert resumed.state.num_updates == 10
    resumed.train()
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    one, other = (Elmo.from_pretrained(tmp_path / name).checkpoint().weights for name in ("whole", "cut"))
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_mistakes_are_one_sentence(corpus_folder, tmp_path, tiny_settings):
    settings = tiny_settings(max_updates=10)
    train(tmp_path / "run", corpus_folder, settings)
    with pytest.raises(ConfigError, match="is not empty; give a new folder, or resume the run in it"):
        train(tmp_path / "run", corpus_folder, settings)
    with pytest.raises(CheckpointError, match="holds no training run"):
        resume_run(tmp_path)
    optimizer = list_checkpoints(tmp_path / "run")[-1] / "training" / "optimizer.pt"
    optimizer.write_bytes(optimizer.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="cannot be used .*, so training cannot resume from there"):
        resume_run(tmp_path / "run")
    plain = Elmo.from_pretrained(tmp_path / "run")
    from dataclasses import replace

    from elmo.checkpoint.folder import write_folder

    checkpoint = plain.checkpoint()
    weights = {name: tensor for name, tensor in checkpoint.weights.items() if not name.startswith("softmax")}
    config = replace(checkpoint.config, softmax=None)
    write_folder(replace(checkpoint, config=config, weights=weights), tmp_path / "plain")
    with pytest.raises(ConfigError, match="has no softmax, so its language model cannot be trained further"):
        train(tmp_path / "new", corpus_folder, settings, start_from=str(tmp_path / "plain"))


def test_a_run_that_cannot_start_leaves_no_folder(corpus_folder, tmp_path, tiny_settings):
    with pytest.raises(ConfigError, match="The device 'abacus' cannot be used"):
        start_run(tmp_path / "run", corpus_folder, tiny_settings(), device="abacus")
    with pytest.raises(InputError, match="holds no complete prepared corpus"):
        start_run(tmp_path / "run", tmp_path / "none", tiny_settings())
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_stopped_resumes_with_the_same_losses(corpus_folder, tmp_path, tiny_settings):
    train(tmp_path / "whole", corpus_folder, tiny_settings(dropout=0.2))
    run = start_run(tmp_path / "run", corpus_folder, tiny_settings(dropout=0.2))
    assert not run.train(should_stop=lambda: run.state.num_updates == 7)
    run.close()
    assert [folder.name for folder in list_checkpoints(tmp_path / "run")] == ["update-00000007"]
    run = resume_run(tmp_path / "run")
    assert run.train(should_stop=lambda: run.state.num_updates == 20)  # too late: it is done
    run.close()
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_a_folder_of_a_start_that_was_killed_is_started_again(corpus_folder, tmp_path, tiny_settings):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".lock").touch()
    (folder / ".run.json.saving-12345").write_text('{"half')
    start_run(folder, corpus_folder, tiny_settings(max_updates=1)).train()
    assert (folder / "run.json").exists() and not (folder / ".run.json.saving-12345").exists()


def test_training_removes_files_of_killed_processes(corpus_folder, tmp_path, tiny_settings):
    run = start_run(tmp_path / "run", corpus_folder, tiny_settings(max_updates=1))
    (tmp_path / "run" / "checkpoints").mkdir()
    left = [".metrics.jsonl.saving-1", "checkpoints/.update-00000010.saving-1"]
    for name in left:
        (tmp_path / "run" / name).mkdir()
    run.train()
    assert not any((tmp_path / "run" / name).exists() for name in left)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", '{"format": "modern-elmo-run", "version": 1}'),
        ("run.json", '{"format": "modern-elmo-run", "version": 1, "settings": 3}'),
    ],
)
def test_a_damaged_record_is_an_error(corpus_folder, tmp_path, tiny_settings, name, content):
    settings = tiny_settings(max_updates=1)
    start_run(tmp_path / "run", corpus_folder, settings).train()
    (tmp_path / "run" / name).write_text(content)
    with pytest.raises(CheckpointError, match=name):
        resume_run(tmp_path / "run").train()
