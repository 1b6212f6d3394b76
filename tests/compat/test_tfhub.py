"""TensorFlow Hub's google/elmo module."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo import CheckpointError, InputError
from elmo.compat.tfhub import Module
from elmo.model import Elmo

TEXTS = ["the  bank of the river", "café\tbar", ""]
WORDS = [["the", "bank", "of", "the", "river"], ["café\tbar"], []]
TOKENS = {"tokens": [words + [""] * (6 - len(words)) for words in WORDS], "sequence_len": [5, 1, 0]}


def test_all_outputs_of_strings_split_on_spaces(tiny_folder: Path, tiny_model: Elmo):
    outputs = Module(tiny_folder)(TEXTS, as_dict=True)
    assert {name: tuple(tensor.shape) for name, tensor in outputs.items()} == {
        "word_emb": (3, 5, 6),
        "lstm_outputs1": (3, 5, 12),
        "lstm_outputs2": (3, 5, 12),
        "elmo": (3, 5, 12),
        "default": (3, 12),
        "sequence_len": (3,),
    }
    assert outputs["sequence_len"].tolist() == [5, 1, 0]
    for row, layers in enumerate(tiny_model.embed(WORDS, layers="all")):
        length = layers.shape[1]
        np.testing.assert_allclose(outputs["word_emb"][row, :length], layers[0][:, :6], atol=1e-6)
        np.testing.assert_allclose(outputs["lstm_outputs1"][row, :length], layers[1], atol=1e-6)
        np.testing.assert_allclose(outputs["lstm_outputs2"][row, :length], layers[2], atol=1e-6)
        np.testing.assert_allclose(outputs["elmo"][row, :length], layers.mean(axis=0), atol=1e-6)
        for name in ("word_emb", "lstm_outputs1", "lstm_outputs2", "elmo"):
            assert not outputs[name][row, length:].any()
    np.testing.assert_allclose(outputs["default"], tiny_model.encode(WORDS), atol=1e-6)


def test_without_as_dict_the_default_output_is_given(tiny_folder: Path):
    pooled = Module(tiny_folder)(TEXTS)
    torch.testing.assert_close(pooled, Module(tiny_folder)(TEXTS, as_dict=True)["default"])


@pytest.mark.parametrize("make", [lambda v: v, np.array, lambda v: np.array(v, dtype=object)])
def test_padded_tokens_give_the_same_as_strings_at_their_own_width(tiny_folder: Path, make):
    inputs = {"tokens": make(TOKENS["tokens"]), "sequence_len": np.array(TOKENS["sequence_len"])}
    by_tokens = Module(tiny_folder)(inputs, signature="tokens", as_dict=True)
    by_strings = Module(tiny_folder)(TEXTS, as_dict=True)
    assert by_tokens["elmo"].shape == (3, 6, 12)
    torch.testing.assert_close(by_tokens["elmo"][:, :5], by_strings["elmo"])
    torch.testing.assert_close(by_tokens["default"], by_strings["default"])
    assert by_tokens["sequence_len"].tolist() == [5, 1, 0]


@pytest.mark.parametrize("make", [list, np.array, lambda texts: np.array(texts, dtype=object), tuple])
def test_bytes_are_read_as_utf8(tiny_folder: Path, make):
    expected = Module(tiny_folder)(TEXTS)
    torch.testing.assert_close(Module(tiny_folder)(make([text.encode() for text in TEXTS])), expected)
    torch.testing.assert_close(Module(tiny_folder)(make(TEXTS)), expected)


@pytest.mark.parametrize("make", [np.array, lambda rows: [np.array(row) for row in rows], list])
def test_words_may_be_bytes_too(tiny_folder: Path, make):
    rows = [[word.encode() for word in row] for row in TOKENS["tokens"]]
    inputs = {"tokens": make(rows), "sequence_len": [np.int64(length) for length in TOKENS["sequence_len"]]}
    outputs = Module(tiny_folder)(inputs, signature="tokens")
    torch.testing.assert_close(outputs, Module(tiny_folder)(TOKENS, signature="tokens"))


def test_the_empty_word_within_the_length_is_a_word(tiny_folder: Path):
    outputs = Module(tiny_folder)({"tokens": [["a", ""]], "sequence_len": [2]}, "tokens", as_dict=True)
    assert outputs["elmo"][0, 1].any()


def test_trainable_means_the_mixing_weights_and_their_scale(tiny_folder: Path):
    module = Module(tiny_folder, trainable=True)
    assert sorted(tuple(parameter.shape) for parameter in module.parameters()) == [(), (3,)]
    for _ in range(2):
        module(TEXTS).square().sum().backward()
    assert all(parameter.grad.any() for parameter in module.parameters())
    outputs = module(TEXTS, as_dict=True)
    assert outputs["elmo"].requires_grad and not outputs["lstm_outputs1"].requires_grad


def test_not_trainable_means_no_gradients(tiny_folder: Path):
    module = Module(tiny_folder)
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert not any(tensor.requires_grad for tensor in module(TEXTS, as_dict=True).values())


def test_state_is_carried_by_default_and_only_then(tiny_folder: Path):
    carrying, fresh = Module(tiny_folder), Module(tiny_folder, stateful=False)
    first, second = carrying(TEXTS), carrying(TEXTS)
    assert not torch.allclose(first, second, atol=1e-4)
    torch.testing.assert_close(fresh(TEXTS), first)
    torch.testing.assert_close(fresh(TEXTS), first)
    carrying.reset_state()
    torch.testing.assert_close(carrying(TEXTS), first)


def test_state_dict_loads_back_and_copies_work(tiny_folder: Path):
    module, other = Module(tiny_folder, trainable=True), Module(tiny_folder)
    with torch.no_grad():
        module.mix.weights.copy_(torch.tensor([1.0, 2.0, 3.0]))
    assert set(module.state_dict()) == {"mix.weights", "mix.gamma"}
    other.load_state_dict(module.state_dict())
    expected = module(TEXTS)
    torch.testing.assert_close(other(TEXTS), expected)
    torch.testing.assert_close(copy.deepcopy(module)(TEXTS), expected)


def test_a_model_of_three_layers_has_as_many_outputs(tmp_path: Path, tiny_model: Elmo):
    config = tiny_model.config
    Elmo.from_config(replace(config, encoder=replace(config.encoder, num_layers=3))).save_pretrained(tmp_path)
    outputs = Module(tmp_path)(TEXTS, as_dict=True)
    assert [name for name in outputs if name.startswith("lstm")] == [
        "lstm_outputs1",
        "lstm_outputs2",
        "lstm_outputs3",
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_public_addresses_mean_the_original_model(cache_official, version):
    cache_official("original", "2x4096_512_2048cnn_2xhighway")
    assert Module(f"https://tfhub.dev/google/elmo/{version}")(["a"]).shape == (1, 12)


def test_other_addresses_are_refused():
    with pytest.raises(CheckpointError, match="https://tfhub.dev/google/nnlm/1 is not a public URL of ELMo"):
        Module("https://tfhub.dev/google/nnlm/1")


@pytest.mark.parametrize(
    ("inputs", "signature", "message"),
    [
        ("the bank", "default", "inputs is 'the bank'"),
        (TOKENS, "default", "the signature 'default' takes a list of strings"),
        ([], "default", "inputs is []; the signature 'default' takes a list of strings"),
        (["a"], "words", "signature is 'words'"),
        (["a"], "tokens", "inputs is ['a']"),
        ({"tokens": [["a"]]}, "tokens", "the signature 'tokens' takes lists of words and one length for each"),
        ({"tokens": [["a", 1]], "sequence_len": [2]}, "tokens", "Sentence 0 has 1 of type int at word 1"),
    ],
)
def test_wrong_inputs_are_refused(tiny_folder: Path, inputs, signature, message):
    with pytest.raises(InputError) as caught:
        Module(tiny_folder)(inputs, signature=signature)
    assert message in str(caught.value)
