"""The context layer in task networks: concatenated, frozen, and saved with the task."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from elmo import CheckpointError, ConfigError, Elmo, InputError
from elmo.tasks import load
from elmo.tasks.families.networks import Batcher, BilmShape, Vocabularies, WordList
from elmo.tasks.layer_store import LayerStore, compute_layers
from elmo.tasks.settings import make_settings
from elmo.tasks.task import build_network
from tests.tasks.toys import small

SENTENCES = [("the", "river", "bank"), ("the", "bank"), ()]


@pytest.fixture
def fused_folder(fused_model, tmp_path):
    fused_model.save_pretrained(tmp_path / "fused")
    return tmp_path / "fused"


def build(model, context):
    settings = small("tagging", elmo__context=context, words__kinds=[])
    shape = BilmShape(model.num_layers, model.dim, 0 if context == "none" else model.context.dim)
    values = dict(zip(SENTENCES, compute_layers(model, SENTENCES, with_context=context != "none"), strict=True))
    words = Vocabularies(WordList(), WordList(), 0)
    labels = {"tags": ["A", "B"], "marks_spans": False, "strict": False, "crf": False}
    torch.manual_seed(0)
    network = build_network("tagging", settings, labels, words, shape).eval()
    return network, Batcher(settings, words, shape, values.__getitem__)


def read_inputs(encoder, batch):
    return encoder._inputs(batch, encoder._mix(batch))


def test_concatenated_contexts_follow_the_mix(fused_model):
    plain, plain_batcher = build(fused_model, "none")
    joined, batcher = build(fused_model, "concat")
    without, inputs = (
        read_inputs(plain.encoder, plain_batcher(SENTENCES)),
        read_inputs(joined.encoder, batcher(SENTENCES)),
    )
    assert joined.encoder.input_dim == plain.encoder.input_dim + fused_model.context.dim
    torch.testing.assert_close(inputs[..., : fused_model.dim], without)
    for row, words in enumerate(SENTENCES):
        expected = torch.from_numpy(fused_model.context_vectors([list(words)])[0])
        torch.testing.assert_close(inputs[row, : len(words), fused_model.dim :], expected, atol=1e-3, rtol=0)


def test_no_gradient_reaches_the_model(fused_model):
    network, batcher = build(fused_model, "concat")
    batch = batcher(SENTENCES)
    network.encoder(batch).sum().backward()
    assert not batch.layers.requires_grad and not batch.context.requires_grad


def test_a_task_with_contexts_learns_is_saved_and_measures_the_same(train_toy, fused_folder, tmp_path):
    folder, result = train_toy("tagging", inputs={"model": fused_folder}, elmo__context="concat")
    assert result.test["f1"] > 90
    assert load(folder).evaluate(tmp_path / "test.conll") == result.test
    described = json.loads((folder / "task.json").read_text())
    assert described["settings"]["elmo"]["context"] == "concat"
    assert described["bilm"]["context_dim"] == Elmo.from_pretrained(fused_folder).context.dim


def test_another_context_layer_is_refused(train_toy, fused_folder, fused_model, tmp_path):
    folder, _ = train_toy("tagging", inputs={"model": fused_folder}, elmo__context="concat", fit__num_epochs=1)
    layer = fused_model.checkpoint().context
    halved = {**layer.arrays, "weights": layer.arrays["weights"] / 2}
    checkpoint = dataclasses.replace(fused_model.checkpoint(), context=dataclasses.replace(layer, arrays=halved))
    Elmo(checkpoint).save_pretrained(tmp_path / "other")
    with pytest.raises(CheckpointError, match="was trained with another context layer than .*other has"):
        load(folder, bilm=tmp_path / "other")


def test_a_model_without_a_context_layer_is_refused(train_toy, tmp_path):
    with pytest.raises(InputError, match="the model has no context layer"):
        train_toy("tagging", elmo__context="concat")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"elmo.context": "concat", "elmo.tune": True}, "which needs a frozen biLM"),
        ({"elmo.context": "concat", "elmo.where": "none"}, "which needs a frozen biLM"),
        ({"elmo.context": "sum"}, "'none', 'concat'"),
    ],
)
def test_settings_that_cannot_use_contexts_are_refused(changes, message):
    with pytest.raises(ConfigError) as caught:
        make_settings("tagging", changes)
    assert message in str(caught.value)


def test_stores_with_and_without_contexts_are_separate(fused_model, tmp_path):
    for with_context in (False, True):
        store = LayerStore(fused_model, tmp_path, with_context=with_context)
        store.add(SENTENCES)
        for words, expected in zip(
            SENTENCES, compute_layers(fused_model, SENTENCES, with_context=with_context), strict=True
        ):
            np.testing.assert_array_equal(store[words], expected)
    assert len(list(tmp_path.glob("*.sqlite"))) == 2
