"""Elmo.score agrees with a direct computation of all probabilities."""

import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.inference import scoring as softmax_module
from elmo.inference.scoring import Softmax, to_perplexity
from elmo.nn.batch import encode_tokens
from elmo.nn.build import load_bilm
from tests.conftest import refused
from tests.language_models import (
    VOCABULARY,
    expected_log_probabilities,
    expected_targets,
    language_config,
    make_language_model,
)

SENTENCES = [
    ["I", "went", "to", "the", "bank", "."],
    ["the", "zyzzyva", "went"],
    [],
    ["<S>", "</S>", "<UNK>", ""],
    ["money"] * 17,
]


@pytest.fixture(scope="module", params=[False, True], ids=["characters", "words"])
def model(request) -> Elmo:
    return make_language_model(reads_words=request.param)


def assert_same(one, other):
    assert one.words == other.words
    for name in ("left_to_right", "right_to_left", "end", "begin"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-5, rtol=0)
    np.testing.assert_array_equal(one.is_unknown, other.is_unknown)


def test_scores_equal_those_of_all_probabilities_at_once(model):
    for words, score in zip(SENTENCES, model.score(SENTENCES), strict=True):
        ahead, back = expected_log_probabilities(model, words)
        targets = expected_targets(words)
        positions = np.arange(len(words))
        assert score.words == tuple(words)
        assert score.left_to_right.shape == score.right_to_left.shape == (len(words),)
        assert score.left_to_right.dtype == np.float32
        np.testing.assert_allclose(score.left_to_right, ahead[positions, targets], atol=1e-5)
        np.testing.assert_allclose(score.right_to_left, back[positions + 1, targets], atol=1e-5)
        assert score.end == pytest.approx(ahead[-1, VOCABULARY.index("</S>")], abs=1e-5)
        assert score.begin == pytest.approx(back[0, VOCABULARY.index("<S>")], abs=1e-5)


def test_perplexity_counts_each_word_twice_and_each_boundary_once(model):
    for score in model.score(SENTENCES):
        losses = -np.concatenate([score.left_to_right, [score.end], score.right_to_left, [score.begin]])
        assert len(losses) == 2 * len(score.words) + 2
        assert score.perplexity == pytest.approx(np.exp(losses.mean()), rel=1e-6)


def test_an_empty_sentence_is_scored_by_its_boundaries(model):
    score = model.score("")
    assert score.words == () and score.num_unknown == 0
    assert score.perplexity == pytest.approx(np.exp(-(score.end + score.begin) / 2))


def test_words_not_in_the_vocabulary_and_spelled_boundaries_are_unknown(model):
    scores = model.score(SENTENCES)
    assert [score.num_unknown for score in scores] == [0, 1, 0, 4, 0]
    assert scores[1].is_unknown.tolist() == [False, True, False]


def test_a_string_gives_one_score_and_a_list_a_list(model):
    alone = model.score("I went to the bank.")
    assert_same(alone, model.score(SENTENCES[:1])[0])
    assert_same(alone, model.score(["I went to the bank."])[0])
    assert model.score("the bank.", split_on_spaces=True).words == ("the", "bank.")
    assert model.score(["the bank."], split_on_spaces=True)[0].words == ("the", "bank.")


def test_neither_batch_nor_order_changes_a_score(model, monkeypatch):
    alone = [model.score([words])[0] for words in SENTENCES]
    for together, expected in zip(model.score(SENTENCES), alone, strict=True):
        assert_same(together, expected)
    monkeypatch.setattr("elmo.inference.embedder.TOKENS_PER_BATCH", 20)
    for backwards, expected in zip(model.score(SENTENCES[::-1]), alone[::-1], strict=True):
        assert_same(backwards, expected)


@pytest.mark.parametrize(("num_bytes", "num_positions"), [(1, 1), (4 * 7, 1), (100, 3), (64, 1000)])
def test_blocks_do_not_change_a_score(model, monkeypatch, num_bytes, num_positions):
    expected = model.score(SENTENCES)
    monkeypatch.setattr(softmax_module, "BLOCK_BYTES", num_bytes)
    monkeypatch.setattr(softmax_module, "POSITIONS_AT_ONCE", num_positions)
    for score, whole in zip(model.score(SENTENCES), expected, strict=True):
        assert_same(score, whole)


