"""Models of bilm-tf and AllenNLP: all options are read, and exported files can be read again."""

import gzip
import json

import h5py
import numpy as np
import pytest

from elmo import CheckpointError, Elmo
from elmo.checkpoint.folder import write_folder
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.checkpoint.open import open_checkpoint
from elmo.files import durable

from .bilm_files import NumpyBilm, cell_name, make_options, make_variables, write_model

SENTENCES = [
    ["The", "bank", "raised", "interest", "rates", "."],
    ["x"],
    ["naïve", "日本語", "", "<S>x", "a" * 60, "é" * 30],
    [],
    ["word"] * 9,
]
VARIANTS = {
    "as the official ones": {},
    "tanh": {"activation": "tanh"},
    "no residual": {"skip": False},
    "no clipping": {"clips": (None, None)},
    "one layer": {"num_layers": 1},
    "three layers": {"num_layers": 3},
    "no projection of the cells": {"dim": 6, "projection": 6},
    "one layer without projection": {"dim": 6, "projection": 6, "num_layers": 1},
    "no highways": {"num_highways": 0},
    "highways not mentioned": {"num_highways": None},
    "filters equal to the projection": {"projection": 11},
    "261 characters stated": {"num_characters": 261},
    "shorter words": {"max_characters": 12},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_vectors_are_those_of_the_description(tmp_path, variant):
    options = make_options(**variant)
    variables = make_variables(options)
    model = Elmo.from_pretrained(write_model(tmp_path, options, variables))
    reference = NumpyBilm(options, variables)
    for words, actual in zip(SENTENCES, model.embed(SENTENCES, layers="all"), strict=True):
        np.testing.assert_allclose(actual, reference.embed(words), atol=1e-5)


def test_carried_state_follows_each_row(tmp_path):
    options = make_options()
    variables = make_variables(options)
    model = Elmo.from_pretrained(write_model(tmp_path, options, variables), state="carry")
    rows = [NumpyBilm(options, variables) for _ in range(3)]
    for batch in ([["a", "b"], ["c"], ["d", "e", "f"]], [["g"]], [["h"], ["i", "j"], ["k"]]):
        expected = [row.embed(words, carry=True) for row, words in zip(rows, batch, strict=False)]
        for array, expected_array in zip(model.embed(batch, layers="all"), expected, strict=True):
            np.testing.assert_allclose(array, expected_array, atol=1e-5)


def test_a_model_of_whole_words_reads_its_vocabulary(tmp_path):
    vocabulary = ["<S>", "</S>", "<UNK>", "the", "bank"]
    options = make_options(num_words=len(vocabulary))
    variables = make_variables(options)
    model = Elmo.from_pretrained(write_model(tmp_path, options, variables, vocabulary))
    words = ["the", "unseen", "bank", "<S>"]
    # In our own interface no text makes a boundary: the literal <S> is an unknown word.
    expected = NumpyBilm(options, variables, vocabulary).embed(["the", "unseen", "bank", "<UNK>"])
    np.testing.assert_allclose(model.embed([words], layers="all")[0], expected, atol=1e-5)


def test_a_word_level_model_finds_its_cached_vectors(tmp_path):
    vocabulary = ["<S>", "</S>", "<UNK>", "the"]
    options = make_options(num_words=len(vocabulary))
    variables = make_variables(options)
    model = Elmo.from_pretrained(write_model(tmp_path / "one", options, variables, vocabulary))
    table = variables.pop("embedding")
    write_model(tmp_path / "two", options, variables, vocabulary)
    with h5py.File(tmp_path / "two" / "embeddings.hdf5", "w") as file:
        file["embedding"] = table
    split = Elmo.from_pretrained(tmp_path / "two")
    np.testing.assert_array_equal(model.embed([["the", "x"]])[0], split.embed([["the", "x"]])[0])


def test_one_layer_models_named_like_deeper_ones_are_read(tmp_path):
    options = make_options(num_layers=1)
    variables = make_variables(options)
    plain = Elmo.from_pretrained(write_model(tmp_path / "plain", options, variables))
    renamed = {name.replace("RNN/LSTM", "RNN/MultiRNNCell/Cell0/LSTM"): value for name, value in variables.items()}
    stacked = Elmo.from_pretrained(write_model(tmp_path / "stacked", options, renamed))
    np.testing.assert_array_equal(plain.embed("a b"), stacked.embed("a b"))


def test_a_table_of_262_characters_loses_its_unused_last_row(tmp_path):
    options = make_options()
    variables = make_variables(options)
    plain = Elmo.from_pretrained(write_model(tmp_path / "plain", options, variables))
    variables["char_embed"] = np.concatenate([variables["char_embed"], np.full((1, 4), 9, np.float32)])
    longer = Elmo.from_pretrained(write_model(tmp_path / "longer", options, variables))
    np.testing.assert_array_equal(plain.embed("a b"), longer.embed("a b"))


@pytest.mark.parametrize(("name", "length"), [("char_embed", 300), ("CNN/W_cnn_0", 2)])
def test_data_that_would_be_dropped_is_an_error(tmp_path, name, length):
    options = make_options()
    variables = make_variables(options)
    variables[name] = np.resize(variables[name], (length, *variables[name].shape[1:]))
    with pytest.raises(CheckpointError, match="has shape"):
        Elmo.from_pretrained(write_model(tmp_path, options, variables))


def test_null_highways_and_skip_connections_are_none(tmp_path):
    options = make_options(num_highways=0)
    variables = make_variables(options)
    options["char_cnn"]["n_highway"] = options["lstm"]["use_skip_connections"] = None
    assert not Elmo.from_pretrained(write_model(tmp_path, options, variables)).config.encoder.residual


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_import_export_import_keeps_every_bit(tmp_path, variant):
    options = make_options(**variant)
    write_model(tmp_path / "first", options, make_variables(options), ["<S>", "</S>", "<UNK>", "the"])
    first = open_checkpoint(tmp_path / "first")
    write_folder(first, tmp_path / "ours")
    ours = open_checkpoint(tmp_path / "ours")
    write_hdf5(ours, tmp_path / "second")
    second = open_checkpoint(tmp_path / "second")
    assert first.config == ours.config == second.config
    assert first.vocabulary == ours.vocabulary == second.vocabulary
    for name, tensor in first.weights.items():
        assert np.array_equal(tensor, ours.weights[name]) and np.array_equal(tensor, second.weights[name]), name


def test_the_exported_file_equals_the_imported_one(tmp_path):
    options = make_options(num_layers=1)
    variables = make_variables(options)
    write_hdf5(open_checkpoint(write_model(tmp_path / "in", options, variables)), tmp_path / "out")
    with h5py.File(tmp_path / "out" / "weights.hdf5") as file:
        for name, value in variables.items():
            np.testing.assert_array_equal(file[name][...], value)
    exported = json.loads((tmp_path / "out" / "options.json").read_text())
    assert exported["char_cnn"] == options["char_cnn"]
    assert exported["lstm"] == options["lstm"]


def test_a_gzipped_vocabulary_is_read(tmp_path):
    options = make_options()
    write_model(tmp_path, options, make_variables(options))
    (tmp_path / "vocab.txt.gz").write_bytes(gzip.compress("<S>\n</S>\n<UNK>\nnaïve\n".encode()))
    assert open_checkpoint(tmp_path).vocabulary == ("<S>", "</S>", "<UNK>", "naïve")


def test_shapes_that_contradict_the_options_are_all_named(tmp_path):
    options = make_options()
    variables = make_variables(options)
    name = f"{cell_name(options, 0, 1)}/W_0"
    variables[name] = variables[name][:-2]
    del variables["CNN_proj/W_proj"]
    with pytest.raises(CheckpointError) as caught:
        Elmo.from_pretrained(write_model(tmp_path, options, variables))
    message = str(caught.value)
    assert "left_to_right.layers.1.state_weight has shape (40, 5), the configuration needs (40, 6)" in message
    assert "tokens.projection.weight is missing" in message
    assert "use files of one model" in message


def test_nan_weights_are_refused(tmp_path):
    options = make_options()
    variables = make_variables(options)
    variables["CNN_proj/b_proj"][2] = np.nan
    with pytest.raises(CheckpointError, match=r"make vectors overflow: tokens.projection.bias \(nan\)"):
        Elmo.from_pretrained(write_model(tmp_path, options, variables))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lstm": {"dim": 4}}, "'projection_dim' is missing"),
        ({"lstm": {"dim": "4", "projection_dim": 2}}, "encoder.cell_dim is '4'"),
        ({"char_cnn": {"filters": [[1, 2]]}}, "'embedding' is missing"),
        ({"bidirectional": False}, "'bidirectional' is false"),
        ({"char_cnn": {**make_options()["char_cnn"], "n_characters": 300}}, "'n_characters' is 300"),
    ],
)
def test_options_that_describe_no_model_are_explained(tmp_path, change, message):
    options = make_options()
    write_model(tmp_path, {**options, **change}, make_variables(options))
    with pytest.raises(CheckpointError, match="options.json does not describe an ELMo model: .*") as caught:
        Elmo.from_pretrained(tmp_path)
    assert message in str(caught.value)


