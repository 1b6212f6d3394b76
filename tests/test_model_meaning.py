"""Vectors of sentences and phrases, and similarity of words."""

import math

import numpy as np
import pytest

from elmo import InputError
from tests.conftest import refused

SENTENCES = ["I went to the bank", "", ["New", "York"]]


def cosine(one, other):
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize(("pooling", "pool"), [("mean", np.mean), ("max", np.max)])
@pytest.mark.parametrize("layers", ["average", "concat", "all"])
def test_a_sentence_is_pooled_over_its_own_words(tiny_model, pooling, pool, layers):
    vectors = tiny_model.encode(SENTENCES, pooling=pooling, layers=layers)
    arrays = tiny_model.embed(SENTENCES, layers=layers)
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, *arrays[0].shape[:-2], arrays[0].shape[-1])
    for number in (0, 2):
        np.testing.assert_allclose(vectors[number], pool(arrays[number], axis=-2), atol=1e-6)
    assert not vectors[1].any()  # an empty sentence


def test_padding_and_neighbors_do_not_change_a_sentence_vector(tiny_model):
    for pooling in ("mean", "max"):
        alone = tiny_model.encode("New York", pooling=pooling)
        beside = tiny_model.encode(["New York", "long " * 100], pooling=pooling)[0]
        np.testing.assert_allclose(alone, beside, atol=1e-5)


def test_a_single_string_gives_a_single_vector(tiny_model):
    assert tiny_model.encode("New York").shape == (12,)
    assert tiny_model.encode(["New York"]).shape == (1, 12)
    assert not tiny_model.encode("").any()


def test_normalized_vectors_have_length_one_and_empty_sentences_stay_zero(tiny_model):
    plain, unit = (tiny_model.encode(SENTENCES, normalize_embeddings=normalize) for normalize in (False, True))
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), [1, 0, 1], atol=1e-6)
    assert cosine(plain[0], unit[0]) == pytest.approx(1, abs=1e-6)
    assert np.linalg.norm(tiny_model.encode("a b", normalize_embeddings=True)) == pytest.approx(1)


def test_encode_splits_on_spaces_if_requested(tiny_model):
    expected = tiny_model.embed([["Don't", "go."]])[0].mean(axis=0)
    np.testing.assert_allclose(tiny_model.encode("Don't go.", split_on_spaces=True), expected, atol=1e-6)


def test_an_unknown_pooling_is_refused(tiny_model):
    with refused("pooling is 'sum'"):
        tiny_model.encode("a", pooling="sum")


@pytest.mark.parametrize("sentence", ["in New York now", ["in", "New", "York", "now"]])
def test_a_span_is_the_mean_of_its_words_in_the_whole_sentence(tiny_model, sentence):
    (words,) = tiny_model.embed([sentence])
    spans = tiny_model.embed_spans(sentence, [(1, 3), [0, 4], (3, 4), np.array([1, 2])])
    expected = [words[1:3].mean(axis=0), words.mean(axis=0), words[3], words[1]]
    np.testing.assert_allclose(spans, expected, atol=1e-6)
    assert spans.dtype == np.float32


def test_spans_of_all_layers_keep_the_layers(tiny_model):
    (words,) = tiny_model.embed([["a", "b", "c"]], layers="all")
    spans = tiny_model.embed_spans(["a", "b", "c"], [(0, 2)], layers="all")
    assert spans.shape == (1, 3, 12)
    np.testing.assert_allclose(spans[0], words[:, :2].mean(axis=1), atol=1e-6)


def test_no_spans_give_an_empty_array_of_the_right_shape(tiny_model):
    assert tiny_model.embed_spans("a b", []).shape == (0, 12)
    assert tiny_model.embed_spans("", [], layers="concat").shape == (0, 36)
    assert tiny_model.embed_spans("a b", [], layers="all").shape == (0, 3, 12)


@pytest.mark.parametrize("span", [(1, 1), (2, 1), (-1, 1), (0, 3), (0.0, 1.0), (0, 1, 2), 0, "ab", None])
def test_a_span_outside_the_sentence_is_refused(tiny_model, span):
    with refused(
        f"The span {span!r} does not lie in a sentence of 2 words; give a start and an end with "
        "0 <= start < end <= the number of words."
    ):
        tiny_model.embed_spans(["a", "b"], [(0, 1), span])


def test_similarity_is_the_cosine_of_the_marked_words(tiny_model):
    first, second = tiny_model.embed(["I went to the bank", "the river bank was wet"])
    marked = tiny_model.similarity("I went to the [bank]", "the river [bank] was wet")
    assert isinstance(marked, float)
    assert marked == pytest.approx(cosine(first[4], second[2]), abs=1e-5)


def test_a_marked_phrase_is_the_mean_of_its_words(tiny_model):
    first, second = tiny_model.embed(["in New York now", "a b"])
    phrase = tiny_model.similarity("in [New York] now", "a [b]")
    assert phrase == pytest.approx(cosine(first[1:3].mean(axis=0), second[1]), abs=1e-5)


