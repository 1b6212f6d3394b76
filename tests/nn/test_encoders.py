"""The interface of both encoders, LSTM and Transformer: what a word may see, and any split into windows."""

import functools
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, SoftmaxConfig, TransformerConfig
from elmo.nn.bilm import BiLMState
from elmo.nn.build import build_bilm

DIM = 8
CONTEXT = 4
ENCODERS = {
    "lstm": EncoderConfig(num_layers=2, cell_dim=12, output_dim=DIM, cell_clip=0.5, projection_clip=0.4),
    "transformer": TransformerConfig(num_layers=2, output_dim=DIM, num_heads=2, feed_forward_dim=20, context=CONTEXT),
}


def run_top(stack, words, state, **options):
    layers, end = stack(words, state, **options)
    return layers[-1], end


def make_bilm(kind):
    torch.manual_seed(0)
    config = ModelConfig(
        encoder=ENCODERS[kind],
        characters=CharacterConfig(filters=((1, 4),), embedding_dim=3, num_highways=0),
        softmax=SoftmaxConfig(7),
    )
    bilm = build_bilm(config)
    with torch.no_grad():
        for name, parameter in bilm.named_parameters():  # so that no bias is 0 and no gain is 1
            parameter.add_(torch.randn_like(parameter) * (0.3 if "norm" in name or "bias" in name else 0))
    return bilm


BILMS = {kind: make_bilm(kind) for kind in ENCODERS}
pytestmark = pytest.mark.parametrize("kind", list(ENCODERS))


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def assert_near(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("position", range(6))
def test_left_to_right_never_sees_later_words_nor_right_to_left_earlier_ones(kind, position, carried):
    bilm, reach = BILMS[kind], 6 if kind == "lstm" else CONTEXT
    words, lengths = draw(2, 6, DIM).requires_grad_(), torch.tensor([6, 4])
    state = bilm(draw(2, 5, DIM, seed=1), torch.tensor([5, 3]))[1] if carried else None
    layers = bilm(words, lengths, state)[0].layers
    weights = draw(DIM, seed=2)  # a norm makes the plain sum of a vector constant
    for number, layer in enumerate(layers[1:], start=1):
        ahead, back = (
            torch.autograd.grad((half @ weights).sum(), words, retain_graph=True)[0]
            for half in (layer[0, position, :DIM], layer[0, position, DIM:])
        )
        seen_ahead, seen_back = (gradient[0].abs().sum(dim=1) > 0 for gradient in (ahead, back))
        assert seen_ahead.tolist() == [0 <= position - step <= number * reach for step in range(6)]
        assert seen_back.tolist() == [0 <= step - position <= number * reach for step in range(6)]
        assert not ahead[1].any() and not back[1].any()  # nor another sentence


@settings(max_examples=10, deadline=None)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=5), seed=st.integers(0, 99), carried=st.booleans())
def test_a_sentence_has_its_vectors_alone_in_a_batch_padded_and_shuffled(kind, lengths, seed, carried):
    bilm, num_rows, lengths = BILMS[kind], len(lengths), torch.tensor(lengths)
    words = draw(num_rows, int(lengths.max()) + 2, DIM, seed=seed)
    past_end = (torch.arange(words.shape[1]) >= lengths[:, None])[..., None]
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        state = bilm.zero_state(num_rows)
        if carried:
            state = bilm(draw(num_rows, 3, DIM, seed=7), lengths.clamp(max=3))[1]
        together, end = bilm(words.masked_fill(past_end, 1e6), lengths, state)
        shuffled, _ = bilm(words.masked_fill(past_end, -1e6)[order], lengths[order], state.rows(order))
        assert_near(shuffled.layers, together.layers[:, order])
        assert not together.layers[:, ~together.mask].any()
        ends = []
        for row, length in enumerate(lengths.tolist()):
            one = slice(row, row + 1)
            alone, own_end = bilm(words[one, : max(length, 1)], lengths[one], state.rows(one))
            assert_near(together.layers[:, row, :length], alone.layers[:, 0, :length])
            ends.append(own_end)
        # Where a row stands is told by what it gives next.
        after, two = draw(num_rows, 2, DIM, seed=8), torch.full((num_rows,), 2)
        own_ends = functools.reduce(BiLMState.join, ends)
        assert_near(bilm(after, two, end)[0].layers, bilm(after, two, own_ends)[0].layers)


