"""compare_words agrees with Elmo.similarity for all pairs."""

import json

import numpy as np
import pytest

from elmo import InputError
from elmo.analysis import compare_words
from elmo.analysis.occurrences import read_query

SENTENCES = ["I went to the [bank]", "by the [bank] of the river", "the [central bank] said", "the [tree]"]


@pytest.mark.parametrize("layers", [None, "top", 1, "concat", [1.0, 2.0, 3.0]])
def test_every_pair_has_the_cosine_of_elmo_similarity(model, layers):
    found = compare_words(model, SENTENCES, layers=layers)
    assert np.allclose(found.cosines, found.cosines.T)
    assert np.diag(found.cosines) == pytest.approx(np.ones(4))
    for pair in found.to_dict()["pairs"]:
        expected = model.similarity(SENTENCES[pair["a"]], SENTENCES[pair["b"]], layers=layers)
        assert pair["cosine"] == pytest.approx(expected, abs=1e-6)


def test_layer_0_does_not_see_the_sentence_and_the_others_do(model):
    found = compare_words(model, SENTENCES, layers="all")
    assert found.cosines.shape == (3, 4, 4)
    assert found.cosines[0, 0, 1] == pytest.approx(1) and found.cosines[0, 0, 3] < 0.999
    assert all(found.cosines[layer, 0, 1] < 0.999 for layer in (1, 2))
    pairs = json.loads(json.dumps(found.to_dict()))["pairs"]
    assert [len(pair["cosine_by_layer"]) for pair in pairs] == [3] * 6


def test_a_query_keeps_its_text_as_it_was_typed():
    marked = read_query("I can't  see the [New York] skyline!")
    assert (marked.word, marked.mark()) == ("New York", "I can't see the [New York] skyline!")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one [word]"], "One sentence was given"),
        (["a [b]", "no mark"], "The sentence 'no mark' has 0 marked words"),
        (["a [b]", ["a", "list"]], "of type list; give a string with one"),
    ],
)
def test_mistakes(model, words, message):
    with pytest.raises(InputError, match=message):
        compare_words(model, words)
