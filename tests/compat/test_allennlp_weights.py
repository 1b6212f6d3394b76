"""State dicts that AllenNLP's Elmo saved."""

import copy
import io

import numpy as np
import pytest
import torch
from torch import nn

from elmo.compat.allennlp import Elmo, batch_to_ids
from elmo.model import Elmo as Model
from elmo.nn.build import to_tensors
from tests.conftest import TINY_CONFIG

from .conftest import WORDS

MIXES = [([0.5, -1.0, 2.0], 0.7), ([1.0, 0.0, 3.0], 1.5)]
VOCABULARY = ["", "the", "bank"]


def saved_mixes(mixes=MIXES, prefix=""):
    saved = {}
    for number, (weights, gamma) in enumerate(mixes):
        name = f"{prefix}scalar_mix_{number}"
        saved[f"{name}.gamma"] = torch.tensor([gamma])
        saved |= {f"{name}.scalar_parameters.{j}": torch.tensor([w]) for j, w in enumerate(weights)}
    return saved


def saved_bilm(model: Model, prefix=""):
    """The entries as AllenNLP 2.10.1 names, joins and signs them."""
    ours = to_tensors(model.checkpoint().weights)
    tokens, saved = "_token_embedder", {}
    saved[f"{tokens}._char_embedding_weights"] = ours["tokens.characters.embedding.weight"]
    for leaf in ("weight", "bias"):
        for number in range(3):
            saved[f"{tokens}.char_conv_{number}.{leaf}"] = ours[f"tokens.characters.convolutions.{number}.{leaf}"]
        highway = "tokens.characters.highways.0"
        saved[f"{tokens}._highways._layers.0.{leaf}"] = torch.cat(
            [ours[f"{highway}.transform.{leaf}"], -ours[f"{highway}.gate.{leaf}"]]
        )
        saved[f"{tokens}._projection.{leaf}"] = ours[f"tokens.projection.{leaf}"]
    for theirs, direction in (("forward", "left_to_right"), ("backward", "right_to_left")):
        for number in range(2):
            lstm, layer = f"_elmo_lstm.{theirs}_layer_{number}", f"{direction}.layers.{number}"
            saved[f"{lstm}.input_linearity.weight"] = ours[f"{layer}.input_weight"]
            saved[f"{lstm}.state_linearity.weight"] = ours[f"{layer}.state_weight"]
            bias = ours[f"{layer}.bias"]
            bias[12:24] += 1
            saved[f"{lstm}.state_linearity.bias"] = bias
            saved[f"{lstm}.state_projection.weight"] = ours[f"{layer}.projection_weight"]
    return {f"{prefix}_elmo_lstm.{name}": tensor for name, tensor in saved.items()}


@pytest.fixture(scope="module")
def tuned_model() -> Model:
    """What the tiny model may have become by training: all its weights differ."""
    model = Model.from_config(TINY_CONFIG, seed=5)
    weights = {
        name: weight + 0.05 * np.sin(np.arange(weight.size, dtype=np.float32)).reshape(weight.shape)
        for name, weight in model.checkpoint().weights.items()
    }
    weights["tokens.characters.embedding.weight"][0] = 0
    return model._with_weights(weights)


def mixed_by_hand(model: Model, number: int):
    weights, gamma = MIXES[number]
    shares = torch.softmax(torch.tensor(weights), dim=0)
    layers = torch.as_tensor(model.embed(WORDS[:1], layers="all")[0])
    return gamma * torch.tensordot(shares, layers, dims=1)


