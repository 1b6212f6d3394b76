"""A run with a teacher: our vectors come near its own, runs resume exactly, and models hold nothing of it."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from elmo import CheckpointError, ConfigError, Elmo
from elmo.checkpoint.source import best_checkpoint, list_checkpoints
from elmo.pretrain.distillation import TEACHER_TEMPERATURE, TEMPERATURE, TeacherHeads
from elmo.pretrain.launch import resume_run, start_run
from elmo.pretrain.metrics import read_metrics
from elmo.pretrain.run import Watcher
from elmo.pretrain.settings import read_settings
from elmo.pretrain.stream import WindowStream

from .tiny_encoder import save_encoder

transformers = pytest.importorskip("transformers", reason="the extra distill (transformers) is not installed")

TRANSFORMER = {"kind": "transformer", "output_dim": 8, "num_heads": 2, "num_layers": 2, "context": 5}
WORDS = {"model.characters": None, "model.words": {"embedding_dim": 8}, "model.token_projection": False}


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("teacher") / "encoder", transformers)


@pytest.fixture
def taught_settings(tiny_settings, encoder_folder):
    def make(**changes):
        teacher = {"model": str(encoder_folder), "share": 0.5, "every": 2}
        return tiny_settings(**{"teacher": {**teacher, **changes.pop("teacher", {})}, **changes})

    return make


def start(folder, corpus, settings, **inputs):
    return start_run(folder, corpus, settings, **inputs)


def train(folder, corpus, settings, **inputs):
    run = start(folder, corpus, settings, **inputs)
    run.train(Watcher())
    return run


def cosines(folder, kind="train"):
    return {line["update"]: line.get("teacher_cosine") for line in read_metrics(folder) if line["kind"] == kind}


def test_a_taught_run_opens_its_last_checkpoint(corpus_folder, validation_file, tmp_path, taught_settings):
    # A rate this high makes the language model worse from validation to validation.
    changes = {"max_updates": 20, "validate_every": 10, "checkpoint_every": 10, "optimizer.learning_rate": 30.0}
    for name, teacher in (("taught", {"weight": 1.0}), ("alone", None)):
        settings = replace(taught_settings(**changes), **({} if teacher else {"teacher": None}))
        train(tmp_path / name, corpus_folder, settings, validation=(str(validation_file),))
    lines = read_metrics(tmp_path / "taught")
    first, last = (line["perplexity"] for line in lines if line["kind"] == "validation")
    assert first < last  # so the lowest perplexity is not that of the last
    assert best_checkpoint(tmp_path / "taught") == list_checkpoints(tmp_path / "taught")[-1]
    assert (tmp_path / "alone" / "best.json").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer.kind": "adamw", "optimizer.learning_rate": 0.01, "teacher": {"heads": ["top", "average"]}},
        {"windows_per_update": 2, "num_samples": 0},
        {"teacher": {"predict": True, "relations": 2.0}},
        {"model.encoder": TRANSFORMER, "precision": "bfloat16", "teacher": {"precision": "bfloat16"}},
        {"model.encoder.num_layers": 1, **WORDS},
        {"model.words": {"embedding_dim": 5}, "reset_state": "never", "teacher": {"heads": ["each"]}},
    ],
    ids=str,
)
def test_every_way_to_train_comes_nearer_to_the_teacher(
    corpus_folder, validation_file, tmp_path, taught_settings, changes
):
    settings = taught_settings(**{"max_updates": 40, "validate_every": 20, "checkpoint_every": 40, **changes})
    train(tmp_path / "run", corpus_folder, settings, validation=(str(validation_file),))
    found = cosines(tmp_path / "run")
    assert [update for update, cosine in found.items() if cosine is not None] == list(range(2, 41, 2))
    assert np.mean([found[update] for update in (36, 38, 40)]) > found[2] + 0.15
    held_out = cosines(tmp_path / "run", "validation")
    assert list(held_out) == [20, 40]
    assert held_out[40] == pytest.approx(found[40], abs=0.12)
    kind = "sampled" if settings.num_samples else "full"
    losses = [line[f"left_to_right_{kind}_loss"] for line in read_metrics(tmp_path / "run") if "num_words" in line]
    assert np.mean(losses[-10:]) < np.mean(losses[:5]) - 0.1


def read_first_batch(run):
    """Return the sentences of a run's first lesson and its first batch, the teacher's vectors with it."""
    settings = run.settings
    characters = settings.model.characters
    stream = WindowStream(
        run.corpus,
        num_rows=4,
        rows=range(4),
        num_steps=10,
        seed=0,
        max_characters=characters.max_characters if characters else None,
        read_words=settings.model.words is not None,
        reset_at_sentences=True,
        lessons=run._distillation.lessons(),
    )
    sentences = []
    teacher = run._distillation.teacher
    cut = teacher.cut
    teacher.cut = lambda given: sentences.extend(given) or cut(given)
    batch = stream.next_batch()
    return sentences, replace(batch, lesson=replace(batch.lesson, vectors=teacher.vectors(batch.lesson.pieces)))


@pytest.mark.parametrize(
    "changes",
    [{}, {"model.encoder": TRANSFORMER}, WORDS, {"model.words": {"embedding_dim": 5}}],
    ids=["characters", "transformer", "words", "both"],
)
def test_what_is_taught_are_the_vectors_that_users_get(corpus_folder, tmp_path, taught_settings, changes):
    settings = taught_settings(dropout=0.0, teacher={"heads": ["each", "average"], "every": 1}, **changes)
    run = start(tmp_path / "run", corpus_folder, settings)
    sentences, batch = read_first_batch(run)
    vectors = batch.lesson.vectors
    loss = run.state.objective(batch, run.state.bilm_state, None).teacher
    layers = np.concatenate(Elmo(run.checkpoint()).embed(sentences, layers="all"), axis=1)
    expected = 1 - run.state.heads(torch.from_numpy(layers), vectors)
    assert len(sentences) > 1 and len(expected) == sum(map(len, sentences))
    torch.testing.assert_close(loss, expected.sum())
    assert len(run.state.heads.maps) == run.state.bilm.num_layers


@pytest.mark.parametrize("changes", [{}, {"model.encoder": TRANSFORMER}], ids=["lstm", "transformer"])
def test_the_language_model_can_learn_from_the_lessons(corpus_folder, tmp_path, taught_settings, changes):
    """What predicting a lesson adds to the losses is what `score` says of its sentences."""
    settings = taught_settings(
        dropout=0.0, num_samples=0, teacher={"every": 1, "predict": True, "max_words": 1000}, **changes
    )
    run = start(tmp_path / "run", corpus_folder, settings)
    sentences, batch = read_first_batch(run)
    both = run.state.objective(batch, run.state.bilm_state, None)
    alone = run.state.objective(
        replace(batch, lesson=replace(batch.lesson, num_predicted=0)), run.state.bilm_state, None
    )
    scores = Elmo(run.checkpoint()).score(sentences)
    for direction in ("left_to_right", "right_to_left"):
        added = getattr(both, direction) - getattr(alone, direction)
        assert added.item() == pytest.approx(
            sum(getattr(score, f"{direction}_loss") for score in scores), rel=1e-4
        )
    torch.testing.assert_close(both.teacher, alone.teacher)
    assert batch.lesson.num_predicted == sum(len(words) + 1 for words in sentences)


def test_relations_are_those_among_occurrences_of_a_word():
    torch.manual_seed(0)
    heads = TeacherHeads(["top", "average"], num_layers=3, input_dim=8, output_dim=5)
    layers, words = torch.randn(3, 12, 8), torch.tensor([1, 1, 1, 1, 2, 2, 3, 3, 3, 4, 5, 6])
    vectors = F.normalize(torch.randn(12, 5), dim=1)
    found = heads.relate(layers, vectors, words)
    assert found.nonzero().flatten().tolist() == [0, 1, 2, 3, 6, 7, 8]  # the others occur less than three times
    for word in (0, 7):
        others = [place for place in range(12) if words[place] == words[word] and place != word]
        wanted = torch.softmax(vectors[others] @ vectors[word] / TEACHER_TEMPERATURE, dim=0)
        expected = []
        for own in (layers[2], layers.mean(dim=0)):
            cosines = F.cosine_similarity(own[others], own[word][None])
            expected.append((wanted * (wanted / torch.softmax(cosines / TEMPERATURE, dim=0)).log()).sum())
        assert found[word].item() == pytest.approx(torch.stack(expected).mean().item(), rel=1e-4)


def test_relations_come_nearer_to_the_teacher_by_their_own_weight(corpus_folder, tmp_path, taught_settings):
    """After a run with the weight, the relations of its lesson differ less than after one without."""
    differ = {}
    for weight in (0.0, 20.0):
        settings = taught_settings(max_updates=40, dropout=0.0, teacher={"every": 1, "relations": weight})
        run = train(tmp_path / f"{weight}", corpus_folder, settings)
        _, batch = read_first_batch(run)
        run.state.objective.relates = True
        differ[weight] = run.state.objective(batch, run.state.bilm_state, None).relations.item()
    assert differ[20.0] < 0.9 * differ[0.0]
    with pytest.raises(ConfigError, match="teacher.relations is -1.0; it must be 0 or more"):
        read_settings(changes={"teacher": {"model": "x", "relations": -1.0}})


def test_words_of_lessons_count_where_they_are_predicted(corpus_folder, tmp_path, taught_settings):
    words = {}
    for predict in (False, True):
        settings = taught_settings(max_updates=4, teacher={"every": 2, "predict": predict})
        words[predict] = train(tmp_path / f"{predict}", corpus_folder, settings).state.num_words
    windows = 4 * settings.windows_per_update * settings.num_rows * settings.num_steps
    assert words[False] == windows
    # Two lessons of at least share * every words of a window, with the boundaries and the rest of a sentence.
    lessons = 2 * 0.5 * 2 * settings.num_rows * settings.num_steps
    assert lessons < words[True] - windows < 1.6 * lessons


def test_the_loss_is_that_of_words_weighted_beside_the_language_model(corpus_folder, tmp_path, taught_settings):
    """With plain steps, the change of a head's weights grows with its weight alone."""
    moved = []
    for weight in (1.0, 3.0):
        settings = taught_settings(
            max_updates=1, dropout=0.0, teacher={"every": 1, "weight": weight}, **{"optimizer.clip_norm": 1e9}
        )
        run = start(tmp_path / f"{weight}", corpus_folder, settings)
        run.state.optimizer = torch.optim.SGD(run.state.parameters, lr=0.2)
        before = [parameter.detach().clone() for parameter in run.state.heads.parameters()]
        run.train(Watcher())
        moved.append([after - old for after, old in zip(run.state.heads.parameters(), before, strict=True)])
    for once, thrice in zip(*moved, strict=True):
        torch.testing.assert_close(3 * once, thrice, atol=1e-5, rtol=1e-3)
    assert all(change.abs().max() > 1e-4 for change in moved[0])


