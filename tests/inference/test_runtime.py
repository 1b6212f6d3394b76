"""Running batches: words encoded in windows, state carried row by row, devices and precisions."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.errors import ConfigError
from elmo.inference import runtime
from elmo.inference.precision import PRECISIONS
from elmo.inference.runtime import CarriedState, Runtime, encode_words, run_bilm

A, B, C = ["the", "cat", "sat"], ["a"], ["b", "c", "d", "e", "f"]


@pytest.fixture
def bilm(tiny_model):
    return tiny_model.bilm


@pytest.fixture
def carried(bilm):
    state = CarriedState(bilm)
    with torch.inference_mode():
        yield state


@pytest.fixture
def batch(tiny_model):
    return tiny_model.indexer.batch


def alone(bilm, batch, *sentences):
    """The rows that one row of a carried state gives, fed these sentences one after another by hand."""
    state = None
    for words in sentences:
        states, state = run_bilm(bilm, batch([words]), state)
    return states.layers[:, 0, : len(words) + 2]


def row(states, number, words):
    return states.layers[:, number, : len(words) + 2]


def test_word_vectors_are_put_where_the_words_stand(bilm, batch):
    packed = batch([["a", "b", "a"], ["b"]])
    with torch.inference_mode():
        vectors = encode_words(bilm, packed)
        distinct = bilm.tokens(packed.char_ids, None)
    assert vectors.shape == (2, 5, 6)
    assert torch.equal(vectors[0], distinct[[0, 2, 3, 2, 1]])
    assert torch.equal(vectors[1, :3], distinct[[0, 3, 1]])


@pytest.mark.parametrize("at_once", [1, 3, 7, 8])
def test_many_words_are_encoded_in_windows_with_the_same_result(monkeypatch, bilm, batch, at_once):
    packed = batch([C, ["x"]])  # six words and two boundaries
    sizes = []
    with torch.inference_mode(), bilm.tokens.register_forward_hook(lambda *call: sizes.append(len(call[2]))):
        whole = encode_words(bilm, packed)
        monkeypatch.setattr(runtime, "WORDS_AT_ONCE", at_once)
        windowed = encode_words(bilm, packed)
    torch.testing.assert_close(windowed, whole)
    assert sizes == [8] + [min(at_once, 8 - start) for start in range(0, 8, at_once)]


def test_rows_go_on_from_where_they_stood(carried, bilm, batch):
    carried.run(batch([A, B]))
    states = carried.run(batch([C, A]))
    torch.testing.assert_close(row(states, 0, C), alone(bilm, batch, A, C))
    torch.testing.assert_close(row(states, 1, A), alone(bilm, batch, B, A))
    assert not torch.allclose(row(states, 0, C), alone(bilm, batch, C))


def test_a_larger_batch_adds_rows_that_start_from_zero(carried, bilm, batch):
    carried.run(batch([A]))
    states = carried.run(batch([B, C]))
    torch.testing.assert_close(row(states, 0, B), alone(bilm, batch, A, B))
    torch.testing.assert_close(row(states, 1, C), alone(bilm, batch, C))


def test_a_smaller_batch_moves_the_first_rows_and_leaves_the_rest(carried, bilm, batch):
    carried.run(batch([A, B, C]))
    carried.run(batch([C]))
    states = carried.run(batch([B, A, A]))
    torch.testing.assert_close(row(states, 0, B), alone(bilm, batch, A, C, B))
    torch.testing.assert_close(row(states, 1, A), alone(bilm, batch, B, A))
    torch.testing.assert_close(row(states, 2, A), alone(bilm, batch, C, A))


def test_a_row_of_padding_alone_leaves_its_state(carried, bilm, batch):
    carried.run(batch([A, B]))
    padded = dataclasses.replace(batch([C, []]), lengths=torch.tensor([len(C) + 2, 0]))
    assert not carried.run(padded).mask[1].any()
    states = carried.run(batch([A, A]))
    torch.testing.assert_close(row(states, 1, A), alone(bilm, batch, B, A))


def test_reset_forgets_what_was_read(carried, batch):
    first = carried.run(batch([A, B])).layers
    second = carried.run(batch([A, B])).layers
    carried.reset()
    assert not torch.allclose(first, second)
    assert torch.equal(carried.run(batch([A, B])).layers, first)


def test_gradients_do_not_flow_into_earlier_batches(own_model):
    own_model.bilm.requires_grad_(True)
    carried, batch = CarriedState(own_model.bilm), own_model.indexer.batch
    carried.run(batch([A]))
    for words in (B, C):  # a second backward through the first graph would raise
        carried.run(batch([words])).layers.sum().backward()
    assert own_model.bilm.left_to_right.layers[0].state_weight.grad.abs().sum() > 0


def test_without_carried_state_every_run_is_the_same(bilm, batch):
    fresh = Runtime(bilm)
    assert fresh.carried is None
    assert torch.equal(fresh.run(batch([A, B])).layers, fresh.run(batch([A, B])).layers)


def test_a_carrying_runtime_goes_on_until_it_is_reset(bilm, batch):
    carrying = Runtime(bilm, carry=True)
    first, second = (carrying.run(batch([A])).layers for _ in range(2))
    assert not torch.allclose(first, second)
    carrying.carried.reset()
    assert torch.equal(carrying.run(batch([A])).layers, first)


def test_no_gradients_are_recorded(own_model):
    own_model.bilm.requires_grad_(True)
    assert not Runtime(own_model.bilm).run(own_model.indexer.batch([A])).layers.requires_grad


def test_an_unknown_precision_is_refused_with_the_known_ones(bilm):
    with pytest.raises(ConfigError) as raised:
        Runtime(bilm, precision="float8")
    known = ", ".join(PRECISIONS)
    assert str(raised.value) == f"The precision 'float8' is not known; choose one of {known}."
    assert "float32" in known


def test_a_device_that_does_not_exist_is_refused_in_one_line(bilm):
    with pytest.raises(ConfigError) as raised:
        Runtime(bilm, device="gpu")
    message = str(raised.value)
    assert message.startswith("The device 'gpu' cannot be used: it is not the name of a device; choose cpu")
    assert "\n" not in message
    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the message for a machine without a GPU")
def test_a_gpu_that_is_not_there_is_refused(own_model):
    with pytest.raises(ConfigError, match=r"^The device 'cuda' cannot be used: "):
        Runtime(own_model.bilm, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_vectors_of_the_cpu(tiny_model, own_model, batch):
    expected = Runtime(tiny_model.bilm).run(batch([A, B, C])).layers
    on_gpu = Runtime(own_model.bilm, device="cuda").run(batch([A, B, C]))
    assert on_gpu.layers.device.type == on_gpu.mask.device.type == "cuda"
    torch.testing.assert_close(on_gpu.layers.cpu(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda state: pickle.loads(pickle.dumps(state))])
def test_a_copy_of_a_carried_state_begins_from_zero(carried, batch, copied):
    first = carried.run(batch([A])).layers
    other = copied(carried)
    torch.testing.assert_close(other.run(batch([A])).layers, first)
    assert not torch.allclose(carried.run(batch([A])).layers, first, atol=1e-4)  # the one it is of reads on


def test_a_model_that_carries_its_state_can_be_copied(tiny_model):
    model = Elmo(tiny_model.checkpoint(), state="carry")
    first = model.embed([A])[0]
    other = copy.deepcopy(model)
    assert other.state == "carry" and other.bilm is not model.bilm
    np.testing.assert_array_equal(other.embed([A])[0], first)
    assert not np.allclose(other.embed([A])[0], first, atol=1e-4)
