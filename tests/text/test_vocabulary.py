"""Words and ids, and the lines of vocabulary.txt."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmo.text.vocabulary import Vocabulary, format_lines, parse_lines

ENTRIES = st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n")))


@pytest.fixture
def vocabulary():
    return Vocabulary(["<S>", "</S>", "<UNK>", "the", "", "\u2028"])


def test_ids_are_the_order_of_the_list(vocabulary):
    ids = vocabulary.encode(["the", "", "\u2028", "the"])
    assert ids.tolist() == [3, 4, 5, 3]
    assert ids.dtype == np.int64
    assert len(vocabulary) == 6


def test_words_not_listed_are_unknown(vocabulary):
    assert vocabulary.encode(["The", "cat", "\ud83d"]).tolist() == [2, 2, 2]
    assert "the" in vocabulary
    assert "The" not in vocabulary


def test_boundaries_cannot_be_spelled_in_text(vocabulary):
    assert vocabulary.boundaries().tolist() == [0, 1]
    assert vocabulary.encode(["<S>", "</S>"]).tolist() == [2, 2]


def test_special_words_may_be_spelled_and_placed_differently():
    vocabulary = Vocabulary(["a", "<oov>", "<eos>", "<bos>"], begin="<bos>", end="<eos>", unknown="<oov>")
    assert vocabulary.boundaries().tolist() == [3, 2]
    assert vocabulary.encode(["a", "<bos>", "<eos>", "b"]).tolist() == [0, 1, 1, 1]


def test_missing_special_words_are_named(vocabulary):
    assert vocabulary.missing_special_words() == []
    assert Vocabulary(["<S>", "a"]).missing_special_words() == ["</S>", "<UNK>"]


def test_no_words_give_no_ids(vocabulary):
    assert vocabulary.encode([]).shape == (0,)


@settings(deadline=None)
@given(ENTRIES)
@example(["", ""])
@example([])
@example(["\u0085", "\u2028", "\r", "\x0b", "\ufeffa", "a b\tc"])
def test_a_list_survives_its_file(entries):
    assert parse_lines(format_lines(entries)) == entries


def test_a_file_without_a_last_line_feed_keeps_its_last_word():
    assert parse_lines("a\nß".encode()) == ["a", "ß"]
