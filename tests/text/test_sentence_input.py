"""Accepted forms of sentences, and errors for others."""

import numpy as np
import pytest

from elmo.errors import InputError
from elmo.text.sentence_input import read_sentence, read_sentences, warn_of_single_words
from elmo.text.tokenize import split_on_spaces, tokenize
from tests.conftest import refused


def test_a_string_is_tokenized_and_a_list_is_taken_as_it_is():
    assert read_sentence("Don't go.", tokenize) == ["Don", "'t", "go", "."]
    assert read_sentence("Don't go.", split_on_spaces) == ["Don't", "go."]
    assert read_sentence(["Don't", "go.", ""], tokenize) == ["Don't", "go.", ""]
    assert read_sentence(("a b", "c"), tokenize) == ["a b", "c"]


def test_nothing_but_whitespace_is_an_empty_sentence():
    assert read_sentence(" \n\t", tokenize) == []
    assert read_sentence([], tokenize) == []


def test_the_words_returned_are_the_callers_no_longer():
    given = ["a", "b"]
    read_sentence(given, tokenize).append("c")
    assert given == ["a", "b"]


def test_strings_and_lists_of_words_may_be_mixed_in_any_iterable():
    mixed = (sentence for sentence in ("a b", ["c d"], (), ""))
    assert read_sentences(mixed, tokenize) == [["a", "b"], ["c d"], [], []]


@pytest.mark.parametrize(
    ("sentences", "came"),
    [
        ("a b", "'a b' of type str"),
        (b"a b", "b'a b' of type bytes"),
        (None, "None"),
        (5, "5 of type int"),
        ({"a": "b"}, "{'a': 'b'} of type dict"),
    ],
)
def test_input_other_than_a_list_of_sentences_is_an_error(sentences, came):
    with refused(f"The sentences are {came}"):
        read_sentences(sentences, tokenize)


def test_a_table_is_refused_because_it_would_yield_its_column_names():
    pandas = pytest.importorskip("pandas")
    with refused("The sentences are text 0 a b of type DataFrame"):
        read_sentences(pandas.DataFrame({"text": ["a b"]}), tokenize)
    assert read_sentences(pandas.Series(["a b"]), tokenize) == [["a", "b"]]


def test_an_empty_list_has_no_sentences():
    assert read_sentences([], tokenize) == []


def test_a_flat_list_of_words_is_warned_of():
    with pytest.warns(UserWarning, match="3 sentences of one word each"):
        warn_of_single_words(["I", "love", "dogs"], stacklevel=2)
    for sentences in (["I love dogs", "yes", "no"], [["I", "love", "dogs"]], ["Hi"], "abc", ["你", "好", "吗"]):
        warn_of_single_words(sentences, stacklevel=2)  # a warning is an error in tests


def test_a_wrong_sentence_is_named_by_its_position():
    with refused("Sentence 1 is None"):
        read_sentences(["a", None], tokenize)
    with refused("Sentence 0 is {'a'} of type set"):
        read_sentences([{"a"}], tokenize)
    with refused("The sentence is 3.5 of type float"):
        read_sentence(3.5, tokenize)


def test_a_wrong_word_is_named_by_sentence_and_position():
    with refused("Sentence 1 has None at word 2"):
        read_sentences(["a", ["b", "c", None]], tokenize)
    with refused("The sentence has 7 of type int at word 0"):
        read_sentence([7], tokenize)
    with refused("Sentence 0 has ['a'] of type list at word 0"):
        read_sentences([[["a"]]], tokenize)


def test_a_long_wrong_value_is_cut_in_the_message():
    with pytest.raises(InputError) as raised:
        read_sentence({"a": "b" * 10_000}, tokenize)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("kind", [None, object])
def test_numpy_arrays_are_the_lists_they_hold(kind):
    array = np.array([["a b", "c"], ["d", ""]], dtype=kind)
    for sentences in (array, list(array)):
        read = read_sentences(sentences, tokenize)
        assert read == [["a b", "c"], ["d", ""]]
        assert all(type(word) is str for words in read for word in words)
    assert read_sentence(array[0], tokenize) == ["a b", "c"]
    assert read_sentences(np.array(["a b", "c"], dtype=kind), tokenize) == [["a", "b"], ["c"]]
    with refused("Sentence 0 has 0 of type int at word 0"):
        read_sentences(np.zeros((2, 3), dtype=int), tokenize)
    with refused("The sentences are 'a' of type str"):
        read_sentences(np.array("a"), tokenize)
