"""Making, saving and opening an Elmo."""

import logging
import subprocess
import sys

import numpy as np
import pytest
import torch

import elmo
from elmo import ConfigError, Elmo, ElmoLayer
from elmo.checkpoint.source import installed_models
from elmo.config import EncoderConfig, ModelConfig, SoftmaxConfig, WordConfig

SENTENCES = ["the cat sat", ["語", "", "x" * 100], ""]


def assert_equal_bits(one, other):
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_saved_model_gives_the_same_vectors_bit_for_bit(own_model, tmp_path):
    own_model.save_pretrained(tmp_path / "model")
    opened = Elmo.from_pretrained(tmp_path / "model")
    assert opened.config == own_model.config
    assert_equal_bits(opened.embed(SENTENCES, layers="all"), own_model.embed(SENTENCES, layers="all"))


def test_a_model_with_a_vocabulary_survives_saving(tmp_path):
    config = ModelConfig(
        encoder=EncoderConfig(num_layers=1, cell_dim=4, output_dim=4, projected=False, cell_clip=None),
        characters=None,
        words=WordConfig(5, 3, max_word_length=4),
        softmax=SoftmaxConfig(5),
    )
    words = ["<S>", "</S>", "<UNK>", "the", "\u2028"]
    model = Elmo.from_config(config, vocabulary=words)
    model.save_pretrained(str(tmp_path / "model"))
    opened = Elmo.from_pretrained(str(tmp_path / "model"))
    assert opened.vocabulary.words == tuple(words)
    assert opened.config == config
    assert_equal_bits(opened.embed([["the", "\u2028", "?"]]), model.embed([["the", "\u2028", "?"]]))


def test_settings_of_opening_reach_the_model(tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path)
    opened = Elmo.from_pretrained(tmp_path, state="carry", device=torch.device("cpu"))
    opened.embed("a")
    opened.reset_state()
    with pytest.raises(ConfigError, match="precision is 'int3'"):
        Elmo.from_pretrained(tmp_path, precision="int3")
    with pytest.raises(ConfigError, match="device 'gpu' cannot be used"):
        Elmo.from_pretrained(tmp_path, device="gpu")


def test_training_an_opened_model_leaves_its_files_alone_until_it_is_saved(own_model, tmp_path):
    own_model.save_pretrained(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    opened = Elmo.from_pretrained(tmp_path / "model")
    layer = ElmoLayer(opened, tune_bilm=True)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    layer(["the cat sat"]).mixes[0].square().sum().backward()
    optimizer.step()
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
    assert_equal_bits(opened.embed(SENTENCES), own_model.embed(SENTENCES))  # the layer has weights of its own
    tuned = layer.to_elmo()
    trained = tuned.embed(SENTENCES)
    assert np.abs(trained[0] - own_model.embed(SENTENCES)[0]).max() > 1e-3
    tuned.save_pretrained(tmp_path / "model")
    for again, expected in zip(Elmo.from_pretrained(tmp_path / "model").embed(SENTENCES), trained, strict=True):
        np.testing.assert_allclose(again, expected, rtol=0, atol=1e-5)


def test_the_default_model_is_part_of_the_package_and_knows_money_from_rivers(caplog):
    with caplog.at_level(logging.WARNING):
        model = Elmo.from_pretrained()
    assert caplog.records == []
    money, cash = "I went to the [bank] to deposit money", "I deposited cash in the [bank]"
    river = "I sat by the [bank] of the river"
    assert model.similarity(money, cash) > max(model.similarity(each, river) for each in (money, cash)) + 0.03
    assert model.substitutes("the cat sat on the mat", 1)


def test_the_default_model_has_a_name_and_is_small():
    folder = installed_models()["en-small"]
    assert sum(file.stat().st_size for file in folder.iterdir()) < 40e6
    assert_equal_bits(Elmo.from_pretrained("en-small").embed(SENTENCES), Elmo.from_pretrained().embed(SENTENCES))


def test_a_folder_called_like_the_default_model_does_not_stand_in_its_way(tmp_path, monkeypatch, tiny_model):
    tiny_model.save_pretrained(tmp_path / "en-small")
    monkeypatch.chdir(tmp_path)
    assert Elmo.from_pretrained().config == Elmo.from_pretrained(installed_models()["en-small"]).config
    assert Elmo.from_pretrained("en-small").config == tiny_model.config


def test_opening_a_real_model_warns_of_nothing(tiny_model, tmp_path, caplog):
    tiny_model.save_pretrained(tmp_path)
    with caplog.at_level(logging.DEBUG, logger="elmo"):
        Elmo.from_pretrained(tmp_path)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(own_model):
    same, other = (Elmo.from_config(own_model.config, seed=seed) for seed in (0, 1))
    assert_equal_bits(same.embed(SENTENCES), own_model.embed(SENTENCES))
    assert np.abs(other.embed(SENTENCES)[0] - same.embed(SENTENCES)[0]).max() > 1e-2


def test_making_a_model_does_not_disturb_the_global_random_state(tiny_model):
    torch.manual_seed(7)
    np.random.seed(7)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(7)
    np.random.seed(7)
    Elmo.from_config(tiny_model.config, seed=3)
    assert torch.equal(torch.rand(3), expected[0])
    np.testing.assert_array_equal(np.random.rand(3), expected[1])


def test_the_weights_do_not_depend_on_the_global_random_state(own_model):
    torch.manual_seed(1234)
    again = Elmo.from_config(own_model.config)
    assert_equal_bits(again.embed(SENTENCES), own_model.embed(SENTENCES))


def test_the_repr_describes_the_model(tiny_model):
    assert (tiny_model.dim, tiny_model.num_layers, tiny_model.device) == (12, 3, "cpu")
    assert repr(tiny_model) == "Elmo('seed 0', 3 layers of 12, float32, cpu)"
    assert tiny_model.vocabulary is None


def test_importing_the_package_loads_no_torch_and_no_logging_handler():
    code = "import elmo, sys, logging; print('torch' in sys.modules, logging.getLogger('elmo').handlers)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False []"


def test_the_public_names_are_there_and_a_wrong_one_is_an_attribute_error():
    assert all(getattr(elmo, name) is not None for name in elmo.__all__)
    assert set(elmo.__all__) <= set(dir(elmo))
    with pytest.raises(AttributeError, match=r"^module 'elmo' has no attribute 'Elmoo'$"):
        elmo.Elmoo  # noqa: B018
