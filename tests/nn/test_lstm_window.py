"""The LSTM over packed windows against autograd through plain steps: outputs, states and every gradient."""

import pytest
import torch

from elmo.nn.projected_lstm import ProjectedLstm

NUM_STEPS, NUM_ROWS, INPUT_DIM, CELL_DIM, OUTPUT_DIM = 9, 4, 5, 7, 3


def make_layer(*, projected, cell_clip, projection_clip, scale=1.0):
    torch.manual_seed(0)
    layer = ProjectedLstm(
        INPUT_DIM,
        CELL_DIM,
        OUTPUT_DIM if projected else CELL_DIM,
        projected=projected,
        cell_clip=cell_clip,
        projection_clip=projection_clip,
        forget_bias=1.0,
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) * scale)
    return layer


def run_step_by_step(layer, inputs, keep, hidden, cell):
    """The same by the formulas alone, in float64, with autograd over every step."""
    weights = {name: parameter.double() for name, parameter in layer.named_parameters()}
    outputs = []
    for values, kept in zip(inputs.double(), keep.double(), strict=True):
        hidden, cell = hidden.double() * kept[:, None], cell.double() * kept[:, None]
        gates = values @ weights["input_weight"].T + hidden @ weights["state_weight"].T + weights["bias"]
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
        cell = torch.sigmoid(forget_gate + layer.forget_bias) * cell + input_gate.sigmoid() * candidate.tanh()
        if layer.cell_clip is not None:
            cell = cell.clamp(-layer.cell_clip, layer.cell_clip)
        hidden = output_gate.sigmoid() * cell.tanh()
        if "projection_weight" in weights:
            hidden = hidden @ weights["projection_weight"].T
            if layer.projection_clip is not None:
                hidden = hidden.clamp(-layer.projection_clip, layer.projection_clip)
        outputs.append(hidden)
    return torch.stack(outputs), hidden, cell


def forward_window(layer, *tensors, dtype=torch.float32):
    with torch.autocast("cpu", dtype, enabled=dtype == torch.bfloat16):
        outputs, cells = layer(*tensors)
    return outputs, outputs[-1], cells[-1]


def list_gradients(read, layer, given, keep):
    """Every gradient of a random product with the outputs and the end state, and the values themselves."""
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    results = read(leaves[0], keep, *leaves[1:])
    generator = torch.Generator().manual_seed(5)
    loss = sum((result * torch.randn(result.shape, generator=generator)).sum() for result in results)
    named = dict(layer.named_parameters())
    gradients = torch.autograd.grad(loss, [*leaves, *named.values()])
    return results, dict(zip(["inputs", "hidden", "cell", *named], gradients, strict=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("clips", [(None, None), (0.6, 0.4)], ids=["free", "clipped"])
@pytest.mark.parametrize("projected", [True, False])
def test_values_and_gradients_equal_those_of_autograd(projected, clips, seed):
    cell_clip, projection_clip = clips
    layer = make_layer(projected=projected, cell_clip=cell_clip, projection_clip=projection_clip)
    generator = torch.Generator().manual_seed(seed)
    shapes = [(NUM_STEPS, NUM_ROWS, INPUT_DIM), (NUM_ROWS, layer.output_dim), (NUM_ROWS, CELL_DIM)]
    given = [torch.randn(shape, generator=generator) for shape in shapes]
    keep = (torch.rand(NUM_STEPS, NUM_ROWS, generator=generator) > 0.3).float()

    def read_window(*tensors):
        return forward_window(layer, *tensors)

    def read_steps(*tensors):
        return run_step_by_step(layer, *tensors)

    values, gradients = list_gradients(read_window, layer, given, keep)
    expected_values, expected = list_gradients(read_steps, layer, given, keep)
    for actual, expected_gradients in zip(values, expected_values, strict=True):
        torch.testing.assert_close(actual.double(), expected_gradients, rtol=0, atol=1e-5)
    for name, expected_gradients in expected.items():
        assert expected_gradients.any(), name
        torch.testing.assert_close(gradients[name], expected_gradients.float(), rtol=1e-4, atol=1e-4)
    if cell_clip is not None:
        assert (values[2].abs() == cell_clip).any() and (values[2].abs() < cell_clip).any()
        if projected:
            assert (values[0].abs() == projection_clip).any() and (values[0].abs() < projection_clip).any()


def test_a_sentence_start_stops_values_and_gradients():
    layer = make_layer(projected=True, cell_clip=None, projection_clip=None)
    inputs = torch.randn(NUM_STEPS, 1, INPUT_DIM).requires_grad_()
    hidden, cell = torch.randn(1, OUTPUT_DIM).requires_grad_(), torch.randn(1, CELL_DIM).requires_grad_()
    keep = torch.ones(NUM_STEPS, 1)
    keep[4] = 0.0
    outputs, _, _ = forward_window(layer, inputs, keep, hidden, cell)
    from_inputs, from_hidden, from_cell = torch.autograd.grad(outputs[4:].sum(), [inputs, hidden, cell])
    assert not from_hidden.any() and not from_cell.any() and not from_inputs[:4].any()
    assert from_inputs[4:].abs().sum(dim=(1, 2)).all()


def test_bfloat16_products_give_gradients_near_those_of_float32():
    layer = make_layer(projected=True, cell_clip=3.0, projection_clip=3.0, scale=0.3)
    inputs, keep = torch.randn(NUM_STEPS, NUM_ROWS, INPUT_DIM), torch.ones(NUM_STEPS, NUM_ROWS)
    given = [inputs, torch.zeros(NUM_ROWS, OUTPUT_DIM), torch.zeros(NUM_ROWS, CELL_DIM)]
    exact, rounded = (
        list_gradients(lambda *t, dtype=dtype: forward_window(layer, *t, dtype=dtype), layer, given, keep)[1]
        for dtype in (torch.float32, torch.bfloat16)
    )
    for name, expected_gradients in exact.items():
        assert rounded[name].dtype == torch.float32
        cosine = torch.cosine_similarity(rounded[name].flatten(), expected_gradients.flatten(), dim=0)
        assert cosine > 0.999, name
