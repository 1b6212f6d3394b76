"""Batches of sentences: ids, order and number of positions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.text.batch import BEGIN_ROW, END_ROW, FIRST_WORD_ROW, Indexer, pack
from elmo.text.characters import Utf8Alphabet
from elmo.text.vocabulary import Vocabulary

SENTENCES = st.lists(st.lists(st.sampled_from(["a", "b", "", "<S>", "</S>", "語", "a" * 60])), min_size=1)
VOCABULARY = Vocabulary(["<UNK>", "</S>", "<S>", "the", "cat"])


@pytest.fixture
def indexer():
    return Indexer(Utf8Alphabet(), None)


def ids_of(batch):
    return batch.look_up(batch.keys)


def read_back(batch, distinct):
    """Spell each row out by the distinct words, without its boundaries."""
    names = {FIRST_WORD_ROW + number: word for number, word in enumerate(distinct)}
    rows = []
    for row, length in zip(batch.word_index.tolist(), batch.lengths.tolist(), strict=True):
        assert (row[0], row[length - 1]) == (BEGIN_ROW, END_ROW)
        rows.append([names[number] for number in row[1 : length - 1]])
    return rows


@settings(deadline=None)
@given(SENTENCES)
def test_each_distinct_word_is_encoded_once_and_every_sentence_can_be_read_back(sentences):
    distinct = list(dict.fromkeys(word for words in sentences for word in words))
    batch = Indexer(Utf8Alphabet(), None).batch(sentences)
    alphabet = Utf8Alphabet()
    assert ids_of(batch).characters[:2].tolist() == alphabet.boundaries().tolist()
    assert ids_of(batch).characters[2:].tolist() == alphabet.encode(distinct).tolist()
    assert read_back(batch, distinct) == sentences
    assert batch.order == tuple(range(len(sentences)))


@settings(deadline=None)
@given(SENTENCES)
def test_the_mask_covers_words_and_boundaries_alone(sentences):
    batch = Indexer(Utf8Alphabet(), None).batch(sentences)
    longest = max(map(len, sentences)) + 2
    expected = [[step < len(words) + 2 for step in range(longest)] for words in sentences]
    assert batch.mask.dtype == bool
    assert batch.mask.tolist() == expected
    assert batch.lengths.tolist() == [len(words) + 2 for words in sentences]


def test_an_empty_sentence_is_its_two_boundaries(indexer):
    batch = indexer.batch([[]])
    assert batch.word_index.tolist() == [[BEGIN_ROW, END_ROW]]
    assert ids_of(batch).characters.shape == (2, 50)


def test_text_cannot_make_a_boundary(indexer):
    batch = indexer.batch([["<S>", "</S>"]])
    assert batch.word_index.tolist() == [[BEGIN_ROW, 2, 3, END_ROW]]
    assert ids_of(batch).characters[2:].tolist() == Utf8Alphabet().encode(["<S>", "</S>"]).tolist()


def test_literal_boundaries_make_text_a_boundary():
    indexer = Indexer(Utf8Alphabet(), None, literal_boundaries=("<S>", "</S>"))
    batch = indexer.batch([["<S>", "a", "</S>", "<s>"]])
    assert batch.word_index.tolist() == [[BEGIN_ROW, BEGIN_ROW, 2, END_ROW, 3, END_ROW]]
    assert len(ids_of(batch).characters) == 4


def test_a_batch_leaves_nothing_behind_for_the_next(indexer):
    indexer.batch([["a", "b"]])
    assert indexer.batch([["b"]]).word_index.tolist() == [[BEGIN_ROW, FIRST_WORD_ROW, END_ROW]]


def test_word_ids_follow_the_vocabulary_with_its_own_boundaries():
    batch = Indexer(None, VOCABULARY).batch([["the", "dog"], ["cat", "<S>"]])
    assert ids_of(batch).characters is None
    assert ids_of(batch).words.tolist() == [2, 1, 3, 0, 4, 0]


def test_words_are_cut_for_the_look_up_alone():
    batch = Indexer(Utf8Alphabet(), VOCABULARY, max_word_length=3).batch([["theory", "cats"]])
    assert ids_of(batch).words.tolist() == [2, 1, 3, 4]
    assert ids_of(batch).characters[2:].tolist() == Utf8Alphabet().encode(["theory", "cats"]).tolist()


@settings(deadline=None)
@given(SENTENCES, st.integers(1, 60))
def test_packing_keeps_every_sentence_within_the_budget(sentences, budget):
    batches = list(pack(sentences, Indexer(Utf8Alphabet(), None), token_budget=budget))
    assert sorted(number for batch in batches for number in batch.order) == list(range(len(sentences)))
    for batch in batches:
        assert batch.word_index.size <= budget or len(batch.order) == 1
        distinct = list(dict.fromkeys(word for number in batch.order for word in sentences[number]))
        assert read_back(batch, distinct) == [sentences[number] for number in batch.order]


@settings(deadline=None)
@given(SENTENCES, st.integers(1, 60))
def test_packing_goes_from_long_to_short_and_keeps_equals_in_order(sentences, budget):
    batches = pack(sentences, Indexer(Utf8Alphabet(), None), token_budget=budget)
    order = [number for batch in batches for number in batch.order]
    assert order == sorted(range(len(sentences)), key=lambda number: (-len(sentences[number]), number))


def test_packing_fills_a_batch_up_to_the_budget(indexer):
    sentences = [["a"]] * 5  # three positions each
    assert [len(batch.order) for batch in pack(sentences, indexer, token_budget=9)] == [3, 2]
    assert [len(batch.order) for batch in pack(sentences, indexer, token_budget=8)] == [2, 2, 1]


def test_batches_are_packed_lazily(indexer):
    made = []

    class Counting:
        tokenization = indexer.tokenization

        def batch(self, sentences, order):
            made.append(order)
            return indexer.batch(sentences, order)

    batches = pack([["a"], ["b"], ["c"]], Counting(), token_budget=3)
    next(batches)
    assert made == [[0]]
