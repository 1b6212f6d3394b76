"""The context layer of a model in pooled classifiers, and what a task records of it."""

import dataclasses
import json

import numpy as np
import pytest

from elmo import CheckpointError, Elmo
from elmo.tasks import load
from elmo.tasks.layer_store import LayerStore, compute_layers

SENTENCES = [("the", "river", "bank"), ("the", "bank"), ()]


@pytest.fixture
def fused_folder(fused_model, tmp_path):
    fused_model.save_pretrained(tmp_path / "fused")
    return tmp_path / "fused"


def test_a_pooled_task_uses_the_context_layer_and_measures_the_same(train_toy, fused_folder, tmp_path):
    folder, result = train_toy("classification", inputs={"model": fused_folder}, network__kind="pooled")
    assert result.test["accuracy"] > 90
    assert load(folder).evaluate(tmp_path / "test.csv") == result.test
    described = json.loads((folder / "task.json").read_text())
    assert described["bilm"]["context_dim"] == Elmo.from_pretrained(fused_folder).context.dim


def test_another_context_layer_is_rejected(train_toy, fused_folder, fused_model, tmp_path):
    folder, _ = train_toy("classification", inputs={"model": fused_folder}, network__kind="pooled")
    layer = fused_model.checkpoint().context
    halved = {**layer.arrays, "weights": layer.arrays["weights"] / 2}
    checkpoint = dataclasses.replace(fused_model.checkpoint(), context=dataclasses.replace(layer, arrays=halved))
    Elmo(checkpoint).save_pretrained(tmp_path / "other")
    with pytest.raises(CheckpointError, match="was trained with a different context layer than its biLM has now"):
        load(folder, bilm=tmp_path / "other")


def test_stores_of_words_and_of_texts_are_separate(fused_model, tmp_path):
    for pooled in (False, True):
        store = LayerStore(fused_model, tmp_path, pooled=pooled)
        store.add(SENTENCES)
        for words, expected in zip(SENTENCES, compute_layers(fused_model, SENTENCES, pooled=pooled), strict=True):
            np.testing.assert_array_equal(store[words], expected)
    assert len(list(tmp_path.glob("*.sqlite"))) == 2
