"""Elmo.substitutes agrees with the product of all probabilities divided by frequencies."""

from dataclasses import replace

import numpy as np
import pytest

from elmo import Elmo
from elmo.checkpoint.vocabulary import change_vocabulary
from elmo.inference.substitution import Substitute
from tests.conftest import refused
from tests.language_models import SPECIAL, VOCABULARY, expected_log_probabilities, make_language_model

WORDS = ["I", "went", "to", "the", "bank", "."]
WORDS_OFFERED = [word for word in VOCABULARY if word not in SPECIAL]
OFFERED = [word for word in WORDS_OFFERED if word != "."]
COUNTS = tuple(range(5, 5 + len(VOCABULARY)))
ALL = {"punctuation": True, "same_word": True}


@pytest.fixture(scope="module")
def model():
    return make_language_model()


def expected_substitutes(model, words, index, frequencies, offered):
    ahead, back = expected_log_probabilities(model, words)
    scores = {
        word: ahead[index, n] + back[index + 1, n] - np.log(frequencies[n])
        for n, word in enumerate(VOCABULARY)
        if word in offered
    }
    total = np.log(sum(np.exp(score) for score in scores.values()))
    return sorted(((score - total, word) for word, score in scores.items()), reverse=True)


@pytest.mark.parametrize("index", range(6))
def test_substitutes_are_the_product_of_both_directions_divided_by_the_stored_frequency(model, index):
    counted = Elmo(replace(model.checkpoint(), word_counts=COUNTS))
    substitutes = counted.substitutes(WORDS, index, **ALL)
    frequencies = np.array(COUNTS) + 0.5  # a word that the text did not have is not infinitely rare
    expected = expected_substitutes(model, WORDS, index, frequencies, WORDS_OFFERED)
    assert [substitute.word for substitute in substitutes] == [word for _, word in expected]
    assert [substitute.log_probability for substitute in substitutes] == pytest.approx(
        [score for score, _ in expected], abs=1e-5
    )


def test_without_counts_the_frequency_follows_the_rank_in_the_vocabulary(model):
    ranks = np.cumsum([word not in SPECIAL for word in VOCABULARY])
    expected = expected_substitutes(model, WORDS, 4, 1 / (ranks + 2.7), WORDS_OFFERED)
    substitutes = model.substitutes(WORDS, 4, **ALL)
    assert [substitute.log_probability for substitute in substitutes] == pytest.approx(
        [score for score, _ in expected], abs=1e-5
    )


def test_special_words_are_never_offered_and_the_rest_adds_up_to_one(model):
    substitutes = model.substitutes(WORDS, 2, top_k=100, **ALL)
    assert {substitute.word for substitute in substitutes} == set(WORDS_OFFERED)
    assert sum(np.exp(substitute.log_probability) for substitute in substitutes) == pytest.approx(1)


def test_punctuation_and_the_word_itself_are_excluded_by_default(model):
    def offered(index, **options):
        return {substitute.word for substitute in model.substitutes(WORDS, index, top_k=100, **options)}

    assert offered(4) == set(OFFERED) - {"bank"}
    assert offered(4, punctuation=True) == set(WORDS_OFFERED) - {"bank"}
    assert offered(4, same_word=True) == set(OFFERED)
    assert offered(5) == set(WORDS_OFFERED) - {"."}, "where punctuation stands, other punctuation may stand"
    capitals = [*WORDS[:4], "BANK", "."]
    assert "bank" not in {substitute.word for substitute in model.substitutes(capitals, 4, top_k=100)}


def test_the_word_itself_does_not_matter(model):
    changed = [*WORDS[:4], "zyzzyva", "."]
    assert model.substitutes(WORDS, 4, same_word=True) == model.substitutes(changed, 4)


def test_top_k_words(model):
    assert model.substitutes(WORDS, 1, top_k=3) == model.substitutes(WORDS, 1)[:3]


def test_marks_strings_and_indexes_mean_the_same(model):
    substitutes = model.substitutes("I went to the [bank].")
    assert isinstance(substitutes[0], Substitute)
    for other in (
        model.substitutes("I went to the bank.", 4),
        model.substitutes(WORDS, -2),
        model.substitutes(tuple(WORDS), np.int64(4)),
    ):
        assert other == substitutes


def test_ties_keep_the_order_of_the_vocabulary(model):
    more = [f"new{number}" for number in range(40)]
    larger = Elmo(change_vocabulary(model.checkpoint(), [*VOCABULARY, *more]))
    words = [substitute.word for substitute in larger.substitutes(WORDS, 4, top_k=100)]
    assert [word for word in words if word in more] == more
    assert [word for word in words if word not in more] == [
        substitute.word for substitute in model.substitutes(WORDS, 4)
    ]


def test_a_changed_vocabulary_keeps_the_frequencies_of_its_words_in_any_order(model):
    shuffled = Elmo(change_vocabulary(model.checkpoint(), sorted(VOCABULARY)))
    scored = [(substitute.word, substitute.log_probability) for substitute in shuffled.substitutes(WORDS, 4)]
    expected = [(substitute.word, substitute.log_probability) for substitute in model.substitutes(WORDS, 4)]
    assert [word for word, _ in scored] == [word for word, _ in expected]
    assert [log for _, log in scored] == pytest.approx([log for _, log in expected], abs=1e-5)


def test_carried_state_is_read_from(model):
    carrying = make_language_model(state="carry")
    assert carrying.substitutes(WORDS, 4) == model.substitutes(WORDS, 4)
    assert carrying.substitutes(WORDS, 4) != model.substitutes(WORDS, 4)


@pytest.mark.parametrize(
    ("sentence", "arguments", "message"),
    [
        ("I went", {}, "The sentence 'I went' has 0 marked words"),
        ("the [central bank]", {}, "The brackets hold 2 words, 'central bank'"),
        (WORDS, {}, "index is missing"),
        ("a b", {"index": 2}, "index is 2, but the sentence has the words 'a b'."),
        ("a b", {"index": (1, 3)}, "index (1, 3) does not lie in a sentence of 2 words; give a start and an end"),
        ("a b", {"index": (0, 1, 2)}, "index (0, 1, 2) does not lie in a sentence of 2 words"),
        ("", {"index": 0}, "index is 0, but the sentence has the words ''."),
        ("[a]", {"top_k": 0}, "top_k is 0; it must be a whole number of at least 1."),
        ("[a]", {"top_k": True}, "top_k is True"),
        ("[a]", {"top_k": 2.5}, "top_k is 2.5; it must be a whole number of at least 1."),
    ],
)  # fmt: skip
def test_mistakes(model, sentence, arguments, message):
    with refused(message):
        model.substitutes(sentence, **arguments)
