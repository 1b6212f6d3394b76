"""ElmoLayer in a task network: state dicts, copies, and wrappers for several devices."""

import copy
import pickle

import pytest
import torch
import torch.distributed
from torch import nn

from elmo import Elmo, ElmoLayer

SENTENCES = ["the cat sat", ["a"]]
MIX_KEYS = {f"mixes.{number}.{name}" for number in range(2) for name in ("weights", "gamma")}


class Task(nn.Module):
    def __init__(self, model, **settings):
        super().__init__()
        self.elmo = ElmoLayer(model, num_mixes=2, dropout=0.0, **settings)
        self.head = nn.Linear(self.elmo.output_dim, 2)

    def forward(self, sentences):
        output = self.elmo(sentences)
        return self.head(sum(output.mixes))


@pytest.fixture
def other_model(tiny_model):
    """Of the same shape, with other weights."""
    return Elmo.from_config(tiny_model.config, seed=5)


def make_layer(model, **settings):
    return ElmoLayer(model, num_mixes=2, dropout=0.0, **settings)


def shake(module):
    """Move every weight that learns, so that what is loaded can be told from what was there."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.3)


def weights_of(model):
    return {name: torch.tensor(array) for name, array in model.checkpoint().weights.items()}


def assert_same_tensors(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def test_a_frozen_state_dict_is_the_mixes_alone(tiny_model):
    assert set(make_layer(tiny_model).state_dict()) == MIX_KEYS


def test_a_frozen_state_dict_is_the_mixes_alone_inside_a_task(tiny_model):
    expected = {f"elmo.{key}" for key in MIX_KEYS} | {"head.weight", "head.bias"}
    assert set(Task(tiny_model).state_dict()) == expected
    assert set(nn.Sequential(Task(tiny_model)).state_dict()) == {f"0.{key}" for key in expected}


def test_a_tuned_state_dict_has_everything(own_model):
    bilm_keys = {f"bilm.{name}" for name in own_model.checkpoint().weights}
    assert set(make_layer(own_model, tune_bilm=True).state_dict()) == MIX_KEYS | bilm_keys


@pytest.mark.parametrize("make", [make_layer, Task], ids=["alone", "in a task"])
def test_a_frozen_state_dict_loads_strictly_and_leaves_the_bilm(make, tiny_model, other_model, tmp_path):
    saved = make(tiny_model)
    shake(saved)
    torch.save(saved.state_dict(), tmp_path / "task.pt")
    loaded = make(other_model)
    before = weights_of(other_model)
    state = torch.load(tmp_path / "task.pt", weights_only=True)
    num_keys = len(state)
    loaded.load_state_dict(state, strict=True)
    assert_same_tensors(loaded.state_dict(), saved.state_dict())
    assert_same_tensors(weights_of(other_model), before)
    assert len(state) == num_keys  # the caller's dictionary is left alone


@pytest.mark.parametrize("make", [make_layer, Task], ids=["alone", "in a task"])
def test_a_strict_load_reports_missing_and_unexpected_keys(make, tiny_model):
    layer = make(tiny_model)
    state = layer.state_dict()
    name = next(key for key in state if key.endswith("mixes.1.gamma"))
    with pytest.raises(RuntimeError, match=f'Missing key.*"{name}"'):
        layer.load_state_dict({key: value for key, value in state.items() if key != name})
    with pytest.raises(RuntimeError, match='Unexpected key.*"extra"'):
        layer.load_state_dict({**state, "extra": torch.zeros(1)})


@pytest.mark.parametrize("make", [make_layer, Task], ids=["alone", "in a task"])
def test_a_tuned_state_dict_brings_the_bilm_along(make, own_model, other_model):
    saved = make(own_model, tune_bilm=True)
    shake(saved)
    loaded = make(other_model, tune_bilm=True)
    loaded.load_state_dict(saved.state_dict(), strict=True)
    first, second = (getattr(module, "elmo", module).to_elmo() for module in (saved, loaded))
    assert_same_tensors(weights_of(first), weights_of(second))
    torch.testing.assert_close(torch.tensor(first.embed(SENTENCES)[0]), torch.tensor(second.embed(SENTENCES)[0]))
    with pytest.raises(RuntimeError, match=r"Unexpected key.*bilm"):
        make(other_model).load_state_dict(saved.state_dict())


@pytest.mark.parametrize("tune_bilm", [False, True], ids=["frozen", "tuned"])
@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_is_whole_and_independent(own_model, tune_bilm, copy_of):
    layer = make_layer(own_model, tune_bilm=tune_bilm)
    shake(layer)
    copied = copy_of(layer)
    expected = layer(SENTENCES).mixes[1]
    assert torch.equal(copied(SENTENCES).mixes[1], expected)
    assert set(copied.state_dict()) == set(layer.state_dict())
    copied.load_state_dict(layer.state_dict(), strict=True)
    shake(copied)
    assert not torch.equal(copied(SENTENCES).mixes[1], expected)
    assert torch.equal(layer(SENTENCES).mixes[1], expected)


def test_data_parallel_without_gpus_passes_through(own_model):
    task = Task(own_model)
    wrapped = nn.DataParallel(task)
    assert torch.equal(wrapped(SENTENCES), task(SENTENCES))
    wrapped(SENTENCES).sum().backward()
    assert task.elmo.mixes[0].weights.grad.abs().sum() > 0


@pytest.fixture
def one_process_group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/init", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
@pytest.mark.parametrize("tune_bilm", [False, True], ids=["frozen", "tuned"])
def test_distributed_training_keeps_the_mixes_trainable(own_model, one_process_group, tune_bilm):
    task = Task(own_model, tune_bilm=tune_bilm)
    wrapped = nn.parallel.DistributedDataParallel(task)
    optimizer = torch.optim.SGD([p for p in wrapped.parameters() if p.requires_grad], lr=0.5)
    before, bilm_before = copy.deepcopy(task.elmo.mixes.state_dict()), weights_of(own_model)
    for _ in range(2):
        optimizer.zero_grad()
        wrapped(SENTENCES).square().sum().backward()
        optimizer.step()
    for name, tensor in task.elmo.mixes.state_dict().items():
        assert not torch.equal(tensor, before[name]), name
    changed = [
        name for name, tensor in weights_of(task.elmo.to_elmo()).items() if not torch.equal(tensor, bilm_before[name])
    ]
    assert bool(changed) == tune_bilm
    assert any("bilm" in key for key in wrapped.state_dict()) == tune_bilm
