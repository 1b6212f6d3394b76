"""The LSTM against NumPy, one step at a time, from the formulas and weight layout of the originals."""

import numpy as np
import pytest
import torch

from elmo.nn.projected_lstm import LstmStack, LstmState, ProjectedLstm

INPUT_DIM, CELL_DIM, OUTPUT_DIM = 5, 7, 4
BATCH = {"lengths": [6, 6, 3, 1, 0], "steps": 8}  # two steps more than any row needs


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def original_weights(seed, input_dim=INPUT_DIM, cell_dim=CELL_DIM, output_dim=OUTPUT_DIM, scale=1.0):
    """W_0 (input + projection, 4 * dim) with input rows first, B, W_P_0: gates i, j, f, o."""
    draw = np.random.default_rng(seed).normal
    return {
        "W_0": draw(size=(input_dim + output_dim, 4 * cell_dim), scale=scale),
        "B": draw(size=4 * cell_dim),
        "W_P_0": draw(size=(cell_dim, output_dim)),
    }


def numpy_layer(weights, rows, hidden, cell, *, cell_clip, proj_clip, projected=True, forget_bias=1.0):
    """Each row of its own length from its own state -> outputs per row, final hidden, final cell."""
    outputs, hidden, cell = [], hidden.copy(), cell.copy()
    for number, row in enumerate(rows):
        h, c, seen = hidden[number], cell[number], []
        for x in row:
            i, j, f, o = np.split(np.concatenate([x, h]) @ weights["W_0"] + weights["B"], 4)
            c = sigmoid(f + forget_bias) * c + sigmoid(i) * np.tanh(j)
            c = c if cell_clip is None else np.clip(c, -cell_clip, cell_clip)
            h = sigmoid(o) * np.tanh(c)
            if projected:
                h = h @ weights["W_P_0"]
                h = h if proj_clip is None else np.clip(h, -proj_clip, proj_clip)
            seen.append(h)
        outputs.append(np.array(seen).reshape(len(row), len(h)))
        hidden[number], cell[number] = h, c
    return outputs, hidden, cell


def make_layer(weights, *, cell_clip=None, proj_clip=None, projected=True, forget_bias=1.0):
    """The module under test, with the original weights put where it keeps them: gates i, f, g, o."""
    output_dim, cell_dim = weights["W_P_0"].T.shape
    input_dim = len(weights["W_0"]) - output_dim
    layer = ProjectedLstm(
        input_dim,
        cell_dim,
        output_dim,
        projected=projected,
        cell_clip=cell_clip,
        projection_clip=proj_clip,
        forget_bias=forget_bias,
    ).double()

    def reorder(gates):
        i, j, f, o = np.split(gates, 4, axis=-1)
        return torch.tensor(np.concatenate([i, f, j, o], axis=-1).T)

    with torch.no_grad():
        layer.input_weight.copy_(reorder(weights["W_0"][:input_dim]))
        layer.state_weight.copy_(reorder(weights["W_0"][input_dim:]))
        layer.bias.copy_(reorder(weights["B"]))
        if projected:
            layer.projection_weight.copy_(torch.tensor(weights["W_P_0"]).T)
    return layer


def make_input(seed=1, *, lengths=BATCH["lengths"], steps=BATCH["steps"], dim=INPUT_DIM, scale=1.0):
    draw = np.random.default_rng(seed).normal
    inputs = draw(size=(len(lengths), steps, dim), scale=scale)
    return inputs, [row[:length] for row, length in zip(inputs, lengths, strict=True)]


def make_state(seed=2, *, num_rows=5, cell_dim=CELL_DIM, output_dim=OUTPUT_DIM):
    draw = np.random.default_rng(seed).normal
    return draw(size=(num_rows, output_dim)), draw(size=(num_rows, cell_dim))


def run(layer, inputs, hidden, cell, lengths=BATCH["lengths"]):
    state = LstmState(torch.tensor(hidden)[None], torch.tensor(cell)[None])
    with torch.no_grad():
        stack = LstmStack([layer], residual=False)
        (outputs,), end = stack(torch.tensor(inputs), state, lengths=torch.tensor(lengths))
    return [result.numpy() for result in (outputs, end.hidden[0], end.cell[0])]


def assert_layer_matches_numpy(weights, inputs_scale=1.0, **settings):
    inputs, rows = make_input(scale=inputs_scale)
    hidden, cell = make_state(output_dim=weights["W_P_0"].shape[1])
    outputs, end_hidden, end_cell = run(make_layer(weights, **settings), inputs, hidden, cell)
    settings = {"cell_clip": None, "proj_clip": None, **settings}
    expected, expected_hidden, expected_cell = numpy_layer(weights, rows, hidden, cell, **settings)
    for output, row in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output[: len(row)], row, atol=1e-12)
        assert not output[len(row) :].any()
    np.testing.assert_allclose(end_hidden, expected_hidden, atol=1e-12)
    np.testing.assert_allclose(end_cell, expected_cell, atol=1e-12)
    return expected, expected_cell


@pytest.mark.parametrize("forget_bias", [0.0, 1.0, -2.5])
def test_a_layer_matches_numpy_from_any_state_for_rows_of_any_length(forget_bias):
    assert_layer_matches_numpy(original_weights(0), forget_bias=forget_bias)