def test_the_model_has_nothing_of_the_teacher(corpus_folder, tmp_path, taught_settings, tiny_settings):
    train(tmp_path / "taught", corpus_folder, taught_settings())
    train(tmp_path / "plain", corpus_folder, tiny_settings())
    taught, plain = (Elmo.from_pretrained(tmp_path / name).checkpoint() for name in ("taught", "plain"))
    assert taught.config == plain.config
    assert taught.weights.keys() == plain.weights.keys()
    assert not any("teacher" in path.name for path in list_checkpoints(tmp_path / "taught")[-1].glob("*"))
    again = train(tmp_path / "again", corpus_folder, taught_settings(), start_from=str(tmp_path / "plain"))
    assert again.state.num_updates == 20
    # The same lesson after 20 updates of language modelling begins elsewhere.
    assert cosines(tmp_path / "again")[2] != cosines(tmp_path / "taught")[2]


def test_a_run_resumes_exactly(corpus_folder, tmp_path, taught_settings):
    settings = taught_settings(max_updates=24, dropout=0.3, teacher={"begin": 0.2, "end": 0.9})
    whole = train(tmp_path / "whole", corpus_folder, settings)
    run = start(tmp_path / "cut", corpus_folder, settings)

    class StopError(Exception):
        pass

    def stop(report):
        if report.update == 17:
            raise StopError

    with pytest.raises(StopError):
        run.train(Watcher(on_update=stop))
    resumed = resume_run(tmp_path / "cut")
    assert resumed.state.num_updates == 10
    resumed.train(Watcher())
    assert list(read_metrics(tmp_path / "cut")) == list(read_metrics(tmp_path / "whole"))
    taught = [update for update, cosine in cosines(tmp_path / "whole").items() if cosine is not None]
    assert taught == [6, 8, 10, 12, 14, 16, 18, 20, 22]
    for one, other in zip(whole.state.parameters, resumed.state.parameters, strict=True):
        assert torch.equal(one, other)


