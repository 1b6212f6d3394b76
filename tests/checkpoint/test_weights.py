"""Weights as arrays: memory-mapped, converted on access, checked on first use, and limited in size."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from elmo import CheckpointError, Elmo
from elmo.checkpoint import write_folder
from elmo.checkpoint.components import SentenceHead, expected_arrays
from elmo.checkpoint.folder import read_folder
from elmo.checkpoint.shapes import expected_shapes
from elmo.checkpoint.source import DEFAULT_MODEL
from elmo.checkpoint.tensors import read_tensors
from elmo.checkpoint.weights import StoredWeights, content_hash, convert_weights
from elmo.config import ModelConfig, SentenceConfig
from tests.language_models import make_language_model

CONFIGS = [
    {"encoder": {"cell_dim": 6, "output_dim": 4, "projected": True}, "softmax": {"num_words": 9, "shared": False}},
    {"encoder": {"cell_dim": 4, "output_dim": 4, "projected": False, "num_layers": 3},
     "characters": {"filters": [[1, 4]], "num_highways": 0}, "token_projection": False},
    {"encoder": {"kind": "transformer", "output_dim": 8, "num_heads": 2, "feed_forward_dim": 12},
     "words": {"num_words": 9, "embedding_dim": 3}, "softmax": {"num_words": 9}},
]  # fmt: skip


@pytest.mark.parametrize("values", CONFIGS)
def test_shapes_are_those_of_the_modules(values):
    torch = pytest.importorskip("torch")
    from elmo.nn.build import build_bilm

    config = ModelConfig.from_dict(values)
    with torch.device("meta"):
        modules = build_bilm(config).state_dict()
    assert expected_shapes(config) == {name: tuple(tensor.shape) for name, tensor in modules.items()}


def test_a_stored_weight_is_converted_once_and_freed():
    weights = {"softmax.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.ones(2, np.float32)}
    stored = StoredWeights(convert_weights(weights, "compact"))
    assert stored.storage == "compact" and dict(stored.shapes) == {"softmax.weight": (2, 3), "bias": (2,)}
    first = stored["softmax.weight"]
    assert first is stored["softmax.weight"] and not first.flags.writeable
    np.testing.assert_allclose(first, weights["softmax.weight"], atol=0.03)
    assert copy.deepcopy(stored) is stored
    assert content_hash(pickle.loads(pickle.dumps(stored))) == content_hash(stored)
    with pytest.raises(KeyError):
        stored["softmax.weight.scale"]


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_weights_that_are_not_finite_or_would_overflow_are_reported_at_their_first_use(tmp_path, value):
    checkpoint = make_language_model().checkpoint()
    bias = checkpoint.weights["softmax.bias"].copy()
    bias[1] = value
    with pytest.raises(CheckpointError, match=r"softmax\.bias"):
        replace(checkpoint, weights={**checkpoint.weights, "softmax.bias": bias})
    write_folder(checkpoint, tmp_path / "model")
    path = tmp_path / "model" / "weights.safetensors"
    content, place = path.read_bytes(), checkpoint.weights["softmax.bias"].tobytes()
    assert content.count(place) == 1
    path.write_bytes(content.replace(place, bias.tobytes()))
    opened = read_folder(tmp_path / "model")
    assert opened.weights["tokens.projection.bias"].size
    with pytest.raises(CheckpointError, match=r"softmax\.bias"):
        opened.weights["softmax.bias"]


def test_damaged_safetensors_files_are_refused(tmp_path):
    write_folder(make_language_model().checkpoint(), tmp_path / "model")
    content = (tmp_path / "model" / "weights.safetensors").read_bytes()
    path = tmp_path / "damaged"
    for damaged in (
        b"", content[:7], content[:100], content[:-1], content + b"x", (2**40).to_bytes(8, "little") + content[8:],
        content.replace(b'"F32"', b'"F99"'), content.replace(b'"data_offsets":[0', b'"data_offsets":[4'),
        content.replace(b'"shape":[', b'"shape":[-', 1), b"\2\0\0\0\0\0\0\0[]",
    ):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="is damaged or not a supported safetensors file"):
            read_tensors(path)


def test_a_sentence_head_is_saved_and_checked_like_every_component(tmp_path):
    checkpoint = make_language_model().checkpoint()
    config = SentenceConfig(dim=5, num_heads=2)
    draw = np.random.default_rng(0)
    types = expected_arrays(config, checkpoint.config, 0)
    arrays = {name: draw.random(shape, dtype=np.float32) for name, shape in types.items()}
    head = SentenceHead(config, arrays)
    write_folder(replace(checkpoint, sentence=head), tmp_path / "model")
    opened = read_folder(tmp_path / "model").sentence
    assert opened is not None and opened.config == config and opened.content_hash() == head.content_hash()
    with pytest.raises(CheckpointError, match="The arrays of the sentence head do not fit its settings"):
        replace(checkpoint, sentence=replace(head, config=SentenceConfig(dim=6, num_heads=2)))
    name = next(iter(arrays))
    with pytest.raises(CheckpointError, match="The sentence head has values that are not numbers"):
        replace(checkpoint, sentence=replace(head, arrays={**arrays, name: arrays[name] * np.nan}))


def test_an_exchanged_list_is_noticed(tmp_path):
    checkpoint = replace(make_language_model().checkpoint(), aliases={"x": "bank"})
    write_folder(checkpoint, tmp_path / "model")
    for name in ("vocabulary.txt", "aliases.txt"):
        path = tmp_path / "model" / name
        before = path.read_bytes()
        path.write_bytes(before.replace(b"bank", b"bans"))
        with pytest.raises(CheckpointError, match=rf"{name} does not belong to the config.json next to it"):
            read_folder(tmp_path / "model")
        path.write_bytes(before)
    assert read_folder(tmp_path / "model").aliases == {"x": "bank"}


def test_models_of_the_last_version_open():
    assert Elmo.from_pretrained(DEFAULT_MODEL).checkpoint().storage == "compact"