def test_truncated_and_foreign_files_are_explained(tmp_path):
    options = make_options()
    folder = write_model(tmp_path, options, make_variables(options))
    whole = (folder / "weights.hdf5").read_bytes()
    for content in (whole[: len(whole) // 2], b"<html>not found</html>", b""):
        (folder / "weights.hdf5").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"weights.hdf5 is not a complete HDF5 file"):
            Elmo.from_pretrained(folder)
    with h5py.File(folder / "weights.hdf5", "w") as file:
        file["something"] = np.zeros(3)
    with pytest.raises(CheckpointError, match="without RNN_0, so it holds no ELMo weights"):
        Elmo.from_pretrained(folder)
    (folder / "options.json").write_text('{"lstm": ')
    with pytest.raises(CheckpointError, match=r"options.json is not valid JSON"):
        Elmo.from_pretrained(folder)


def test_a_vocabulary_of_another_model_is_refused(tmp_path):
    options = make_options(num_words=5)
    write_model(tmp_path, options, make_variables(options), ["<S>", "</S>", "<UNK>"])
    with pytest.raises(CheckpointError, match="The vocabulary has 3 words but the weights have 5"):
        Elmo.from_pretrained(tmp_path)


def test_a_word_model_without_vocabulary_is_refused(tmp_path):
    options = make_options(num_words=5)
    write_model(tmp_path, options, make_variables(options))
    with pytest.raises(CheckpointError, match="reads whole words, so it needs its vocabulary"):
        Elmo.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("variant", "stated", "left_over"),
    [
        ({}, {"num_layers": 1}, "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B"),
        ({}, {"num_highways": 0}, "CNN_high_0/W_carry"),
        ({"num_highways": 2}, {"num_highways": 1}, "CNN_high_1/W_carry"),
        ({}, {"filters": ((1, 3), (2, 8))}, "CNN/W_cnn_2"),
        ({"num_words": 4}, {"num_layers": 1, "num_words": 4}, "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_0"),
    ],
)
def test_variables_the_options_do_not_ask_for_are_named(tmp_path, variant, stated, left_over):
    variables = make_variables(make_options(**variant))
    write_model(tmp_path, make_options(**stated), variables, ["<S>", "</S>", "<UNK>", "the"])
    with pytest.raises(CheckpointError, match="weights.hdf5 do not fit its settings: ") as caught:
        Elmo.from_pretrained(tmp_path)
    assert f"{left_over} is in the file, but not in the settings" in str(caught.value)