def test_without_projection_the_cells_are_the_output_and_only_they_are_clipped():
    weights = original_weights(0, output_dim=CELL_DIM, scale=3.0)
    expected, _ = assert_layer_matches_numpy(weights, projected=False, cell_clip=0.9, proj_clip=0.1)
    assert max(np.abs(row).max() for row in expected if len(row)) > 0.1
    assert make_layer(weights, projected=False).projection_weight is None


def test_cells_are_clipped_before_the_output_is_made_of_them():
    _, cells = assert_layer_matches_numpy(original_weights(0, scale=3.0), cell_clip=0.5)
    assert np.abs(cells[:4]).max() == 0.5  # the fifth row is empty, so its state is untouched


def test_outputs_are_clipped_after_the_projection_and_fed_back_clipped():
    expected, _ = assert_layer_matches_numpy(original_weights(0, scale=3.0), proj_clip=0.3)
    assert np.abs(np.concatenate(expected)).max() == 0.3


def test_a_row_of_length_zero_keeps_its_state_and_gives_zeros():
    inputs, _ = make_input()
    hidden, cell = make_state()
    outputs, end_hidden, end_cell = run(make_layer(original_weights(0), cell_clip=0.01), inputs, hidden, cell)
    assert not outputs[4].any()
    np.testing.assert_array_equal(end_hidden[4], hidden[4])
    np.testing.assert_array_equal(end_cell[4], cell[4])


def test_rows_that_are_all_empty_are_no_trouble():
    inputs, _ = make_input()
    hidden, cell = make_state()
    outputs, end_hidden, _ = run(make_layer(original_weights(0)), inputs, hidden, cell, lengths=[0] * 5)
    assert outputs.shape == (5, 8, OUTPUT_DIM)
    assert not outputs.any()
    np.testing.assert_array_equal(end_hidden, hidden)


def test_padding_of_the_input_is_never_read():
    layer, (inputs, _), state = make_layer(original_weights(0)), make_input(), make_state()
    clean = run(layer, inputs, *state)
    for row, length in zip(inputs, BATCH["lengths"], strict=True):
        row[length:] = 1e6
    for dirty, expected in zip(run(layer, inputs, *state), clean, strict=True):
        np.testing.assert_array_equal(dirty, expected)


@pytest.fixture(params=[True, False], ids=["residual", "plain"])
def stack_and_weights(request):
    weights = [original_weights(seed, OUTPUT_DIM, scale=1.5) for seed in range(3)]
    layers = [make_layer(part, cell_clip=0.8, proj_clip=0.6) for part in weights]
    return LstmStack(layers, residual=request.param), weights


def test_a_stack_matches_numpy_with_the_residual_from_the_second_layer_and_not_in_the_state(stack_and_weights):
    stack, all_weights = stack_and_weights
    inputs, below = make_input(dim=OUTPUT_DIM)
    states = [make_state(seed) for seed in (3, 4, 5)]
    state = LstmState(*(torch.tensor(np.stack(part)) for part in zip(*states, strict=True)))
    with torch.no_grad():
        outputs, end = stack(torch.tensor(inputs), state, lengths=torch.tensor(BATCH["lengths"]))
    for number, (weights, (hidden, cell)) in enumerate(zip(all_weights, states, strict=True)):
        rows, hidden, cell = numpy_layer(weights, below, hidden, cell, cell_clip=0.8, proj_clip=0.6)
        if stack.residual and number > 0:
            rows = [row + lower for row, lower in zip(rows, below, strict=True)]
        for output, row in zip(outputs[number].numpy(), rows, strict=True):
            np.testing.assert_allclose(output[: len(row)], row, atol=1e-12)
        np.testing.assert_allclose(end.hidden[number], hidden, atol=1e-12)
        np.testing.assert_allclose(end.cell[number], cell, atol=1e-12)
        below = rows
    # Clipping holds for the state, and the residual carries outputs past it.
    assert end.hidden[:, :4].abs().max() == 0.6
    assert (outputs[2].abs().max() > 0.6) == stack.residual


def test_two_halves_with_carried_state_equal_the_whole(stack_and_weights):
    stack, _ = stack_and_weights
    inputs = torch.tensor(make_input(lengths=[8, 8], dim=OUTPUT_DIM)[0])
    with torch.no_grad():
        whole, end = stack(inputs, stack.zero_state(2))
        first, middle = stack(inputs[:, :4], stack.zero_state(2))
        second, resumed_end = stack(inputs[:, 4:], middle)
    for complete, left, right in zip(whole, first, second, strict=True):
        torch.testing.assert_close(torch.cat([left, right], dim=1), complete)
    torch.testing.assert_close(resumed_end.hidden, end.hidden)
    torch.testing.assert_close(resumed_end.cell, end.cell)


def test_the_zero_state_has_a_row_for_each_sentence_and_layer(stack_and_weights):
    stack, _ = stack_and_weights
    state = stack.zero_state(6)
    assert state.hidden.shape == (3, 6, OUTPUT_DIM)
    assert state.cell.shape == (3, 6, CELL_DIM)
    assert not state.hidden.any() and not state.cell.any()
    assert state.hidden.dtype == torch.float64  # as the weights are
    assert stack.num_layers == 3


def test_running_twice_gives_the_same_for_nothing_is_kept(stack_and_weights):
    stack, _ = stack_and_weights
    inputs = torch.tensor(make_input(dim=OUTPUT_DIM)[0])
    runs = [stack(inputs, stack.zero_state(5))[0] for _ in range(2)]
    for one, other in zip(*runs, strict=True):
        assert torch.equal(one, other)
