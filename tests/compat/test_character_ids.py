"""AllenNLP's batch_to_ids, and the ids that its Elmo accepts."""

import pytest
import torch

from elmo import InputError
from elmo.compat.allennlp import Elmo, batch_to_ids

from .conftest import with_wrong_sentences


def test_each_word_has_fifty_ids_and_padding_is_zero():
    ids = batch_to_ids([["ab", "é"], ["c"]])
    assert ids.shape == (2, 2, 50) and ids.dtype == torch.int64
    assert ids[0, 0, :5].tolist() == [259, 98, 99, 260, 261]
    assert ids[0, 1, :5].tolist() == [259, 196, 170, 260, 261]
    assert ids[1, 1].tolist() == [0] * 50


def test_boundaries_that_are_spelled_out_become_boundaries():
    ids = batch_to_ids([["<S>", "</S>", "<s>"]])[0]
    assert ids[:2, :4].tolist() == [[259, 257, 260, 261], [259, 258, 260, 261]]
    assert ids[2, :5].tolist() == [259, 61, 116, 63, 260]


def test_an_empty_sentence_is_all_padding():
    assert batch_to_ids([[]]).shape == (1, 0, 50)
    assert not batch_to_ids([["a"], []])[1].any()


@with_wrong_sentences
def test_input_other_than_lists_of_words_is_an_error(sentences, message):
    with pytest.raises(InputError, match=message):
        batch_to_ids(sentences)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.zeros(2, 50, dtype=torch.int64), r"inputs has the shape \(2, 50\)"),
        (torch.ones(1, 2, 40, dtype=torch.int64), r"of the shape \(sentences, words, 50\)"),
        (torch.full((1, 1, 50), 262), "ids from 0 to 261 of the shape"),
    ],
)
def test_tensors_that_are_no_character_ids_are_refused(tiny_files, ids, message):
    with pytest.raises(InputError, match=message):
        Elmo(*tiny_files, 1)(ids)


def test_padding_before_a_word_is_refused(tiny_files):
    ids = batch_to_ids([["a"], ["a", "b"]])
    ids[1, 0] = 0
    with pytest.raises(InputError, match="A sentence has padding before a word"):
        Elmo(*tiny_files, 1)(ids)