def test_word_vectors_with_a_character_network_are_an_error(tmp_path):
    options = make_options()
    variables = {**make_variables(options), "embedding": np.zeros((3, 6), np.float32)}
    with pytest.raises(CheckpointError, match="embedding is in the file, but not in the settings"):
        Elmo.from_pretrained(write_model(tmp_path, options, variables))


def test_a_softmax_and_notes_in_the_file_are_no_contradiction(tmp_path):
    options = make_options()
    extra = {"softmax/W": np.zeros((3, 6), np.float32), "softmax/b": np.zeros(3, np.float32), "note": np.zeros(1)}
    write_model(tmp_path, options, {**make_variables(options), **extra})
    assert Elmo.from_pretrained(tmp_path).num_layers == 3


def test_a_model_saved_for_the_old_programs_is_a_whole_folder(tiny_model, tmp_path, monkeypatch):
    tiny_model.save_pretrained(tmp_path / "new" / "model", format="hdf5")
    assert sorted(path.name for path in (tmp_path / "new" / "model").iterdir()) == ["options.json", "weights.hdf5"]
    opened = Elmo.from_pretrained(tmp_path / "new" / "model")
    np.testing.assert_array_equal(opened.embed("a b"), tiny_model.embed("a b"))

    def no_space(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "sync", no_space)
    before = (tmp_path / "new" / "model" / "weights.hdf5").read_bytes()
    for name in ("model", "other"):
        with pytest.raises(CheckpointError, match=r"could not be saved to .*: .*No space left on device"):
            tiny_model.save_pretrained(tmp_path / "new" / name, format="hdf5")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model"]
    assert len(list((tmp_path / "new" / "model").iterdir())) == 2
    assert (tmp_path / "new" / "model" / "weights.hdf5").read_bytes() == before
