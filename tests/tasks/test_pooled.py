"""The linear classifier on pooled vectors and TF-IDF: few labels, long texts, and the choice between networks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from elmo.tasks import describe, load
from elmo.tasks.examples import LabelledText
from elmo.tasks.families.blocks import BilmReference, NetworkInputs, Vocabularies, WordList
from elmo.tasks.families.pooled import PooledClassifier, choose_ngrams
from elmo.tasks.fit import decayed_rate, limit_threads
from elmo.tasks.settings import ReadSettings, TaskInputs, make_settings
from elmo.tasks.shared_inputs import SharedInputs, Splits
from elmo.tasks.training import choose_networks, train_task
from tests.tasks.toys import small, watching


def fit(examples, layers=None):
    """Fit the classifier on examples whose pooled layers are given; return it with its held-out predictions."""
    words = Vocabularies(choose_ngrams([example.words for example in examples]), WordList())
    shape = None if layers is None else BilmReference(None, "", 1, len(next(iter(layers.values()))))
    read_layers = None if layers is None else lambda words: np.asarray(layers[words], dtype=np.float16)[None]
    labels = {"labels": sorted({example.label for example in examples})}
    network = PooledClassifier(labels, NetworkInputs(words, shape, read_layers))
    return network, network.fit_examples(examples, seed=0)


def accuracy(examples, predictions):
    return np.mean([example.label == each.label for example, each in zip(examples, predictions, strict=True)])


def make_examples(rng, num, *, words_matter, vectors_matter):
    examples, layers = [], {}
    for number in range(num):
        label = number % 2
        cue = f"cue{label}" if words_matter else f"cue{rng.integers(2)}"
        words = (f"w{number}", cue, *(f"noise{rng.integers(40)}" for _ in range(20)))
        vector = rng.normal(size=16)
        vector[:2] += (3 if label else -3) * vectors_matter
        layers[words] = vector
        examples.append(LabelledText(words, "ab"[label]))
    return examples, layers


@pytest.mark.parametrize(("words_matter", "vectors_matter"), [(True, False), (False, True)])
def test_the_informative_features_are_used(words_matter, vectors_matter):
    rng = np.random.default_rng(0)
    examples, layers = make_examples(rng, 160, words_matter=words_matter, vectors_matter=vectors_matter)
    network, held_out = fit(examples[:80], layers)
    assert accuracy(examples[80:], network.predict(examples[80:])) > 0.8
    assert accuracy(examples[:80], held_out) > 0.8  # by classifiers that had not seen them


def test_held_out_predictions_of_noise_are_not_better_than_chance():
    rng = np.random.default_rng(1)
    examples, layers = make_examples(rng, 200, words_matter=False, vectors_matter=False)
    _, held_out = fit(examples, layers)
    assert 0.35 < accuracy(examples, held_out) < 0.65


@pytest.mark.parametrize("num", [2, 3, 5])
def test_two_examples_and_an_empty_text_suffice(num):
    examples = [LabelledText(("good",) if number % 2 else ("bad", "film"), "ab"[number % 2]) for number in range(num)]
    network, _ = fit([*examples, LabelledText((), "a")])
    (prediction,) = network.predict([LabelledText((), None)])
    assert sum(prediction.probabilities.values()) == pytest.approx(1, abs=1e-5)


def test_a_pooled_task_is_saved_measured_and_described(train_toy, tmp_path):
    folder, result = train_toy("classification", network__kind="pooled")
    assert result.test["accuracy"] > 90
    assert load(folder).evaluate(tmp_path / "test.csv") == result.test
    described = describe(folder)
    assert described["network"] == "pooled" and described["labels"] == ["bad", "good"]
    assert described["test"] == result.test


def test_without_a_dev_file_all_examples_are_used_and_the_uncertainty_is_logged(toy_inputs, tmp_path, caplog):
    inputs = replace(toy_inputs("classification"), dev=None)
    result = train_task(
        SharedInputs(inputs), small("classification", network__kind="auto"), tmp_path / "run", is_new=True
    )
    assert result.settings["network"]["kind"] == "pooled"
    assert (result.num_train, result.num_dev) == (24, 0)
    assert "measured on 24 examples only and may be off by 20 points" in caplog.text


def test_long_or_few_texts_are_pooled_and_many_short_ones_compared():
    def choose(num, length, **changes):
        example = LabelledText(("word",) * length, "a")
        shared = SharedInputs(TaskInputs("classification", "texts.csv"))
        shared.splits = Splits([example] * num, [], [], ReadSettings())
        return choose_networks(shared, make_settings("classification", changes))

    assert choose(2000, 300) == choose(100, 10) == ["pooled"]
    assert choose(2000, 10) == ["pooled", "bilstm"]
    assert choose(2000, 10, **{"fit.fraction": 0.05}) == ["pooled"]
    assert choose(2000, 300, **{"network.kind": "cnn"}) == ["cnn"]


def test_of_two_networks_the_better_on_dev_is_written(toy_inputs, tmp_path, monkeypatch):
    monkeypatch.setattr("elmo.tasks.training.FEW_EXAMPLES", 0)
    lines = []
    result = train_task(
        SharedInputs(toy_inputs("classification"), watching(say=lines.append)),
        small("classification", network__kind="auto", fit__num_epochs=1, fit__learning_rate=1e-6),
        tmp_path / "run",
        is_new=True,
    )
    assert [line.split(":")[0] for line in lines[-2:]] == ["pooled", "bilstm"]
    assert result.settings["network"]["kind"] == "pooled"  # one epoch at that rate teaches the other nothing
    assert load(tmp_path / "run").family == "classification"


def test_training_uses_one_thread_and_restores_the_setting(toy_inputs, tmp_path):
    seen = set()
    report = watching(show=lambda phase, *_: phase == "epoch 1" and seen.add(torch.get_num_threads()))
    with limit_threads(2):
        settings = small("tagging", fit__num_epochs=1)
        train_task(SharedInputs(toy_inputs("tagging"), report), settings, tmp_path / "run", is_new=True)
        assert torch.get_num_threads() == 2
    assert seen == {1}


def test_decay_over_few_epochs_starts_at_a_higher_rate():
    def total(num_epochs):
        return sum(decayed_rate(epoch + 0.5, num_epochs) for epoch in range(num_epochs))

    assert decayed_rate(10, 10) == 0
    assert total(10) == pytest.approx(15)  # like fifteen epochs of the full rate
    assert total(60) == pytest.approx(30)
