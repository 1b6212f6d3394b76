"""Elmo.embed and embed_iter: accepted input, shapes, and independence from the batch."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo import Elmo
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, WordConfig
from tests.conftest import refused

SENTENCE = "I went to the bank."
WORDS = ["I", "went", "to", "the", "bank", "."]
ANY_WORD = st.text(st.characters(exclude_categories=()), max_size=60)


@pytest.fixture(scope="module")
def larger_model():
    config = ModelConfig(
        encoder=EncoderConfig(num_layers=2, cell_dim=256, output_dim=64),
        characters=CharacterConfig(filters=((1, 16), (2, 32), (3, 64), (5, 64)), num_highways=2),
    )
    return Elmo.from_config(config, seed=1)


@pytest.fixture(params=["tiny", "larger"])
def any_model(request, tiny_model, larger_model):
    return {"tiny": tiny_model, "larger": larger_model}[request.param]


def make_sentences(number, seed=0, longest=30):
    draw = random.Random(seed)
    letters = "abcdefghij語ß😀"
    return [
        ["".join(draw.choices(letters, k=draw.randint(1, 12))) for _ in range(draw.randint(0, longest))]
        for _ in range(number)
    ]


def assert_same(one, other, atol=1e-5):
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        assert left.shape == right.shape
        np.testing.assert_allclose(left, right, rtol=0, atol=atol)


def test_a_string_gives_one_array_with_a_row_for_each_word_of_tokenize(tiny_model):
    vectors = tiny_model.embed(SENTENCE)
    assert isinstance(vectors, np.ndarray)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(tiny_model.tokenize(SENTENCE)), tiny_model.dim) == (6, 12)


def test_strings_and_lists_of_words_give_a_list_in_the_order_given(tiny_model):
    alone = tiny_model.embed(SENTENCE)
    for sentences in ([SENTENCE], [WORDS], [tuple(WORDS)], (SENTENCE,), iter([WORDS])):
        result = tiny_model.embed(sentences)
        assert isinstance(result, list)
        assert_same(result, [alone])
    mixed = tiny_model.embed(["a b", WORDS, [], "", ["a b"]])
    assert [len(vectors) for vectors in mixed] == [2, 6, 0, 0, 1]
    assert_same(mixed[1:2], [alone])


@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        ("average", (6, 12)),
        ("top", (6, 12)),
        ("all", (3, 6, 12)),
        ("concat", (6, 36)),
        (0, (6, 12)),
        (-1, (6, 12)),
        ([0.2, 0.3, 0.5], (6, 12)),
        (np.array([1, 0, 0]), (6, 12)),
    ],
)
def test_layers_decide_the_shape_for_full_and_empty_sentences(tiny_model, layers, shape):
    full, empty = tiny_model.embed([WORDS, []], layers=layers)
    assert full.shape == shape
    assert empty.shape == tuple(0 if size == 6 else size for size in shape)
    assert full.dtype == empty.dtype == np.float32


def test_layers_agree_with_each_other(tiny_model):
    every = tiny_model.embed(SENTENCE, layers="all")
    assert_same([tiny_model.embed(SENTENCE)], [every.mean(axis=0)], atol=1e-6)
    assert_same([tiny_model.embed(SENTENCE, layers="top")], [every[2]], atol=0)
    assert_same([tiny_model.embed(SENTENCE, layers="concat")], [np.concatenate(list(every), axis=-1)], atol=0)
    assert_same([tiny_model.embed(SENTENCE, layers=[0, 1, 0])], [every[1]], atol=1e-6)
    np.testing.assert_array_equal(every[0, :, :6], every[0, :, 6:])  # the word vector, twice


def test_words_are_read_in_context_above_layer_zero(tiny_model):
    first, second = tiny_model.embed(["the bank", "my bank"], layers="all")
    np.testing.assert_allclose(first[0, 1], second[0, 1], atol=1e-6)
    assert np.abs(first[1:, 1] - second[1:, 1]).max() > 1e-3


def test_words_can_be_split_on_spaces(tiny_model):
    assert [word.text for word in tiny_model.tokenize("Don't go.", split_on_spaces=True)] == ["Don't", "go."]
    on_spaces = tiny_model.embed("Don't go.", split_on_spaces=True)
    assert_same([on_spaces], tiny_model.embed([["Don't", "go."]]))
    assert_same(tiny_model.embed_iter(["Don't go."], split_on_spaces=True).__next__()[None], on_spaces[None])


def test_tokenize_gives_words_and_offsets(tiny_model):
    text = "Don't go."
    words = tiny_model.tokenize(text)
    assert [word.text for word in words] == ["Don", "'t", "go", "."]
    assert all(text[word.start : word.end] == word.text for word in words)
    assert tiny_model.tokenize([text, "go"]) == [words, tiny_model.tokenize("go")]
    assert tiny_model.tokenize([]) == []
    assert tiny_model.tokenize(np.array([text])) == tiny_model.tokenize(text for text in [text]) == [words]
    with refused("The sentences are 5 of type int"):
        tiny_model.tokenize(5)
    with refused("Sentence 1 is ['go'] of type list; tokenize takes strings."):
        tiny_model.tokenize([text, ["go"]])


def test_vectors_do_not_depend_on_the_batch(any_model):
    sentences = make_sentences(64)
    alone = [any_model.embed([words], layers="all")[0] for words in sentences]
    assert_same(any_model.embed(sentences, layers="all"), alone)
    order = random.Random(1).sample(range(64), 64)
    shuffled = any_model.embed([sentences[number] for number in order], layers="all")
    assert_same(shuffled, [alone[number] for number in order])
    assert_same(any_model.embed([sentences[0], ["long"] * 200], layers="all")[:1], alone[:1])


@pytest.mark.parametrize("budget", [1, 40, 400])
def test_the_token_budget_changes_no_vector(monkeypatch, tiny_model, budget):
    sentences = make_sentences(20)
    expected = tiny_model.embed(sentences)
    monkeypatch.setattr("elmo.inference.embedder.TOKENS_PER_BATCH", budget)
    assert_same(tiny_model.embed(sentences), expected)


def test_a_long_sentence_is_not_cut(tiny_model):
    words = [f"w{number % 50}" for number in range(5000)]
    vectors = tiny_model.embed([words], layers="all")[0]
    assert vectors.shape == (3, 5000, 12)
    assert np.isfinite(vectors).all()
    changed = tiny_model.embed([[*words[:-1], "other"]], layers="all")[0]
    np.testing.assert_allclose(changed[:, :-1, :6], vectors[:, :-1, :6], atol=1e-5)
    assert np.abs(changed[1:, -2, 6:] - vectors[1:, -2, 6:]).max() > 1e-4  # the far end was read


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(ANY_WORD, max_size=5), min_size=1, max_size=4))
def test_words_of_any_script_and_length_have_finite_vectors(tiny_model, sentences):
    for words, vectors in zip(sentences, tiny_model.embed(sentences), strict=True):
        assert vectors.shape == (len(words), 12)
        assert np.isfinite(vectors).all()


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_any_text_has_a_vector_for_each_of_its_words(tiny_model, text):
    assert len(tiny_model.embed(text)) == len(tiny_model.tokenize(text))


def test_the_empty_word_and_lone_surrogates_are_words(tiny_model):
    empty, surrogate, mixed = tiny_model.embed([["a", "", "b"], ["a", "\ud83d", "b"], ["a", "x\udc00", "b"]])
    assert len(empty) == 3
    assert_same([surrogate], [empty])  # what has no bytes is spelled alike
    assert_same([mixed], tiny_model.embed([["a", "x", "b"]]))
    assert np.abs(empty[2] - tiny_model.embed([["a", "b"]])[0][1]).max() > 1e-4


def test_text_cannot_make_a_boundary(tiny_model):
    literal = Elmo(tiny_model.checkpoint(), literal_boundaries=True)
    sentence = [["a", "</S>", "b"]]
    assert_same(literal.embed([["a", "b"]]), tiny_model.embed([["a", "b"]]))
    assert np.abs(literal.embed(sentence)[0] - tiny_model.embed(sentence)[0]).max() > 1e-3


def test_a_model_of_whole_words_reads_unlisted_words_as_unknown():
    config = ModelConfig(
        encoder=EncoderConfig(num_layers=1, cell_dim=8, output_dim=4),
        characters=None,
        words=WordConfig(5, 3),
    )
    words = Elmo.from_config(config, vocabulary=["<S>", "</S>", "<UNK>", "a", "b"])
    known, one, other, spelled = words.embed([["a", "b"], ["a", "x"], ["a", "y"], ["a", "<S>"]])
    assert_same([one, one], [other, spelled])
    assert np.abs(known - one).max() > 1e-3


def test_threads_give_the_vectors_of_serial_calls(larger_model):
    batches = [make_sentences(6, seed) for seed in range(24)]
    serial = [larger_model.embed(sentences) for sentences in batches]
    with ThreadPoolExecutor(8) as pool:
        for together, expected in zip(pool.map(larger_model.embed, batches), serial, strict=True):
            assert_same(together, expected, atol=1e-6)


def test_the_arrays_belong_to_the_caller(tiny_model):
    one, other = tiny_model.embed(["a b c", "a b"])
    assert one.base is None and one.flags.writeable  # no view holds the whole batch in memory
    one += 1
    assert_same([other], [tiny_model.embed("a b")])


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (5, "The sentences are 5 of type int"),
        (
            ["a", 3],
            "Sentence 1 is 3 of type int",
        ),
        ([["a", None]], "Sentence 0 has None at word 1"),
    ],
)
def test_input_that_is_not_text_is_rejected(tiny_model, sentences, message):
    for call in (tiny_model.embed, tiny_model.encode):
        with refused(message):
            call(sentences)


def test_unknown_layers_are_refused_before_anything_is_read(tiny_model):
    message = (
        "layers is 'last'; choose 'auto', 'average', 'top', 'all', 'concat', 'meaning', a number from 0 to 2, "
        "or 3 weights."
    )
    for call in (tiny_model.embed, tiny_model.embed_iter, tiny_model.encode):
        with refused(message):
            call(iter([SENTENCE]), layers="last")


def test_no_sentences_give_an_empty_result(tiny_model, fused_model):
    for model in (tiny_model, fused_model):
        for nothing in ([], (), iter([])):
            assert model.embed(nothing) == []
        assert model.encode([]).shape == (0, model.sentence_shape()[0])
        assert model.similarity([]).shape == (0, 0)
