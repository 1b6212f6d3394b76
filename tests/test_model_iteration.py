"""Elmo.embed_iter and carried state: order, laziness, bounded memory."""

import itertools
import re

import numpy as np
import pytest

from elmo import ConfigError, Elmo
from tests.conftest import refused

SENTENCES = ["the cat sat", ["on", "the", "mat"], "", "a much longer sentence than the others", ["x"]]


@pytest.fixture
def carrying(tiny_model):
    return Elmo(tiny_model.checkpoint(), state="carry")


def assert_same(one, other):
    for left, right in zip(one, other, strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-5)


@pytest.mark.parametrize("read_ahead", [1, 2, 5, 1000])
@pytest.mark.parametrize("layers", ["average", "all"])
def test_iterating_gives_the_arrays_of_embed_in_order(tiny_model, read_ahead, layers):
    arrays = tiny_model.embed_iter(iter(SENTENCES), layers=layers, read_ahead=read_ahead)
    assert_same(list(arrays), tiny_model.embed(SENTENCES, layers=layers))


def test_input_is_read_lazily(tiny_model):
    num_read = 0

    def endless():
        nonlocal num_read
        for number in itertools.count():
            num_read += 1
            yield f"sentence {number}"

    arrays = tiny_model.embed_iter(endless(), read_ahead=4)
    assert num_read == 0
    seen = []
    for _ in range(9):
        next(arrays)
        seen.append(num_read)
    assert seen == [4] * 4 + [8] * 4 + [12]


def test_nothing_to_iterate_over_gives_nothing(tiny_model):
    assert list(tiny_model.embed_iter([])) == []


def test_a_wrong_sentence_is_named_by_its_place_in_the_whole_stream(tiny_model):
    arrays = tiny_model.embed_iter(["a", "b", "c", None], read_ahead=2)
    next(arrays), next(arrays)
    with refused("Sentence 3 is None"):
        next(arrays)


def test_wrong_arguments_are_refused_at_the_call_and_not_at_the_first_array(tiny_model):
    with refused("embed_iter takes an iterable of sentences"):
        tiny_model.embed_iter("one sentence")
    for wrong in (5, np.array("one sentence"), {"one": "sentence"}):
        with refused("The sentences are"):
            tiny_model.embed_iter(wrong)
    with refused("read_ahead is 0"):
        tiny_model.embed_iter([], read_ahead=0)


def test_with_state_carried_the_second_call_differs_until_a_reset(carrying, tiny_model):
    fresh = tiny_model.embed("the cat sat")
    first, second = (carrying.embed("the cat sat") for _ in range(2))
    assert_same([first], [fresh])
    assert np.abs(second - first).max() > 1e-3
    carrying.reset_state()
    assert_same([carrying.embed("the cat sat")], [fresh])


def test_with_state_carried_the_sentences_of_a_call_are_rows_in_the_order_given(carrying, tiny_model):
    assert_same(carrying.embed(["a", "b b b b b"]), tiny_model.embed(["a", "b b b b b"]))
    later = carrying.embed(["c", "c"])  # row 0 goes on after "a", row 1 after the longer sentence
    row = Elmo(tiny_model.checkpoint(), state="carry")
    row.embed(["a"])
    assert_same(later[:1], row.embed(["c"]))
    assert np.abs(later[0] - later[1]).max() > 1e-3


def test_with_state_carried_a_call_is_one_batch_whatever_the_token_budget(monkeypatch, carrying, tiny_model):
    monkeypatch.setattr("elmo.inference.embedder.TOKENS_PER_BATCH", 1)
    assert_same(carrying.embed(["a b", "c d"]), tiny_model.embed(["a b", "c d"]))


def test_with_state_carried_a_window_of_the_stream_is_a_batch(carrying, tiny_model):
    by_call = Elmo(tiny_model.checkpoint(), state="carry")
    streamed = list(carrying.embed_iter(["a", "b", "c", "d"], read_ahead=2))
    assert_same(streamed, by_call.embed(["a", "b"]) + by_call.embed(["c", "d"]))


def test_models_of_one_checkpoint_carry_states_of_their_own(carrying, tiny_model):
    other = Elmo(tiny_model.checkpoint(), state="carry")
    carrying.embed("the cat sat")
    assert_same([other.embed("the cat sat")], [tiny_model.embed("the cat sat")])


def test_there_is_nothing_to_reset_with_state_zero(tiny_model):
    with refused("This model keeps no state to reset"):
        tiny_model.reset_state()


def test_an_unknown_state_is_refused(tiny_model):
    message = "state is 'keep'; choose 'zero' (same sentence, same vector) or 'carry'."
    with pytest.raises(ConfigError, match="^" + re.escape(message) + "$"):
        Elmo(tiny_model.checkpoint(), state="keep")