def test_mixes_that_allennlp_saved_are_loaded(tiny_files, tiny_model: Model):
    module = Elmo(*tiny_files, 2).eval()
    module.load_state_dict(saved_mixes())
    output = module(batch_to_ids(WORDS[:1]))["elmo_representations"]
    for number in range(2):
        torch.testing.assert_close(output[number][0], mixed_by_hand(tiny_model, number))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_the_bilm_that_allennlp_saved_is_loaded_too(tiny_files, tuned_model: Model, requires_grad):
    module = Elmo(*tiny_files, 2, requires_grad=requires_grad).eval()
    task = nn.ModuleDict({"embedder": nn.ModuleDict({"elmo": module}), "head": nn.Linear(2, 2)})
    saved = saved_mixes(prefix="embedder.elmo.") | saved_bilm(tuned_model, prefix="embedder.elmo.")
    saved |= {f"head.{name}": tensor for name, tensor in task["head"].state_dict().items()}
    kept = dict(saved)
    task.load_state_dict(saved)
    assert saved == kept  # the caller's dictionary is left alone
    output = module(batch_to_ids(WORDS[:1]))["elmo_representations"]
    for number in range(2):
        torch.testing.assert_close(output[number][0], mixed_by_hand(tuned_model, number), atol=1e-5, rtol=0)


def test_the_vectors_of_cached_words_are_computed_not_loaded(tiny_files, tuned_model: Model):
    module = Elmo(*tiny_files, 2, vocab_to_cache=VOCABULARY)
    words = {"_elmo_lstm._word_embedding.weight": torch.zeros(3, 6)}
    module.load_state_dict(saved_mixes() | saved_bilm(tuned_model) | words)
    by_words, by_characters = module.eval()(None, torch.tensor([[1, 2]])), Elmo(*tiny_files, 2).eval()
    by_characters.load_state_dict(saved_mixes() | saved_bilm(tuned_model))
    expected = by_characters(batch_to_ids([VOCABULARY[1:]]))
    for mix, expected_mix in zip(by_words["elmo_representations"], expected["elmo_representations"], strict=True):
        torch.testing.assert_close(mix, expected_mix)


def test_a_character_that_is_never_used_is_left_out(tiny_files, tuned_model: Model):
    module, saved = Elmo(*tiny_files, 1, requires_grad=True), saved_bilm(tuned_model)
    name = "_elmo_lstm._token_embedder._char_embedding_weights"
    wanted = saved[name]
    saved[name] = torch.cat([wanted, torch.ones(1, 4)])
    module.load_state_dict(saved_mixes(MIXES[:1]) | saved)
    assert torch.equal(module.get_parameter("bilm.tokens.characters.embedding.weight"), wanted)


def test_another_number_of_layers_is_refused(tiny_files):
    task = nn.ModuleDict({"elmo": Elmo(*tiny_files, 1)})
    with pytest.raises(RuntimeError, match=r"Unexpected key.*elmo.scalar_mix_0.scalar_parameters.0"):
        task.load_state_dict(saved_mixes([([1.0] * 2, 1.0)], "elmo."))


def test_unknown_and_missing_names_are_reported(tiny_files):
    with pytest.raises(RuntimeError, match=r"Unexpected key.*scalar_mix_1.gamma"):
        Elmo(*tiny_files, 1).load_state_dict(saved_mixes())
    with pytest.raises(RuntimeError, match=r"Unexpected key.*_elmo_lstm._word_embedding.weight"):
        Elmo(*tiny_files, 2).load_state_dict(saved_mixes() | {"_elmo_lstm._word_embedding.weight": torch.zeros(3, 6)})
    with pytest.raises(RuntimeError, match=r"Missing key.*bilm.tokens.projection.weight"):
        Elmo(*tiny_files, 2, requires_grad=True).load_state_dict(saved_mixes())


def test_the_mixes_of_a_copy_are_its_own(tiny_files):
    module = Elmo(*tiny_files, 1)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    for other in (copy.deepcopy(module), torch.load(file, weights_only=False)):
        with torch.no_grad():
            other.mixes[0].gamma.fill_(3.0)
        assert other.mixes[0].gamma == 3 and module.mixes[0].gamma == 1
        other.load_state_dict(saved_mixes(MIXES[:1]))
        assert other.mixes[0].gamma.item() == pytest.approx(0.7)
