"""Elmo.substitutes against a product of all probabilities."""

import re

import numpy as np
import pytest

from elmo import Elmo, InputError
from elmo.checkpoint.revocabulary import change_vocabulary
from elmo.inference.substitution import Substitute
from tests.language_models import SPECIAL, VOCABULARY, expected_log_probabilities, make_language_model

WORDS = ["I", "went", "to", "the", "bank", "."]
OFFERED = [word for word in VOCABULARY if word not in SPECIAL]


@pytest.fixture(scope="module")
def model():
    return make_language_model()


def refused(message):
    return pytest.raises(InputError, match="^" + re.escape(message) + "$")


def expected_substitutes(model, words, index):
    ahead, back = expected_log_probabilities(model, words)
    scores = {word: ahead[index, n] + back[index + 1, n] for n, word in enumerate(VOCABULARY) if word in OFFERED}
    total = np.log(sum(np.exp(score) for score in scores.values()))
    return sorted(((score - total, word) for word, score in scores.items()), reverse=True)


@pytest.mark.parametrize("index", range(6))
def test_substitutes_are_the_product_of_both_directions(model, index):
    found = model.substitutes(WORDS, index)
    expected = expected_substitutes(model, WORDS, index)
    assert [each.word for each in found] == [word for _, word in expected]
    assert [each.log_probability for each in found] == pytest.approx([score for score, _ in expected], abs=1e-5)


def test_special_words_are_never_offered_and_the_rest_adds_up_to_one(model):
    found = model.substitutes(WORDS, 2, top_k=100)
    assert {each.word for each in found} == set(OFFERED)
    assert sum(np.exp(each.log_probability) for each in found) == pytest.approx(1)


def test_the_word_itself_does_not_matter(model):
    changed = [*WORDS[:4], "zyzzyva", "."]
    assert model.substitutes(WORDS, 4) == model.substitutes(changed, 4)


def test_top_k_words(model):
    assert model.substitutes(WORDS, 1, top_k=3) == model.substitutes(WORDS, 1)[:3]


def test_marks_strings_and_indexes_mean_the_same(model):
    found = model.substitutes("I went to the [bank].")
    assert isinstance(found[0], Substitute)
    for other in (
        model.substitutes("I went to the bank.", 4),
        model.substitutes(WORDS, -2),
        model.substitutes(tuple(WORDS), np.int64(4)),
    ):
        assert other == found


def test_equal_words_come_in_the_order_of_the_vocabulary(model):
    more = [f"new{number}" for number in range(40)]
    larger = Elmo(change_vocabulary(model.checkpoint(), [*VOCABULARY, *more]))
    found = [each.word for each in larger.substitutes(WORDS, 4, top_k=100)]
    assert [word for word in found if word in more] == more
    assert [word for word in found if word not in more] == [each.word for each in model.substitutes(WORDS, 4)]


def test_carried_state_is_read_from(model):
    carrying = make_language_model(state="carry")
    assert carrying.substitutes(WORDS, 4) == model.substitutes(WORDS, 4)
    assert carrying.substitutes(WORDS, 4) != model.substitutes(WORDS, 4)


@pytest.mark.parametrize(
    ("sentence", "arguments", "message"),
    [
        ("I went", {}, "The sentence 'I went' has 0 marked words; put exactly one in brackets, as in "
         "'I went to the [bank]', or say which word is meant by its index."),
        ("the [central bank]", {}, "The brackets hold 2 words, 'central bank'; mark one word, for one word is put "
         "in its place."),
        (WORDS, {}, "index is missing; with a list of words, say which word is meant."),
        ("a b", {"index": 2}, "index is 2, but the sentence has the words 'a b'."),
        ("", {"index": 0}, "index is 0, but the sentence has the words ''."),
        ("[a]", {"top_k": 0}, "top_k is 0; it must be a whole number of at least 1."),
        ("[a]", {"top_k": True}, "top_k is True; it must be a whole number of at least 1."),
        ("[a]", {"top_k": 2.5}, "top_k is 2.5; it must be a whole number of at least 1."),
    ],
)  # fmt: skip
def test_mistakes(model, sentence, arguments, message):
    with refused(message):
        model.substitutes(sentence, **arguments)
