"""Both directions: what each may see; padding, order and batches change nothing."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, SoftmaxConfig
from elmo.nn.bilm import BiLMState, LayerStates
from elmo.nn.build import build_bilm
from elmo.nn.projected_lstm import LstmState

DIM = 5
LENGTHS = torch.tensor([3, 6, 1, 0, 6, 4])


def make_bilm(num_layers=2, **settings):
    torch.manual_seed(0)
    config = ModelConfig(
        encoder=EncoderConfig(num_layers=num_layers, cell_dim=8, output_dim=DIM, **settings),
        characters=CharacterConfig(filters=((1, 4),), embedding_dim=3, num_highways=0),
        softmax=SoftmaxConfig(7),
    )
    return build_bilm(config).double()


BILM = make_bilm()


def make_words(lengths=LENGTHS, num_steps=7, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(lengths), num_steps, DIM, dtype=torch.float64, generator=generator)


def make_state(num_rows, seed=2):
    generator = torch.Generator().manual_seed(seed)

    def draw():
        return LstmState(
            torch.randn(2, num_rows, DIM, dtype=torch.float64, generator=generator),
            torch.randn(2, num_rows, 8, dtype=torch.float64, generator=generator),
        )

    return BiLMState(draw(), draw())


def row_state(state, row):
    def take(part):
        return LstmState(part.hidden[:, row : row + 1], part.cell[:, row : row + 1])

    return BiLMState(take(state.left_to_right), take(state.right_to_left))


@pytest.mark.parametrize("position", range(6))
def test_left_to_right_ignores_later_words_and_right_to_left_earlier_ones(position):
    words = make_words(torch.tensor([6, 4]), 6).requires_grad_()
    layers = BILM(words, torch.tensor([6, 4]))[0].layers
    for layer in layers[1:]:
        (ahead,) = torch.autograd.grad(layer[0, position, :DIM].sum(), words, retain_graph=True)
        (back,) = torch.autograd.grad(layer[0, position, DIM:].sum(), words, retain_graph=True)
        seen_ahead, seen_back = (grad[0].abs().sum(dim=1) > 0 for grad in (ahead, back))
        assert seen_ahead.tolist() == [step <= position for step in range(6)]
        assert seen_back.tolist() == [step >= position for step in range(6)]
        assert not ahead[1].any() and not back[1].any()  # nor another sentence


def test_right_to_left_reverses_each_sentence_by_its_own_length():
    words = make_words()
    layers = BILM(words, LENGTHS)[0].layers
    for row, length in enumerate(LENGTHS.tolist()):
        if length:
            own = words[row : row + 1, :length]
            ahead, _ = BILM.left_to_right(own, BILM.left_to_right.zero_state(1))
            back, _ = BILM.right_to_left(own.flip(1), BILM.right_to_left.zero_state(1))
            for layer, left, right in zip(layers[1:], ahead, back, strict=True):
                torch.testing.assert_close(layer[row, :length], torch.cat([left, right.flip(1)], dim=2)[0])


def test_layer_zero_is_the_word_vector_twice():
    words = make_words()
    states, _ = BILM(words, LENGTHS)
    assert states.layers.shape == (3, 6, 7, 2 * DIM)
    expected = torch.cat([words, words], dim=2)[states.mask]
    assert torch.equal(states.layers[0][states.mask], expected)
    assert BILM.num_layers == 3


def test_padding_is_masked_zero_and_never_read():
    words = make_words()
    clean, clean_end = BILM(words, LENGTHS)
    words[~clean.mask] = 1e6
    dirty, dirty_end = BILM(words, LENGTHS)
    assert clean.mask.tolist() == [[step < length for step in range(7)] for length in LENGTHS.tolist()]
    assert torch.equal(dirty.layers, clean.layers)
    assert not dirty.layers[:, ~dirty.mask].any()
    assert torch.equal(dirty_end.right_to_left.cell, clean_end.right_to_left.cell)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.integers(0, 99))
def test_a_row_does_not_depend_on_other_rows(lengths, seed):
    words, state = make_words(lengths, 7, seed), make_state(len(lengths), seed)
    with torch.no_grad():
        together, end = BILM(words, torch.tensor(lengths), state)
        for row, length in enumerate(lengths):
            alone, own_end = BILM(words[row : row + 1, : max(length, 1)], torch.tensor([length]), row_state(state, row))
            torch.testing.assert_close(together.layers[:, row, :length], alone.layers[:, 0, :length])
            for direction in ("left_to_right", "right_to_left"):
                kept, expected = (getattr(value, direction) for value in (row_state(end, row), own_end))
                torch.testing.assert_close(kept.hidden, expected.hidden)
                torch.testing.assert_close(kept.cell, expected.cell)


def test_no_state_is_the_zero_state():
    words = make_words()
    fresh, _ = BILM(words, LENGTHS)
    zero, _ = BILM(words, LENGTHS, BILM.zero_state(6))
    other, _ = BILM(words, LENGTHS, make_state(6))
    assert torch.equal(fresh.layers, zero.layers)
    assert not torch.allclose(fresh.layers, other.layers)


def test_the_state_at_the_end_is_the_last_output_of_the_first_layer():
    states, end = BILM(make_words(), LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        if length:
            torch.testing.assert_close(end.left_to_right.hidden[0, row], states.layers[1, row, length - 1, :DIM])
            torch.testing.assert_close(end.right_to_left.hidden[0, row], states.layers[1, row, 0, DIM:])


def test_the_directions_have_weights_of_their_own():
    names = dict(BILM.named_parameters())
    ahead, back = (names[f"{side}.layers.0.input_weight"] for side in ("left_to_right", "right_to_left"))
    assert not torch.equal(ahead, back)
    assert BILM.softmax.weight.shape == (7, DIM)


@pytest.mark.parametrize("num_layers", [1, 3])
def test_any_number_of_layers_may_be_stacked(num_layers):
    states, _ = make_bilm(num_layers)(make_words(), LENGTHS)
    assert len(states.layers) == num_layers + 1


def test_residual_connections_can_be_left_out():
    words = make_words()
    with_residual, without = (make_bilm(residual=residual)(words, LENGTHS)[0].layers for residual in (True, False))
    torch.testing.assert_close(with_residual[1], without[1])
    torch.testing.assert_close(with_residual[2], without[2] + without[1])


def test_boundaries_are_dropped_by_each_rows_own_end():
    mask = torch.tensor([[True] * 5, [True, True, True, False, False], [True, True, False, False, False]])
    layers = (torch.arange(1.0, 6.0).expand(2, 3, 5)[..., None] * mask[..., None]).clone()
    inner = LayerStates(layers, mask).without_boundaries()
    assert inner.mask.tolist() == [[True] * 3, [True, False, False], [False] * 3]
    assert inner.layers[0, :, :, 0].tolist() == [[2, 3, 4], [2, 0, 0], [0, 0, 0]]
    assert inner.layers.shape == (2, 3, 3, 1)