@settings(max_examples=12, deadline=None)
@given(
    halves=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_two_windows_with_carried_state_equal_one(kind, halves, seed):
    encoder = BILMS[kind].left_to_right
    words = [draw(first + second, DIM, seed=seed + row) for row, (first, second) in enumerate(halves)]

    def run(parts, state):
        """Let the encoder read rows of any order, as BiLM does."""
        lengths = torch.tensor([len(part) for part in parts])
        order = torch.argsort(lengths, descending=True, stable=True)
        inputs = torch.nn.utils.rnn.pad_sequence([*parts, torch.zeros(1, DIM)], batch_first=True)[:-1]
        outputs, end = encoder(inputs[order], state.rows(order), lengths=lengths[order])
        restore = torch.argsort(order)
        return [layer[restore] for layer in outputs], end.rows(restore)

    with torch.no_grad():
        start = encoder.zero_state(len(halves))
        whole, end = run(words, start)
        first, middle = run([row[:cut] for row, (cut, _) in zip(words, halves, strict=True)], start)
        second, resumed_end = run([row[cut:] for row, (cut, _) in zip(words, halves, strict=True)], middle)
        for complete, left, right in zip(whole, first, second, strict=True):
            for row, (cut, rest) in enumerate(halves):
                assert_near(torch.cat([left[row, :cut], right[row, :rest]]), complete[row, : cut + rest])
        after = [draw(3, DIM, seed=row) for row in range(len(halves))]
        for resumed, expected in zip(run(after, resumed_end)[0], run(after, end)[0], strict=True):
            assert_near(resumed, expected)


@settings(max_examples=12, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    seed=st.integers(0, 99),
    num_rows=st.integers(1, 3),
)
def test_packed_windows_equal_single_sentences(kind, sizes, seed, num_rows):
    encoder, num_steps = BILMS[kind].left_to_right, sum(sizes)
    words = draw(num_rows, num_steps, DIM, seed=seed)
    keep = (draw(num_rows, num_steps, seed=seed + 1) > -0.5).float()  # 0: a sentence starts
    keep[:, 0] = 0.0
    tops, state = [], encoder.zero_state(num_rows)
    with torch.no_grad():
        for window, marks in zip(words.split(sizes, dim=1), keep.split(sizes, dim=1), strict=True):
            top, state = run_top(encoder, window, state, keep=marks)
            tops.append(top)
        packed = torch.cat(tops, dim=1)
        for row in range(num_rows):
            starts = [*torch.nonzero(keep[row] == 0).flatten().tolist(), num_steps]
            for start, stop in itertools.pairwise(starts):
                top, end = run_top(encoder, words[[row], start:stop], encoder.zero_state(1))
                assert_near(packed[row, start:stop], top[0])
            after = draw(1, 3, DIM, seed=9)
            assert_near(run_top(encoder, after, state.rows(slice(row, row + 1)))[0], run_top(encoder, after, end)[0])


def test_dropout_is_sampled_per_call_and_only_if_requested(kind):
    encoder = BILMS[kind].left_to_right
    words, state = draw(2, 5, DIM), encoder.zero_state(2)
    plain = [run_top(encoder, words, state)[0] for _ in range(2)]
    dropped = [run_top(encoder, words, state, dropout=0.5)[0] for _ in range(2)]
    assert torch.equal(*plain)
    assert not torch.allclose(*dropped)


def test_autocast_to_bfloat16_stays_near_and_the_rest_is_float32(kind):
    encoder = BILMS[kind].left_to_right
    words, state = draw(2, 9, DIM), encoder.zero_state(2)
    exact, _ = run_top(encoder, words, state)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, end = run_top(encoder, words, state)
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.05)
    assert not torch.equal(rounded, exact)
    assert {tensor.dtype for tensor in (rounded, *end.tensors)} <= {torch.float32, torch.int64}


def test_states_can_be_split_by_rows_and_joined(kind, monkeypatch):
    monkeypatch.setattr("elmo.nn.bilm.STEPS_AT_ONCE", 2)
    bilm = BILMS[kind]
    words, lengths = draw(3, 6, DIM), torch.tensor([6, 1, 3])
    _, state = bilm(words, lengths)
    longer = state.join(bilm.zero_state(2))  # rows that have read nothing
    assert (state.num_rows, longer.num_rows) == (3, 5)
    back = longer.rows(torch.tensor([3, 2, 0])).join(longer.rows(slice(1, 2)))
    after = draw(4, 2, DIM, seed=3)
    actual = bilm(after, torch.full((4,), 2), back)[0].layers
    for row, origin in enumerate((None, 2, 0, 1)):
        own = bilm.zero_state(1) if origin is None else state.rows(slice(origin, origin + 1))
        assert_near(actual[:, row], bilm(after[row : row + 1], torch.tensor([2]), own)[0].layers[:, 0])


def test_the_directions_have_weights_of_their_own(kind):
    bilm = BILMS[kind]
    ahead, back = (dict(part.named_parameters()) for part in (bilm.left_to_right, bilm.right_to_left))
    assert ahead.keys() == back.keys()
    assert not any(torch.equal(ahead[name], back[name]) for name in ahead)
