"""Changing the vocabulary of a trained model: which weights are kept, and how new words are initialized."""

from dataclasses import replace

import numpy as np
import pytest

from elmo import Elmo
from elmo.checkpoint.folder import read_folder, write_folder
from elmo.checkpoint.vocabulary import change_vocabulary
from tests.conftest import refused
from tests.language_models import (
    SPECIAL,
    VOCABULARY,
    expected_log_probabilities,
    language_config,
    make_language_model,
)

WORDS = ["I", "went", "to", "the", "bank"]
NEW = ["</S>", "river", "fish", "<UNK>", "bank", "<S>", "boat"]


@pytest.fixture(scope="module", params=[False, True], ids=["characters", "words"])
def checkpoint(request):
    return make_language_model(reads_words=request.param).checkpoint()


def tables(checkpoint):
    names = ("softmax.weight", "softmax.bias", "tokens.words.weight")
    return {name: checkpoint.weights[name] for name in names if name in checkpoint.weights}


def test_shared_words_keep_their_rows_bit_for_bit(checkpoint):
    changed = change_vocabulary(checkpoint, NEW)
    assert changed.vocabulary == tuple(NEW)
    for name, table in tables(changed).items():
        assert len(table) == len(NEW)
        for number, word in enumerate(NEW):
            if word in VOCABULARY:
                old = checkpoint.weights[name][VOCABULARY.index(word)]
                assert np.array_equal(table[number], old), (name, word)


def test_all_other_weights_stay(checkpoint):
    changed = change_vocabulary(checkpoint, NEW)
    for name in set(checkpoint.weights) - set(tables(checkpoint)):
        assert np.array_equal(changed.weights[name], checkpoint.weights[name])
    assert changed.config == replace(
        checkpoint.config,
        softmax=replace(checkpoint.config.softmax, num_words=7),
        words=checkpoint.config.words and replace(checkpoint.config.words, num_words=7),
    )
    assert changed.origin == checkpoint.origin


def test_a_new_word_is_predicted_as_the_average_word_and_read_as_the_unknown_one(checkpoint):
    changed = change_vocabulary(checkpoint, NEW)
    ordinary = [number for number, word in enumerate(VOCABULARY) if word not in SPECIAL]
    for name in ("softmax.weight", "softmax.bias"):
        expected = checkpoint.weights[name][ordinary].mean(axis=0)
        assert np.array_equal(changed.weights[name][NEW.index("fish")], expected)
        assert np.array_equal(changed.weights[name][NEW.index("boat")], expected)
    if checkpoint.config.words:
        table, old = changed.weights["tokens.words.weight"], checkpoint.weights["tokens.words.weight"]
        assert np.array_equal(table[NEW.index("fish")], old[VOCABULARY.index("<UNK>")])


def test_new_words_take_little_from_the_old_ones(checkpoint):
    model = Elmo(checkpoint)
    num_ordinary = len(VOCABULARY) - len(SPECIAL)
    for num_new in (1, 5, 50):
        larger = Elmo(change_vocabulary(checkpoint, [*VOCABULARY, *(f"new{n}" for n in range(num_new))]))
        for before, after in zip(
            expected_log_probabilities(model, WORDS), expected_log_probabilities(larger, WORDS), strict=True
        ):
            old = after[:, : len(VOCABULARY)]
            assert (before - old <= np.log(1 + num_new / num_ordinary) + 1e-9).all()
            ordinary = [VOCABULARY.index(word) for word in VOCABULARY if word not in SPECIAL]
            np.testing.assert_allclose(after[:, -1], old[:, ordinary].mean(axis=1), atol=1e-6)


def test_adding_words_changes_no_vector(checkpoint):
    larger = Elmo(change_vocabulary(checkpoint, [*VOCABULARY, "fish"]))
    for words in (WORDS, ["a", "fish"]):
        # Words that are remembered were encoded beside others: up to rounding.
        np.testing.assert_allclose(larger.embed([words])[0], Elmo(checkpoint).embed([words])[0], atol=1e-6)


def test_the_same_words_give_the_same_model_and_back_again_too(checkpoint):
    for changed in (
        change_vocabulary(checkpoint, VOCABULARY),
        change_vocabulary(change_vocabulary(checkpoint, [*VOCABULARY[::-1], "fish"]), VOCABULARY),
    ):
        assert changed.config == checkpoint.config and changed.vocabulary == checkpoint.vocabulary
        assert all(np.array_equal(changed.weights[name], tensor) for name, tensor in checkpoint.weights.items())


def test_the_old_model_is_not_touched(checkpoint):
    before = {name: tensor.copy() for name, tensor in checkpoint.weights.items()}
    change_vocabulary(checkpoint, NEW).weights["softmax.weight"].fill(0)
    assert all(np.array_equal(checkpoint.weights[name], tensor) for name, tensor in before.items())


def test_a_changed_model_is_saved_and_opened(checkpoint, tmp_path):
    write_folder(change_vocabulary(checkpoint, NEW), tmp_path / "new")
    opened = Elmo(read_folder(tmp_path / "new"))
    assert opened.vocabulary.words == tuple(NEW)
    assert opened.score([["fish", "went"]])[0].num_unknown == 1


def test_a_model_of_special_words_alone():
    model = Elmo.from_config(language_config(3), vocabulary=SPECIAL)
    changed = change_vocabulary(model.checkpoint(), [*SPECIAL, "fish"])
    weight = model.checkpoint().weights["softmax.weight"]
    assert np.array_equal(changed.weights["softmax.weight"][-1], weight.mean(axis=0))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["<S>", "bank"], "The new vocabulary lacks </S>, <UNK>"),
        ([*SPECIAL, "a", "b", "a", "b"], "The new vocabulary has words that are repeated or have a line break: 'a'"),
        (
            [*SPECIAL, "a\nb"],
            "The new vocabulary has words that are repeated or have a line break: 'a\\nb'.",
        ),
    ],
)
def test_lists_that_are_no_vocabulary(checkpoint, words, message):
    with refused(message):
        change_vocabulary(checkpoint, words)


def test_the_special_words_of_the_model_count():
    config = replace(language_config(3), begin_word="<bos>", end_word="<eos>", unknown_word="<oov>")
    checkpoint = Elmo.from_config(config, vocabulary=("<bos>", "<eos>", "<oov>")).checkpoint()
    with refused("The new vocabulary lacks <bos>, <eos>, <oov>"):
        change_vocabulary(checkpoint, SPECIAL)


def test_models_without_words_to_change(tiny_model):
    for model in (tiny_model, Elmo.from_config(language_config(3))):
        with refused("This model has no vocabulary to change"):
            change_vocabulary(model.checkpoint(), NEW)
