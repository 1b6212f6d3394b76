"""Models of ELMoForManyLangs: words, characters or both, unusual dictionaries, and invalid files."""

import pickle

import numpy as np
import pytest
import torch

from elmo import CheckpointError, Elmo
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.checkpoint.formats.manylangs import read_manylangs
from elmo.checkpoint.open import open_checkpoint

from .manylangs_files import NumpyManyLangs, make_settings, make_state_dicts, write_model

SENTENCES = [
    ["the", "bank", "unseen", "日本語"],
    ["\u2028", "\u0085", "\u3000", "a\tb"],
    ["x" * 70, "é" * 60, "", "我"],
    [],
]


@pytest.mark.parametrize(
    "variant",
    [{}, {"word_dim": 0}, {"char_dim": 0}, {"num_layers": 1}, {"num_layers": 3}, {"activation": "tanh"}],
    ids=["both", "characters only", "words only", "one layer", "three layers", "tanh"],
)
def test_vectors_are_those_of_the_description(tmp_path, variant):
    settings = make_settings(**variant)
    tokens, encoder = make_state_dicts(settings)
    model = Elmo.from_pretrained(write_model(tmp_path, settings, tokens, encoder))
    reference = NumpyManyLangs(settings, tokens, encoder)
    for words, actual in zip(SENTENCES, model.embed(SENTENCES, layers="all"), strict=True):
        np.testing.assert_allclose(actual, reference.embed(words), atol=1e-5)


def test_a_literal_boundary_is_an_ordinary_unknown_word(tmp_path):
    settings = make_settings(char_dim=0)
    model = Elmo.from_pretrained(write_model(tmp_path, settings, *make_state_dicts(settings)))
    spelled, unknown = model.embed([["the", "<bos>"], ["the", "unseen"]])
    np.testing.assert_allclose(spelled, unknown, atol=1e-6)


