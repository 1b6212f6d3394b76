"""Character ids against the published layout."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmo.text.characters import DictionaryAlphabet, Utf8Alphabet

# The ids of the official models after their shift by one, written out rather than taken from the code.
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 257, 258, 259, 260, 261
ANY_WORD = st.text(st.characters(exclude_categories=()), max_size=80)


def ids_of(word, **settings):
    return Utf8Alphabet(**settings).encode([word])[0].tolist()


def padded(*ids, length=50):
    return list(ids) + [PADDING] * (length - len(ids))


def test_a_word_is_its_bytes_plus_one_between_marks():
    assert ids_of("cat") == padded(BEGIN_WORD, ord("c") + 1, ord("a") + 1, ord("t") + 1, END_WORD)


def test_every_byte_has_its_own_id():
    ids = ids_of("\x00\x7f")
    assert ids == padded(BEGIN_WORD, 1, 128, END_WORD)
    assert ids_of("ÿ") == padded(BEGIN_WORD, 0xC3 + 1, 0xBF + 1, END_WORD)


def test_the_empty_word_is_two_marks():
    assert ids_of("") == padded(BEGIN_WORD, END_WORD)


def test_boundaries_are_words_of_one_special_character():
    boundaries = Utf8Alphabet().boundaries()
    assert boundaries.dtype == np.int64
    assert boundaries.tolist() == [
        padded(BEGIN_WORD, BEGIN_SENTENCE, END_WORD),
        padded(BEGIN_WORD, END_SENTENCE, END_WORD),
    ]


def test_no_more_than_48_bytes_are_kept():
    assert ids_of("a" * 48) == [BEGIN_WORD, *[ord("a") + 1] * 48, END_WORD]
    assert ids_of("a" * 48 + "b" * 100) == ids_of("a" * 48)


def test_the_cut_may_split_a_code_point():
    word = "a" * 47 + "é"  # 47 + 2 bytes
    assert ids_of(word) == [BEGIN_WORD, *[ord("a") + 1] * 47, 0xC3 + 1, END_WORD]


def test_lone_surrogates_are_left_out():
    assert ids_of("a\ud83db") == ids_of("ab")
    assert ids_of("\udc00") == ids_of("")


@settings(deadline=None)
@given(ANY_WORD)
@example("語言" * 20)
@example("مرحبا")
@example("हिन्दी")
@example("👩‍👩‍👧")
def test_any_word_of_any_script_follows_the_layout(word):
    content = [byte + 1 for byte in word.encode("utf-8", "ignore")][:48]
    assert ids_of(word) == padded(BEGIN_WORD, *content, END_WORD)


@settings(deadline=None)
@given(st.lists(ANY_WORD, max_size=5), st.integers(3, 60))
def test_words_are_encoded_independently_at_any_width(words, width):
    rows = Utf8Alphabet(width).encode(words)
    assert rows.shape == (len(words), width)
    assert rows.dtype == np.int64
    for row, word in zip(rows, words, strict=True):
        content = [byte + 1 for byte in word.encode("utf-8", "ignore")][: width - 2]
        assert row.tolist() == padded(BEGIN_WORD, *content, END_WORD, length=width)


@settings(deadline=None)
@given(ANY_WORD)
@example("<S>")
@example("</S>")
def test_no_word_has_the_ids_of_a_boundary(word):
    assert ids_of(word) not in Utf8Alphabet().boundaries().tolist()


def test_all_ids_fit_the_262_rows_of_the_embedding():
    assert max(Utf8Alphabet().boundaries().max(), Utf8Alphabet().encode(["", "\x00"]).max()) == 261
    assert Utf8Alphabet.NUM_IDS == 262
    assert Utf8Alphabet().encode(["\x00"]).min() == 1  # 0 stays free for padded words


@pytest.fixture
def listed():
    return DictionaryAlphabet(["<oov>", "<pad>", "<bow>", "<eow>", "<bos>", "<eos>", "a", "語", "<"], 7)


def test_a_listed_alphabet_reads_code_points_and_marks_unknown_ones(listed):
    assert listed.encode(["a語z", ""]).tolist() == [[2, 6, 7, 0, 3, 1, 1], [2, 3, 1, 1, 1, 1, 1]]


def test_a_listed_alphabet_cuts_at_its_width(listed):
    assert listed.encode(["aaaaa語", "aaaaa"]).tolist() == [[2, 6, 6, 6, 6, 6, 3]] * 2


def test_a_listed_alphabet_has_boundaries_of_one_character(listed):
    assert listed.boundaries().tolist() == [[2, 4, 3, 1, 1, 1, 1], [2, 5, 3, 1, 1, 1, 1]]


def test_text_cannot_spell_a_special_entry_of_a_listed_alphabet(listed):
    assert listed.encode(["<bos>"]).tolist() == [[2, 8, 0, 0, 0, 0, 3]]
