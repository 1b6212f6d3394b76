"""Lists of words, as the original programs require them."""

import re

import numpy as np
import pytest

from elmo import InputError
from elmo.compat.engine import read_word_lists


def refused(message):
    return pytest.raises(InputError, match=re.escape(message))


def test_word_lists_are_taken_as_they_are():
    assert read_word_lists(iter([["a", "b c"], (), ("",)])) == [["a", "b c"], [], [""]]


@pytest.mark.parametrize("dtype", [None, object])
def test_numpy_arrays_are_the_lists_they_hold(dtype):
    array = np.array([["a b", "c"], ["d", ""]], dtype=dtype)
    for sentences in (array, list(array)):
        assert read_word_lists(sentences) == [["a b", "c"], ["d", ""]]
    with refused("Sentence 0 has 0 of type int at word 0"):
        read_word_lists(np.zeros((2, 3), dtype=int))


def test_a_flat_list_of_words_is_not_read_as_letters():
    with refused("Sentence 0 is 'went' of type str"):
        read_word_lists(["went", "home"])


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (
            "a",
            "The sentences are 'a' of type str",
        ),
        (None, "The sentences are None"),
        ([], "An empty list was given"),
        (
            [["a"], 4],
            "Sentence 1 is 4 of type int",
        ),
        ([["a"], ["b", 4]], "Sentence 1 has 4 of type int at word 1"),
    ],
)
def test_input_other_than_lists_of_words_is_an_error(sentences, message):
    with refused(message):
        read_word_lists(sentences)
