"""The Transformer against NumPy, one word at a time; and context, positions, windows and scale."""

import math

import numpy as np
import pytest
import torch

from elmo.nn import bilm
from elmo.nn.transformer import CausalBlock, TransformerStack, make_rotation, rotate

DIM, NUM_HEADS, FEED_FORWARD_DIM, CONTEXT = 8, 2, 12, 3
HEAD_DIM = DIM // NUM_HEADS
LENGTHS = torch.tensor([9, 6, 6, 1, 0])


def make_stack(num_layers=2, context=CONTEXT, seed=0):
    torch.manual_seed(seed)
    layers = [CausalBlock(DIM, NUM_HEADS, FEED_FORWARD_DIM, depth=num_layers) for _ in range(num_layers)]
    stack = TransformerStack(layers, dim=DIM, context=context).double()
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return stack.requires_grad_(False)


def draw(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def numpy_layer_norm(module, values):
    centred = values - values.mean()
    scaled = centred / np.sqrt((centred**2).mean() + 1e-5)
    return scaled * module.weight.numpy() + module.bias.numpy()


def numpy_linear(module, values):
    return module.weight.numpy() @ values + module.bias.numpy()


def numpy_block(block, stream, context):
    """Each word by itself; a rotation is a product of complex numbers, a pair one value of each half."""
    turns = np.exp(-np.arange(HEAD_DIM // 2) * 2 / HEAD_DIM * math.log(10_000))
    seen, outputs = [], []
    for position, values in enumerate(stream):
        projected = numpy_linear(block.query_key_value, numpy_layer_norm(block.attention_norm, values))
        query, key, value = (part.reshape(NUM_HEADS, HEAD_DIM) for part in np.split(projected, 3))
        query, key = (part[:, : HEAD_DIM // 2] + 1j * part[:, HEAD_DIM // 2 :] for part in (query, key))
        seen.append((key * np.exp(1j * position * turns), value))
        query = query * np.exp(1j * position * turns)
        window = seen[max(0, position - context) :]
        heads = []
        for head in range(NUM_HEADS):
            scores = np.array([(query[head] * np.conj(key[head])).sum().real for key, _ in window])
            weights = np.exp(scores / math.sqrt(HEAD_DIM))
            weights /= weights.sum()
            heads.append(sum(weight * value[head] for weight, (_, value) in zip(weights, window, strict=True)))
        values = values + numpy_linear(block.attention_output, np.concatenate(heads))
        inner = numpy_linear(block.expand, numpy_layer_norm(block.feed_forward_norm, values))
        inner = inner * np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in inner])
        outputs.append(values + numpy_linear(block.contract, inner))
    return outputs


def test_a_stack_matches_numpy_for_rows_of_any_length():
    stack, inputs = make_stack(), draw(5, 11, DIM)  # two steps more than any row needs
    outputs, _ = stack(inputs, stack.zero_state(5), lengths=LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        stream = list(inputs[row, :length].numpy())
        for layer, output in zip(stack.layers, outputs, strict=True):
            stream = numpy_block(layer, stream, CONTEXT)
            for actual, expected in zip(output[row], stream, strict=False):
                np.testing.assert_allclose(actual, numpy_layer_norm(stack.norm, expected), atol=1e-10)
            assert not output[row, length:].any()


@pytest.mark.parametrize("steps_at_once", [1, 2, 3, 5, 100])
def test_windows_of_time_steps_change_nothing(monkeypatch, steps_at_once):
    stack, inputs = make_stack(), draw(5, 11, DIM)
    after = draw(5, 3, DIM, seed=1)
    whole, end = stack(inputs, stack.zero_state(5), lengths=LENGTHS)
    monkeypatch.setattr(bilm, "STEPS_AT_ONCE", steps_at_once)
    windowed, windowed_end = bilm.run_windows(stack, inputs, LENGTHS, stack.zero_state(5))
    torch.testing.assert_close(windowed, whole)
    torch.testing.assert_close(stack(after, windowed_end)[0], stack(after, end)[0])


def test_long_rows_are_read_in_windows(monkeypatch):
    stack, shapes = make_stack(), []
    monkeypatch.setattr(bilm, "STEPS_AT_ONCE", 4)
    stack.layers[0].register_forward_pre_hook(lambda _, given: shapes.append((given[0].shape, given[1].shape)))
    bilm.run_windows(stack, draw(5, 11, DIM), LENGTHS, stack.zero_state(5))
    assert [inputs[1] for inputs, _ in shapes] == [4, 4, 3]
    assert [keys[1] for _, keys in shapes] == [0, CONTEXT, CONTEXT]


@pytest.mark.parametrize("num_layers", [1, 2])
def test_a_word_sees_as_many_words_back_as_the_context_in_each_layer(num_layers):
    stack, inputs = make_stack(num_layers), draw(1, 12, DIM).requires_grad_()
    outputs, _ = stack(inputs, stack.zero_state(1))
    (gradient,) = torch.autograd.grad((outputs[-1][0, 10] @ draw(DIM, seed=1)).sum(), inputs)
    seen = gradient[0].abs().sum(dim=1) > 0
    assert seen.tolist() == [10 - num_layers * CONTEXT <= step <= 10 for step in range(12)]


def test_rotated_products_depend_on_distance_alone():
    rotation = make_rotation(400, HEAD_DIM, draw(1))
    query, key = draw(1, 1, 1, HEAD_DIM), draw(1, 1, 1, HEAD_DIM, seed=1)

    def product(query_position, key_position):
        turned = rotate(query, rotation[:, [query_position]]) * rotate(key, rotation[:, [key_position]])
        return float(turned.sum())

    assert product(5, 2) == pytest.approx(product(303, 300), abs=1e-12)
    assert product(5, 2) != pytest.approx(product(5, 3), abs=1e-3)
    assert torch.equal(rotate(query, rotation[:, [0]]), query)


def test_the_state_is_limited_to_the_context():
    stack = make_stack()
    _, end = stack(draw(5, 11, DIM), stack.zero_state(5), lengths=LENGTHS)
    assert end.keys.shape == end.values.shape == (2, 5, CONTEXT, DIM)
    assert end.num_kept.tolist() == [[3, 3, 3, 1, 0]]
    assert stack.zero_state(5).keys.shape == (2, 5, 0, DIM)  # what was never read takes no room
    keep = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    _, packed_end = stack(draw(2, 2, DIM), end.rows(slice(2)), keep=keep)
    assert packed_end.num_kept.tolist() == [[3, 2]]
    _, packed_end = stack(draw(2, 1, DIM), packed_end, keep=torch.tensor([[1.0], [0.0]]))
    assert packed_end.num_kept.tolist() == [[3, 1]]


def test_a_row_of_length_zero_keeps_its_state_and_all_rows_may_be_empty():
    stack = make_stack()
    _, state = stack(draw(2, 2, DIM), stack.zero_state(2), lengths=torch.tensor([2, 1]))
    outputs, end = stack(draw(2, 4, DIM), state, lengths=torch.tensor([0, 0]))
    assert [output.shape for output in outputs] == [(2, 4, DIM)] * 2
    assert not torch.stack(outputs).any()
    after = draw(2, 3, DIM, seed=1)
    torch.testing.assert_close(stack(after, end)[0], stack(after, state)[0])


def test_every_layer_of_a_new_stack_is_of_one_scale_whatever_the_words_are():
    torch.manual_seed(0)
    stack = TransformerStack([CausalBlock(64, 4, 128, depth=6) for _ in range(6)], dim=64, context=8)
    for scale in (0.1, 10.0):
        outputs, _ = stack(torch.randn(4, 20, 64) * scale, stack.zero_state(4))
        for output in outputs:
            assert output.std().item() == pytest.approx(1.0, abs=0.01)


def test_every_weight_is_trained_by_the_top_layer():
    stack = make_stack().requires_grad_()
    (*_, top), _ = stack(draw(2, 4, DIM), stack.zero_state(2))
    (top @ draw(DIM, seed=1)).sum().backward()
    assert [name for name, parameter in stack.named_parameters() if parameter.grad is None] == []
