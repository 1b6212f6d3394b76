"""A run with a teacher: word and sentence vectors approach the teacher's, and resuming is exact."""

import numpy as np
import pytest
import torch

from elmo import CheckpointError, ConfigError, Elmo
from elmo.checkpoint.open import open_checkpoint
from elmo.checkpoint.source import list_checkpoints
from elmo.corpus.prepared import PreparedCorpus
from elmo.inference.sentence import SentenceEncoder
from elmo.pretrain.auxiliary import pack_rows
from elmo.pretrain.distillation import SIMILAR_GROUPS, ContrastFinder, order_groups
from elmo.pretrain.launch import resume_run, start_run
from elmo.pretrain.metrics import read_metrics
from elmo.pretrain.settings import read_settings
from elmo.pretrain.teacher import Teacher
from tests.pretrain.conftest import interrupt

from .tiny_encoder import save_encoder

transformers = pytest.importorskip("transformers", reason="the extra distill (transformers) is not installed")

TRANSFORMER = {"kind": "transformer", "output_dim": 8, "num_heads": 2, "num_layers": 2, "context": 5}
WORDS = {"model.characters": None, "model.words": {"embedding_dim": 8}, "model.token_projection": False}


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("teacher") / "encoder", transformers)


@pytest.fixture
def distilled_settings(tiny_settings, encoder_folder):
    def make(**changes):
        teacher = {"model": str(encoder_folder), "num_sentences": 200, "batch_sentences": 16}
        return tiny_settings(**{"teacher": {**teacher, **changes.pop("teacher", {})}, **changes})

    return make


def train(folder, corpus, settings, **inputs):
    run = start_run(folder, corpus, settings, **inputs)
    run.train()
    return run


def values(folder, name="teacher_cosine", kind="train"):
    return {line["update"]: line.get(name) for line in read_metrics(folder) if line["kind"] == kind}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer.kind": "adamw", "optimizer.learning_rate": 0.01},
        {"num_samples": 0},
        {"model.encoder": TRANSFORMER, "precision": "bfloat16", "teacher": {"precision": "bfloat16"}},
        {"model.encoder.num_layers": 1, **WORDS},
        {"model.words": {"embedding_dim": 5}, "reset_state": "never"},
    ],
    ids=str,
)
def test_words_and_sentences_approach_the_teacher(
    corpus_folder, validation_file, tmp_path, distilled_settings, changes
):
    teacher = {"sentences": 10.0, **changes.pop("teacher", {})}
    changes = {"max_updates": 60, "validate_every": 60, "checkpoint_every": 60, **changes, "teacher": teacher}
    train(tmp_path / "run", corpus_folder, distilled_settings(**changes), validation=(str(validation_file),))
    for name in ("teacher_cosine", "sentence_cosine"):
        measured = values(tmp_path / "run", name)
        assert None not in measured.values() and len(measured) == 60
        assert np.mean([measured[update] for update in (58, 59, 60)]) > measured[1]
        assert values(tmp_path / "run", name, "validation")[60] == pytest.approx(measured[60], abs=0.15)


def test_the_model_has_the_sentence_head_and_nothing_else_of_the_teacher(
    corpus_folder, tmp_path, distilled_settings, encoder_folder
):
    settings = distilled_settings(max_updates=40, teacher={"sentences": 10.0})
    run = train(tmp_path / "run", corpus_folder, settings)
    checkpoint = open_checkpoint(str(tmp_path / "run"))
    assert checkpoint.sentence is not None and checkpoint.sentence.config.dim == 12
    model = Elmo.from_pretrained(tmp_path / "run")
    sentences = [["the", "bank", "sees", "the", "cat", "."], ["the", "cat", "sees", "the", "bank", "."]]
    layers = model.embed(sentences, layers="all")
    nothing = [np.zeros((len(words), 0), np.float32) for words in sentences]
    weights = [np.ones(len(words), np.float32) for words in sentences]
    vectors = np.stack(
        [
            SentenceEncoder(checkpoint.sentence.arrays).encode(*sentence)
            for sentence in zip(layers, nothing, weights, strict=True)
        ]
    )
    expected = Teacher(str(encoder_folder)).encode(sentences).sentences.numpy()
    assert (vectors * expected).sum(axis=1).min() > 0.5
    assert abs(vectors[0] @ vectors[1]) < 1 - 1e-6  # the order of words counts
    words_only = train(tmp_path / "words", corpus_folder, distilled_settings())
    assert words_only.checkpoint().sentence is None
    again = train(tmp_path / "again", corpus_folder, settings, start_from=str(tmp_path / "run"))
    assert values(tmp_path / "again", "sentence_cosine")[1] > 0.9
    assert again.state.num_updates == run.state.num_updates