@pytest.mark.parametrize("layers", ["top", "concat", 0, [0.1, 0.2, 0.7], np.array([0.1, 0.2, 0.7])])
def test_similarity_can_be_taken_at_any_layers(tiny_model, layers):
    first, second = tiny_model.embed(["a b", "c d"], layers=layers)
    expected = cosine(first[1], second[0])
    assert tiny_model.similarity("a [b]", "[c] d", layers=layers) == pytest.approx(expected, abs=1e-5)


def test_similarity_is_symmetric_and_never_beyond_one(tiny_model):
    for number in range(40):
        sentence = f"a [w{number}] b"
        alike = tiny_model.similarity(sentence, sentence)
        assert alike <= 1
        assert math.isclose(alike, 1, abs_tol=1e-5)
    one, other = tiny_model.similarity("[a] b", "c [d]"), tiny_model.similarity("c [d]", "[a] b")
    assert one == pytest.approx(other, abs=1e-6)


def test_similarity_with_a_zero_vector_is_zero(tiny_model):
    assert tiny_model.similarity("a [b]", "[c] d", layers=[0, 0, 0]) == 0.0


def test_similarity_of_sentences_lists_and_vectors(tiny_model, fused_model):
    texts = ["money in the bank", "a river bank", "money"]
    for model in (tiny_model, fused_model):
        vectors = model.encode(texts)
        matrix = model.similarity(vectors, vectors[:2])
        assert matrix.shape == (3, 2)
        np.testing.assert_allclose(matrix, model.similarity(texts, texts[:2]), atol=1e-6)
        np.testing.assert_allclose(np.diag(model.similarity(texts)), 1, atol=1e-5)
        assert model.similarity(texts[0], texts[1]) == pytest.approx(matrix[0, 1], abs=1e-5)
        marked = ["money in the [bank]", "a river [bank]", "[money]"]
        assert model.similarity(marked)[0, 1] == pytest.approx(model.similarity(*marked[:2]), abs=1e-5)
    with refused("similarity compares two strings, two lists or two arrays"):
        tiny_model.similarity("a", ["b"])


def test_similarity_accepts_any_iterable_of_sentences_or_vectors(tiny_model):
    texts = ["a [b]", "[c] d"]
    matrix = tiny_model.similarity(texts)
    np.testing.assert_array_equal(tiny_model.similarity(text for text in texts), matrix)
    vectors = tiny_model.encode(["a b", "c d"])
    np.testing.assert_array_equal(tiny_model.similarity(vectors.tolist()), tiny_model.similarity(vectors))


@pytest.mark.parametrize("values", [None, 5, {"a": 1}, b"ab"])
def test_similarity_refuses_what_is_neither_sentences_nor_vectors(tiny_model, values):
    with refused("The sentences are"):
        tiny_model.similarity(values)


def test_similarity_refuses_vectors_that_do_not_fit(tiny_model):
    words = tiny_model.embed(["a b", "c"])
    with refused("similarity takes strings, or one vector per row"):
        tiny_model.similarity(words)
    with refused("The vectors have 12 and 5 dimensions"):
        tiny_model.similarity(words[0], np.zeros((2, 5)))


def test_vectors_of_words_without_sentences_need_strings(tiny_model):
    np.testing.assert_array_equal(tiny_model.word_vectors("Don't"), tiny_model.word_vectors(["Don", "'t"]))
    with refused("The sentence has None at word 1"):
        tiny_model.word_vectors(["a", None])


def test_each_sentence_needs_its_own_list_of_spans(tiny_model):
    with refused("There are 2 sentences, but 1 lists of spans"):
        tiny_model.embed_spans(["a b", "c"], [[(0, 1)]])


def test_a_sentence_without_a_mark_or_index_is_refused(tiny_model):
    with pytest.raises(InputError, match="^The sentence 'no mark' has 0 marked words"):
        tiny_model.similarity("[a]", "no mark")
    with pytest.raises(InputError, match=r"^The brackets in '\[ \] a' hold no word;"):
        tiny_model.similarity("[ ] a", "[b]")


def test_similarity_needs_one_vector_a_word(tiny_model):
    for sentences in (("[a]", "[b]"), (["[a]"], ["[b]"]), ("a", "b")):
        with refused("similarity compares two vectors"):
            tiny_model.similarity(*sentences, layers="all")


def test_words_are_split_on_spaces_if_requested(tiny_model):
    text = "don't stop , bank."
    whole = tiny_model.embed(text, split_on_spaces=True)
    span = tiny_model.embed_spans(text, [(3, 4)], split_on_spaces=True)
    np.testing.assert_allclose(span[0], whole[3], atol=1e-6)
    marked = tiny_model.similarity("[don't] stop , bank.", "don't stop , [bank.]", split_on_spaces=True)
    assert marked == pytest.approx(cosine(whole[0], whole[3]), abs=1e-5)