def test_a_run_does_not_resume_with_another_teacher(corpus_folder, tmp_path, taught_settings):
    folder = save_encoder(tmp_path / "encoder", transformers)
    settings = taught_settings(max_updates=10, teacher={"model": str(folder)})
    train(tmp_path / "run", corpus_folder, settings)
    config = transformers.BertConfig(
        vocab_size=22, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    transformers.BertModel(config).save_pretrained(folder)
    with pytest.raises(CheckpointError, match="teacher-heads.pt does not fit the teacher, which is not the one"):
        resume_run(tmp_path / "run")


def test_settings_that_teach_nothing_are_errors(corpus_folder, tmp_path, taught_settings, encoder_folder):
    with pytest.raises(ConfigError, match="'teacher.model' is missing"):
        read_settings(changes={"teacher.weight": 2.0})
    with pytest.raises(ConfigError) as caught:
        read_settings(
            changes={"teacher": {"model": " ", "weight": 0.0, "heads": [], "begin": 0.5, "end": 0.5, "every": 0}}
        )
    for fault in (
        "teacher.model is empty",
        "teacher.weight is 0.0",
        "teacher.heads is empty",
        "teacher.every is 0",
    ):
        assert fault in str(caught.value)
    assert "teacher.begin is 0.5 and end is 0.5; 0 <= begin < end <= 1 was expected" in str(caught.value)
    with pytest.raises(
        ConfigError, match="'teacher.heads' is 'bottom'; it must be one of 'top', 'each', 'average'"
    ):
        read_settings(changes={"teacher": {"model": "x", "heads": ["bottom"]}})
    with pytest.raises(ConfigError, match="teacher.every is 9, but the teacher has only 4 of the run's 8 updates"):
        start(tmp_path / "run", corpus_folder, taught_settings(max_updates=8, teacher={"every": 9, "end": 0.5}))
    assert not (tmp_path / "run").exists()


CHANGES = ("num_rows=4", "num_steps=10", "num_samples=8", "log_every=1", "model.encoder.cell_dim=16")
CHANGES += ("model.encoder.output_dim=8", "teacher.share=0.8", "teacher.every=2")


def start_process(*arguments, launcher=(), changes=()):
    command = [sys.executable, *launcher, "-m", "elmo", "train", *map(str, arguments)]
    if changes:
        command += ["--preset", "tiny", *(part for change in (*CHANGES, *changes) for part in ("--set", change))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(process):
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err


@pytest.mark.slow
def test_a_killed_run_resumes_with_the_same_losses(corpus_folder, tmp_path, encoder_folder):
    changes = ["max_updates=300", "checkpoint_every=20"]
    teacher = ["--teacher", encoder_folder]
    finish(start_process(corpus_folder, "-o", tmp_path / "whole", *teacher, changes=changes))
    process = start_process(corpus_folder, "-o", tmp_path / "cut", *teacher, changes=changes)
    while len(list(read_metrics(tmp_path / "cut"))) < 45:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finish(start_process("--resume", tmp_path / "cut"))
    assert list(read_metrics(tmp_path / "cut")) == list(read_metrics(tmp_path / "whole"))


@pytest.mark.slow
@pytest.mark.parametrize("predict", ["false", "true"])
def test_two_processes_give_what_one_gives(corpus_folder, tmp_path, encoder_folder, predict):
    changes = ["max_updates=12", "dropout=0", "checkpoint_every=12", f"teacher.predict={predict}"]
    two = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    teacher = ["--teacher", encoder_folder]
    finish(start_process(corpus_folder, "-o", tmp_path / "two", *teacher, launcher=two, changes=changes))
    finish(start_process(corpus_folder, "-o", tmp_path / "one", *teacher, changes=changes))
    lines = [list(read_metrics(tmp_path / name)) for name in ("one", "two")]
    assert [len(found) for found in lines] == [12, 12]
    for expected, found in zip(*lines, strict=True):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name] == (value if name == "kind" else pytest.approx(value, rel=1e-6, abs=1e-5))
    assert sum("teacher_cosine" in line for line in lines[0]) == 6


def test_an_unavailable_teacher_is_one_line(corpus_folder, tmp_path):
    (tmp_path / "empty").mkdir()
    process = start_process(
        corpus_folder, "-o", tmp_path / "run", "--teacher", tmp_path / "empty", changes=["seed=1"]
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert (
        err.count("\n") == 1 and "empty has no config.json; give the folder or the name of a Hugging Face" in err
    )
    assert not (tmp_path / "run").exists()