def test_a_certain_word_is_not_more_than_certain():
    weight = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    # Scores of some ten thousand are rounded to a thousandth or two.
    score = Softmax(weight, np.zeros(3)).score(weight[:1] * np.float32(1e4), np.array([0]))
    assert 0 >= score[0] > -1e-2


def test_rows_in_8_bits_score_like_the_rows_they_stand_for():
    draw = np.random.default_rng(1)
    weight, bias = draw.integers(-127, 128, (33, 8)).astype(np.int8), draw.normal(size=33)
    scales = draw.random(33).astype(np.float32) / 100
    compact, plain = Softmax(weight, bias, scales), Softmax(weight * scales[:, None], bias)
    states, words = draw.normal(size=(25, 8)).astype(np.float32), draw.integers(0, 33, 25)
    np.testing.assert_allclose(compact.score(states, words), plain.score(states, words), atol=1e-5)
    expected = plain.log_probabilities(states)
    np.testing.assert_allclose(compact.log_probabilities(states), expected, atol=1e-5)
    np.testing.assert_allclose(plain.score(states, words), expected[np.arange(25), words], atol=1e-5)


def test_a_hopeless_text_has_an_infinite_perplexity():
    assert to_perplexity(1.0) == pytest.approx(np.e)
    assert to_perplexity(1e6) == np.inf


def test_carried_state_reads_on_row_by_row_without_the_last_boundary():
    model = make_language_model(state="carry")
    fresh = make_language_model()
    words = SENTENCES[0]
    first, second = model.score([words])[0], model.score([words])[0]
    assert_same(first, fresh.score([words])[0])
    assert not np.allclose(first.left_to_right, second.left_to_right, atol=1e-4)
    # The left-to-right state has read <S> and the words; reading "<S> words <S> words" at once is the same.
    batch = fresh._indexer.batch([words])
    bilm = load_bilm(fresh.config, fresh.checkpoint().weights)
    with torch.inference_mode():
        vectors = encode_tokens(bilm, batch.look_up(batch.keys))[torch.from_numpy(batch.word_index)]
        twice = torch.cat([vectors[:, :-1], vectors[:, :-1]], dim=1)
        stack = bilm.left_to_right
        outputs, _ = stack(twice, stack.zero_state(1))
        logits = outputs[-1][0, len(words) + 1 :] @ bilm.softmax.weight.t() + bilm.softmax.bias
        expected = logits.log_softmax(dim=-1)
    targets = [*expected_targets(words), VOCABULARY.index("</S>")]
    actual = [*second.left_to_right, second.end]
    np.testing.assert_allclose(actual, expected.numpy()[range(len(targets)), targets], atol=1e-5)
    model.reset_state()
    assert_same(model.score([words])[0], first)


def test_the_rows_of_a_call_do_not_meet_when_state_is_carried():
    model, alone = make_language_model(state="carry"), make_language_model(state="carry")
    model.score([SENTENCES[0], SENTENCES[1]])
    together = model.score([SENTENCES[1], SENTENCES[0]])
    alone.score([SENTENCES[0]])
    assert_same(together[0], alone.score([SENTENCES[1]])[0])


def test_a_model_without_softmax(tiny_model):
    message = (
        "This model has no softmax, so it returns vectors but cannot predict words; use a model trained with "
        "`elmo train`, or open the TensorFlow checkpoint it was exported from (format 'tensorflow')."
    )
    with refused(message):
        tiny_model.score("I went")
    with refused(message):
        tiny_model.substitutes("I [went]")


def test_a_model_without_vocabulary():
    model = Elmo.from_config(language_config(4))
    message = (
        "This model has no vocabulary, so the words that its softmax predicts are unknown; add the vocabulary file "
        "that it was trained with to its folder."
    )
    with refused(message):
        model.score("I went")


def test_a_vocabulary_without_special_words():
    model = Elmo.from_config(language_config(2), vocabulary=("<S>", "bank"))
    message = (
        "The vocabulary of this model lacks </S>, <UNK>, which predictions require; add the vocabulary "
        "file that it was trained with to its folder."
    )
    with refused(message):
        model.score("I went")


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([["a", 1]], "Sentence 0 has 1 of type int at word 1"),
        (None, "The sentences are None"),
    ],
)
def test_invalid_sentences_are_rejected(model, sentences, message):
    with refused(message):
        model.score(sentences)


def test_no_sentences_have_no_scores(model):
    assert model.score([]) == []
