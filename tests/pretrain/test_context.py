"""The context objective: both directions predict what surrounds a word; nothing of it is in the model."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import elmo
from elmo import CheckpointError, ConfigError, Elmo
from elmo.checkpoint.source import list_checkpoints
from elmo.corpus.prepared import MARK, PreparedCorpus
from elmo.corpus.static_vectors import make_static_vectors, write_static_vectors
from elmo.pretrain.context import ContextObjective
from elmo.pretrain.launch import _read_validation, resume_run, start_run
from elmo.pretrain.metrics import read_metrics
from elmo.pretrain.run import Watcher
from elmo.pretrain.settings import ContextSettings, read_settings
from elmo.pretrain.stream import WindowStream
from tests import characters

from .test_processes import SETTINGS, finish, start


@pytest.fixture(scope="module")
def vectors_file(corpus_folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    write_static_vectors(make_static_vectors(corpus_folder, dim=6, window=4), path)
    return path


@pytest.fixture
def context_settings(tiny_settings, vectors_file):
    def make(**changes):
        return tiny_settings(**{"context.vectors": str(vectors_file), "context.weight": 3.0, **changes})

    return make


def train(folder, corpus, settings, **inputs):
    run = start_run(folder, corpus, settings, **inputs)
    run.train(Watcher())
    return run


def cosines(folder, kind="train"):
    return [line["context_cosine"] for line in read_metrics(folder) if line["kind"] == kind]


def make_batch(corpus, objective, num_steps=12, num_rows=3):
    stream = WindowStream(
        corpus, num_rows=num_rows, rows=range(num_rows), num_steps=num_steps, seed=0, max_characters=None,
        read_words=True, reset_at_sentences=True, find_context=objective.find_targets,
    )  # fmt: skip
    return stream


def test_targets_are_the_neighbours_of_the_word_that_both_directions_read(corpus_folder, vectors_file):
    corpus = PreparedCorpus.open(corpus_folder)
    objective = ContextObjective(ContextSettings(vectors=str(vectors_file)), corpus)
    stream = make_batch(corpus, objective)
    blocks = [stream._load(row)[0] for row in range(3)]
    starts = [0, 0, 0]
    num_found = num_words = 0
    for _ in range(5):
        batch = stream.next_batch()
        read = batch.word_ids[batch.word_index].flatten(1)  # (2, T·B)
        ahead, back = batch.context.places
        assert torch.equal(read[0, ahead], read[1, back])
        assert len(set(ahead.tolist())) == len(ahead)
        for place, found in zip(ahead.tolist(), batch.context.vectors, strict=True):
            step, row = divmod(place, 3)
            tokens, at = blocks[row], starts[row] + step
            first = np.flatnonzero(tokens[:at] == MARK)[-1] + 1
            stop = at + 1 + np.append(tokens[at + 1 :] == MARK, True).argmax()
            (whole,) = objective._reader.read([corpus.words(tokens[first:stop])])
            expected = F.normalize(torch.from_numpy(whole[at - first]), dim=0)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        num_found, num_words = num_found + len(ahead), num_words + 36
        starts = [start + 12 for start in starts]
    assert 0.4 * num_words < num_found < num_words


def test_what_surrounds_a_word_does_not_depend_on_the_word(corpus_folder, vectors_file):
    """It decides how much each neighbour counts, by their similarity; with two equal neighbours, nothing else."""
    objective = ContextObjective(ContextSettings(vectors=str(vectors_file)), PreparedCorpus.open(corpus_folder))
    one, other = objective._reader.read([["the", "bank", "the"], ["the", "river", "the"]])
    cosines = [one[at] @ other[at] / np.linalg.norm(one[at]) / np.linalg.norm(other[at]) for at in (0, 1)]
    assert cosines[1] == pytest.approx(1, abs=1e-5) and cosines[0] < 0.99


def test_validation_text_of_a_model_of_characters_is_looked_up_by_character(tmp_path):
    folder = characters.prepare_characters(tmp_path)
    write_static_vectors(make_static_vectors(folder, dim=6), tmp_path / "vectors.txt")
    corpus = PreparedCorpus.open(folder)
    (tmp_path / "valid.txt").write_text("苹果很好吃。\n", encoding="utf-8")
    sentences = _read_validation([str(tmp_path / "valid.txt")], corpus)
    assert sentences == [list("苹果很好吃。")]
    objective = ContextObjective(ContextSettings(vectors=str(tmp_path / "vectors.txt")), corpus)
    (found,) = objective._read(sentences)
    assert (np.linalg.norm(found, axis=1) > 0).all()
    (other,) = objective._read([["苹", "果", "很", "甜", "甜", "。"]])
    assert not np.allclose(found[0], other[0], atol=0.01)


def test_the_loss_falls_and_held_out_words_agree(corpus_folder, validation_file, tmp_path, context_settings):
    settings = context_settings(
        max_updates=120, num_steps=24, validate_every=120, **{"optimizer.learning_rate": 0.4}
    )
    train(tmp_path / "run", corpus_folder, settings, validation=(str(validation_file),))
    found = cosines(tmp_path / "run")
    assert len(found) == 120
    assert np.mean(found[-10:]) > np.mean(found[:5]) + 0.3
    (held_out,) = cosines(tmp_path / "run", "validation")
    assert held_out == pytest.approx(np.mean(found[-10:]), abs=0.1)
    losses = [line["left_to_right_sampled_loss"] for line in read_metrics(tmp_path / "run") if "num_words" in line]
    assert np.mean(losses[-10:]) < np.mean(losses[:5]) - 0.3


def test_gradients_reach_the_states_of_both_directions(corpus_folder, tmp_path, context_settings):
    run = start_run(tmp_path / "run", corpus_folder, context_settings(dropout=0.0))
    state = run.state
    batch = next(run._read_batches())
    state.objective(batch, state.bilm_state, None).context.backward()
    for stack in (state.bilm.left_to_right, state.bilm.right_to_left, state.bilm.tokens, state.context_head):
        assert all(parameter.grad.abs().sum() > 0 for parameter in stack.parameters())
    assert all(parameter.grad is None for parameter in state.bilm.softmax.parameters())


def test_the_weight_scales_the_gradient_of_the_head(corpus_folder, tmp_path, context_settings):
    moved = []
    for weight in (1.0, 3.0):
        changes = {"context.weight": weight, "optimizer.clip_norm": 1e9, "windows_per_update": 2}
        run = start_run(tmp_path / f"{weight}", corpus_folder, context_settings(max_updates=1, **changes))
        run.state.optimizer = torch.optim.SGD(run.state.parameters, lr=0.2)
        before = run.state.context_head.linear.weight.detach().clone()
        run.train(Watcher())
        moved.append(run.state.context_head.linear.weight.detach() - before)
    torch.testing.assert_close(3 * moved[0], moved[1], atol=1e-5, rtol=1e-3)
    assert moved[0].abs().max() > 1e-4


def test_the_model_has_nothing_of_the_objective(corpus_folder, tmp_path, context_settings, tiny_settings):
    train(tmp_path / "with", corpus_folder, context_settings(max_updates=10))
    train(tmp_path / "without", corpus_folder, tiny_settings(max_updates=10))
    one, other = (Elmo.from_pretrained(tmp_path / name).checkpoint() for name in ("with", "without"))
    assert one.config == other.config and one.weights.keys() == other.weights.keys() and one.context is None
    (checkpoint,) = list_checkpoints(tmp_path / "with")
    assert (checkpoint / "training" / "context-head.pt").is_file()
    assert not [path for path in checkpoint.iterdir() if "context" in path.name]


def test_a_run_resumes_exactly(corpus_folder, validation_file, tmp_path, context_settings):
    settings = context_settings(max_updates=24, dropout=0.3, validate_every=8)
    validation = (str(validation_file),)
    whole = train(tmp_path / "whole", corpus_folder, settings, validation=validation)
    run = start_run(tmp_path / "cut", corpus_folder, settings, validation=validation)
    assert not run.train(Watcher(), should_stop=lambda: run.state.num_updates == 13)
    resumed = resume_run(tmp_path / "cut")
    assert resumed.state.num_updates == 13
    resumed.train(Watcher())
    assert list(read_metrics(tmp_path / "cut")) == list(read_metrics(tmp_path / "whole"))
    for one, other in zip(whole.state.parameters, resumed.state.parameters, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", ["adagrad", "adamw"])
def test_the_objective_can_be_added_and_removed_in_a_new_folder(
    corpus_folder, tmp_path, tiny_settings, vectors_file, kind
):
    changes = {"optimizer.kind": kind, "optimizer.learning_rate": 0.02}
    plain = train(tmp_path / "plain", corpus_folder, tiny_settings(max_updates=10, **changes))
    added = resume_run(
        tmp_path / "plain",
        output=tmp_path / "added",
        changes={"context.vectors": str(vectors_file), "max_updates": 20},
    )
    for one, other in zip(plain.state.parameters, added.state.parameters, strict=False):
        assert torch.equal(one, other)
    added.train(Watcher())
    assert len(cosines_after(tmp_path / "added", 10)) == 10
    removed = resume_run(
        tmp_path / "added", output=tmp_path / "removed", changes={"context": None, "max_updates": 22}
    )
    removed.train(Watcher())
    assert "context_cosine" not in list(read_metrics(tmp_path / "removed"))[-1]
    with pytest.raises(ConfigError, match="cannot resume with another context.vectors"):
        resume_run(
            tmp_path / "added",
            output=tmp_path / "other",
            changes={"context.vectors": "other.txt", "max_updates": 30},
        )


def cosines_after(folder, update):
    return [line["context_cosine"] for line in read_metrics(folder) if line["update"] > update]


def test_other_vectors_are_refused(corpus_folder, tmp_path, tiny_settings, vectors_file):
    own = tmp_path / "vectors.txt"
    own.write_bytes(vectors_file.read_bytes())
    train(tmp_path / "run", corpus_folder, tiny_settings(max_updates=10, **{"context.vectors": str(own)}))
    lines = own.read_text().splitlines()
    own.write_text("\n".join([*lines[:-1], lines[-1].rpartition(" ")[0] + " 0.5"]) + "\n")
    with pytest.raises(CheckpointError, match=r"not those that .*context-head.pt was trained with; restore those"):
        resume_run(tmp_path / "run")
    (list_checkpoints(tmp_path / "run")[-1] / "training" / "context-head.pt").unlink()
    with pytest.raises(CheckpointError, match=r"context-head.pt could not be read .* cannot resume from there"):
        resume_run(tmp_path / "run")


def test_the_vectors_of_a_model_serve_too(corpus_folder, tmp_path, tiny_settings):
    train(tmp_path / "plain", corpus_folder, tiny_settings(max_updates=10))
    fused = elmo.fuse(Elmo.from_pretrained(tmp_path / "plain"), corpus_folder, dim=6)
    fused.save_pretrained(tmp_path / "fused")
    run = train(
        tmp_path / "run", corpus_folder, tiny_settings(max_updates=5, **{"context.model": str(tmp_path / "fused")})
    )
    assert run.state.context_head.linear.out_features == 6
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["context"]["model"] == str(
        tmp_path / "fused"
    )
    with pytest.raises(ConfigError, match="plain, which has no context layer; add one with elmo fuse, or set"):
        start_run(tmp_path / "other", corpus_folder, tiny_settings(**{"context.model": str(tmp_path / "plain")}))


def test_settings_need_one_source():
    for changes in ({"context.weight": 2.0}, {"context": {"model": "a", "vectors": "b"}}):
        with pytest.raises(ConfigError, match="context.model and vectors are both given or both missing; set one"):
            read_settings(changes=changes)
    with pytest.raises(ConfigError, match="context.weight is 0.0; it must be above 0"):
        read_settings(changes={"context": {"model": "a", "weight": 0.0}})


@pytest.mark.slow
def test_two_processes_give_what_one_gives(corpus_folder, tmp_path, vectors_file):
    changes = ["max_updates=12", "dropout=0", f'context.vectors="{vectors_file}"']
    settings = [*SETTINGS, *(part for change in changes for part in ("--set", change))]
    two = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    finish(start(corpus_folder, "-o", tmp_path / "two", *settings, launcher=two))
    finish(start(corpus_folder, "-o", tmp_path / "one", *settings))
    lines = [list(read_metrics(tmp_path / name)) for name in ("one", "two")]
    assert [len(found) for found in lines] == [12, 12]
    for expected, found in zip(*lines, strict=True):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name] == (value if name == "kind" else pytest.approx(value, rel=1e-6, abs=1e-5))