def test_the_model_saved_in_our_format_gives_the_same_vectors(tmp_path):
    settings = make_settings()
    model = Elmo.from_pretrained(write_model(tmp_path / "theirs", settings, *make_state_dicts(settings)))
    model.save_pretrained(tmp_path / "ours")
    again = Elmo.from_pretrained(tmp_path / "ours")
    for one, other in zip(model.embed(SENTENCES), again.embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(one, other)


def test_dictionaries_with_gaps_take_the_rows_they_name(tmp_path):
    settings = make_settings(char_dim=0)
    tokens, encoder = make_state_dicts(settings)
    folder = write_model(tmp_path, settings, tokens, encoder)
    (folder / "word.dic").write_text("<oov>\t0\n<pad>\t1\n<bos>\t2\n<eos>\t3\nbank\t9\n")
    weights = read_manylangs(folder).weights["tokens.words.weight"]
    assert np.array_equal(weights, tokens["word_emb_layer.embedding.weight"][[0, 1, 2, 3, 9]])


def test_published_settings_replace_a_missing_settings_file(tmp_path):
    settings = make_settings()
    folder = write_model(tmp_path, settings, *make_state_dicts(settings))
    (folder / "cnn_tiny.json").unlink()
    # The tiny weights cannot fit the published sizes; the message shows which sizes were taken.
    with pytest.raises(CheckpointError, match=r"convolutions.3.weight is missing"):
        Elmo.from_pretrained(folder)


def test_a_model_with_a_dictionary_alphabet_cannot_be_written_for_the_old_programs(tmp_path):
    settings = make_settings()
    folder = write_model(tmp_path / "in", settings, *make_state_dicts(settings))
    with pytest.raises(CheckpointError, match="cannot be written as bilm-tf HDF5: .*its characters come from a dict"):
        write_hdf5(open_checkpoint(folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


class _RunsOnLoading:
    def __reduce__(self):
        return print, ("this must never be printed",)


def test_a_pickle_that_would_run_code_is_not_opened(tmp_path, capsys):
    settings = make_settings()
    folder = write_model(tmp_path, settings, *make_state_dicts(settings))
    (folder / "encoder.pkl").write_bytes(pickle.dumps(_RunsOnLoading()))
    with pytest.raises(CheckpointError, match=r"encoder.pkl is not a torch file of plain tensors"):
        Elmo.from_pretrained(folder)
    assert "never" not in capsys.readouterr().out


def test_a_pickle_that_is_not_a_state_dict_is_refused(tmp_path):
    settings = make_settings()
    folder = write_model(tmp_path, settings, *make_state_dicts(settings))
    torch.save([torch.zeros(2)], folder / "token_embedder.pkl")
    with pytest.raises(CheckpointError, match=r"token_embedder.pkl holds a list; a state dict was expected"):
        Elmo.from_pretrained(folder)


def test_a_truncated_pickle_is_refused(tmp_path):
    settings = make_settings()
    folder = write_model(tmp_path, settings, *make_state_dicts(settings))
    content = (folder / "encoder.pkl").read_bytes()
    (folder / "encoder.pkl").write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="encoder.pkl is not a torch file of plain tensors"):
        Elmo.from_pretrained(folder)


def test_missing_weights_are_named(tmp_path):
    settings = make_settings()
    tokens, encoder = make_state_dicts(settings)
    del encoder["backward_layer_1.state_projection.weight"]
    with pytest.raises(CheckpointError, match=r"right_to_left.layers.1.projection_weight is missing"):
        Elmo.from_pretrained(write_model(tmp_path, settings, tokens, encoder))


def test_a_broken_dictionary_line_is_named(tmp_path):
    settings = make_settings()
    folder = write_model(tmp_path, settings, *make_state_dicts(settings))
    (folder / "word.dic").write_text("<oov>\t0\nno number here\n")
    with pytest.raises(CheckpointError, match="word.dic, line 2 is 'no number here'"):
        Elmo.from_pretrained(folder)
    (folder / "word.dic").write_text("<oov>\t0\n<pad>\t1\n<bos>\t2\n<eos>\t999\n")
    with pytest.raises(CheckpointError, match=r"word.dic, line 4"):
        Elmo.from_pretrained(folder)


@pytest.mark.parametrize(("section", "known"), [("encoder", "elmo"), ("token_embedder", "cnn")])
def test_other_networks_of_that_program_are_named(tmp_path, section, known):
    settings = make_settings()
    settings[section]["name"] = "lstm"
    folder = write_model(tmp_path, settings, *make_state_dicts(settings))
    with pytest.raises(CheckpointError, match=f"has the {section} 'lstm'"):
        Elmo.from_pretrained(folder)


@pytest.mark.parametrize(
    ("section", "name", "value", "left_over"),
    [
        ("encoder", "n_layers", 1, "backward_layer_1.input_linearity.weight"),
        ("token_embedder", "n_highway", 1, "highways._layers.1.bias"),
    ],
)
def test_weights_the_settings_do_not_ask_for_are_named(tmp_path, section, name, value, left_over):
    settings = make_settings()
    tokens, encoder = make_state_dicts(settings)
    settings[section][name] = value
    with pytest.raises(CheckpointError, match="do not fit its settings: ") as caught:
        Elmo.from_pretrained(write_model(tmp_path, settings, tokens, encoder))
    assert f"{left_over} is in the file, but not in the settings" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("word_emb_layer.embedding.weight", torch.zeros(11), "has shape (11,); it must be a matrix"),
        ("char_emb_layer.embedding.weight", torch.tensor(1.0), "has shape (); it must be a matrix"),
        (
            "highways._layers.0.bias",
            torch.zeros(1),
            "gate.bias has shape (1,), the configuration needs (9,)",
        ),
        ("highways._layers.0.bias", torch.tensor(1.0), "is damaged: highways._layers.0.bias has the shape ()"),
        (
            "projection.bias",
            torch.zeros(6).to_sparse(),
            "something other than a dense tensor of numbers under 'projection.bias'",
        ),
        ("projection.bias", torch.zeros(6, dtype=torch.complex64), "something other than a dense tensor of numbers"),
        (3, torch.zeros(6), "something other than a dense tensor of numbers under 3"),
    ],
)
def test_tensors_of_another_kind_are_named(tmp_path, name, tensor, message):
    settings = make_settings()
    tokens, encoder = make_state_dicts(settings)
    with pytest.raises(CheckpointError) as caught:
        Elmo.from_pretrained(write_model(tmp_path, settings, {**tokens, name: tensor}, encoder))
    assert message in str(caught.value)