@pytest.mark.parametrize(
    "changes",
    [{}, {"model.encoder": TRANSFORMER}, WORDS, {"model.words": {"embedding_dim": 5}}],
    ids=["characters", "transformer", "words", "both"],
)
def test_the_trained_vectors_are_those_of_embed(corpus_folder, tmp_path, distilled_settings, changes):
    settings = distilled_settings(dropout=0.0, teacher={"sentences": 1.0}, **changes)
    run = start_run(tmp_path / "run", corpus_folder, settings)
    distillation = run.auxiliary
    batch = distillation.draw(0)
    sentences = [run.corpus.words(distillation.cache.sentence(row)) for row in distillation.rows(0)]
    with torch.no_grad():
        layers = run.state.objective.encode_sentences(batch)
    model = Elmo(run.checkpoint())
    expected = np.concatenate(model.embed(sentences, layers="all"), axis=1)
    torch.testing.assert_close(layers, torch.from_numpy(expected), rtol=1e-4, atol=1e-4)
    targets = batch.targets
    with torch.no_grad():
        own = distillation.sentences.head(layers, targets.static, targets.weights, targets.lengths)
    np.testing.assert_allclose(own.numpy(), model.encode(sentences), rtol=1e-3, atol=1e-3)


def test_contrasts_are_reordered_and_negated_sentences(corpus_folder):
    corpus = PreparedCorpus.open(corpus_folder)
    ids = {word: number for number, word in enumerate(corpus.words(np.arange(corpus.num_distinct_words + 1)))}

    def read(text):
        return np.array([ids[word] for word in text.split()])

    texts = ["the cat sees the king", "the king sees the cat", "the cat sees the king", "the cat likes the king"]
    finder = ContrastFinder(corpus, ["a"])
    pairs = finder.find([read(text) for text in texts])
    assert pairs.tolist() == [[0, 1], [1, 2]]
    assert finder.find([read("the cat sees king"), read("the cat sees a king")]).tolist() == [[0, 1]]


def test_neighboring_groups_of_an_order_are_similar():
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(20, 16))
    topic = np.repeat(np.arange(20), SIMILAR_GROUPS)
    vectors = (topics[topic] + 0.1 * rng.normal(size=(len(topic), 16))).astype(np.float32)
    order = order_groups(vectors, np.random.default_rng(1))
    assert sorted(order.tolist()) == list(range(len(topic)))
    assert (topic[order][1:] == topic[order][:-1]).mean() > 0.5  # 0.05 in a random order
    assert order.tolist() == order_groups(vectors, np.random.default_rng(1)).tolist()
    assert order.tolist() != order_groups(vectors, np.random.default_rng(2)).tolist()


def test_a_run_resumes_exactly(corpus_folder, tmp_path, distilled_settings):
    settings = distilled_settings(max_updates=24, dropout=0.3, teacher={"begin": 0.2, "sentences": 5.0})
    whole = train(tmp_path / "whole", corpus_folder, settings)
    run = start_run(tmp_path / "cut", corpus_folder, settings)
    interrupt(run, 17)
    resumed = resume_run(tmp_path / "cut")
    assert resumed.state.num_updates == 10
    resumed.train()
    assert list(read_metrics(tmp_path / "cut")) == list(read_metrics(tmp_path / "whole"))
    distilled = [update for update, cosine in values(tmp_path / "whole").items() if cosine is not None]
    assert distilled == list(range(6, 25))
    for one, other in zip(whole.state.parameters, resumed.state.parameters, strict=True):
        assert torch.equal(one, other)


def test_the_teacher_runs_once_and_its_cache_is_checked(corpus_folder, tmp_path, distilled_settings, monkeypatch):
    cache = {"cache": str(tmp_path / "cache")}
    train(tmp_path / "one", corpus_folder, distilled_settings(max_updates=4, teacher=cache))

    def refuse(self, sentences):
        raise AssertionError("the teacher ran again")

    monkeypatch.setattr(Teacher, "encode", lambda self, sentences: refuse(self, sentences))
    monkeypatch.setattr(Teacher, "_check", lambda self: setattr(self, "dim", 12))
    train(tmp_path / "two", corpus_folder, distilled_settings(max_updates=4, teacher=cache))
    assert values(tmp_path / "one") == values(tmp_path / "two")
    with pytest.raises(ConfigError, match="has the vectors of another teacher, corpus or setting"):
        train(tmp_path / "three", corpus_folder, distilled_settings(teacher={**cache, "num_sentences": 100}))
    monkeypatch.undo()
    torch_encode = Teacher.encode
    calls = []

    def interrupted(self, sentences):
        calls.append(len(sentences))
        if len(calls) == 4:  # after the check of the teacher and two chunks
            raise KeyboardInterrupt
        return torch_encode(self, sentences)

    monkeypatch.setattr("elmo.pretrain.teacher._SENTENCES_AT_ONCE", 64)
    monkeypatch.setattr(Teacher, "encode", interrupted)
    cut = {"cache": str(tmp_path / "cut")}
    with pytest.raises(KeyboardInterrupt):
        start_run(tmp_path / "four", corpus_folder, distilled_settings(teacher=cut))
    start_run(tmp_path / "four", corpus_folder, distilled_settings(teacher=cut))
    for name in ("sentences.npy", "words.npy"):
        one, two = (np.load(tmp_path / folder / name).astype(np.float32) for folder in ("cache", "cut"))
        np.testing.assert_allclose(one, two, atol=2e-3)


def test_a_run_does_not_resume_with_another_teacher(corpus_folder, tmp_path, distilled_settings):
    folder = save_encoder(tmp_path / "encoder", transformers)
    settings = distilled_settings(max_updates=10, teacher={"model": str(folder)})
    train(tmp_path / "run", corpus_folder, settings)
    training = list_checkpoints(tmp_path / "run")[-1] / "training"
    state = torch.load(training / "auxiliary.pt")
    torch.save({name: tensor[:5] for name, tensor in state.items()}, training / "auxiliary.pt")
    with pytest.raises(CheckpointError, match="cannot be used .*so training cannot resume from there"):
        resume_run(tmp_path / "run")


def test_settings_that_distil_nothing_are_errors():
    with pytest.raises(ConfigError, match="'teacher.model' is missing"):
        read_settings(changes={"teacher.words": 2.0})
    with pytest.raises(ConfigError) as caught:
        read_settings(changes={"teacher": {"model": "x", "words": 0.0}})
    assert "words and sentences are both 0" in str(caught.value)


def test_distillation_takes_part_in_the_last_update_at_least(corpus_folder, tmp_path, distilled_settings):
    train(tmp_path / "run", corpus_folder, distilled_settings(max_updates=3, teacher={"begin": 1.0}))
    measured = values(tmp_path / "run")
    assert measured[1] is None and measured[2] is None and measured[3] is not None


def test_rows_hold_whole_sentences_and_little_else():
    lengths = np.random.default_rng(0).integers(1, 49, 200).tolist()
    rows = pack_rows(lengths)
    assert sorted(number for row in rows for number in row) == list(range(200))
    size = max(lengths) + 1
    assert max(sum(lengths[number] + 1 for number in row) for row in rows) <= size
    assert sum(lengths) + 200 > 0.9 * size * len(rows)
