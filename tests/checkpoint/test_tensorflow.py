"""Training checkpoints of bilm-tf, written here by TensorFlow."""

import json
import os
import sys

import numpy as np
import pytest

from elmo import CheckpointError, ConfigError, Elmo
from elmo.checkpoint.open import open_checkpoint

from .bilm_files import NumpyBilm, make_options, make_variables, write_model

VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "bank"]
LEAVES = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}


@pytest.fixture(scope="module")
def tf():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return pytest.importorskip("tensorflow", reason="the extra modern-elmo[tensorflow] is not installed")


def their_name(name: str) -> str:
    """The name bilm-tf's training gives a variable of the HDF5 file."""
    if not name.startswith("RNN_"):
        return f"lm/{name}"
    *path, leaf = name.split("/")
    path = "/".join(path).replace("/RNN", "/rnn").replace("MultiRNNCell/Cell", "multi_rnn_cell/cell_")
    return f"lm/{path.replace('LSTMCell', 'lstm_cell')}/{LEAVES[leaf]}"


def save(tf, folder, variables, prefix="model.ckpt-7"):
    names = [their_name(name) for name in variables]
    tf.raw_ops.SaveV2(
        prefix=str(folder / prefix),
        tensor_names=[*names, *(f"{name}/Adagrad" for name in names), "global_step"],
        shape_and_slices=[""] * (2 * len(names) + 1),
        tensors=[*variables.values(), *variables.values(), np.int64(7)],
    )


def make(tf, folder, *, softmax=True, **variant):
    options = {**make_options(**variant), "n_tokens_vocab": len(VOCABULARY)}
    variables = make_variables(options)
    write_model(folder, options, variables, VOCABULARY)
    (folder / "weights.hdf5").rename(folder.parent / "weights.hdf5")
    if softmax:
        rng = np.random.default_rng(1)
        variables["softmax/W"] = rng.normal(size=(5, options["lstm"]["projection_dim"])).astype(np.float32)
        variables["softmax/b"] = rng.normal(size=5).astype(np.float32)
    save(tf, folder, variables)
    return options, variables


@pytest.mark.parametrize(
    "variant",
    [{}, {"num_layers": 1}, {"dim": 6, "projection": 6}, {"num_words": 5}],
    ids=["two layers", "one layer", "no projection", "words"],
)
def test_the_checkpoint_equals_its_hdf5_dump_and_brings_its_softmax(tf, tmp_path, variant):
    folder = tmp_path / "run"
    options, variables = make(tf, folder, **variant)
    checkpoint = open_checkpoint(folder)
    assert checkpoint.origin["format"] == "tensorflow"
    assert np.array_equal(checkpoint.weights["softmax.weight"], variables["softmax/W"])
    assert np.array_equal(checkpoint.weights["softmax.bias"], variables["softmax/b"])
    (tmp_path / "weights.hdf5").rename(folder / "weights.hdf5")
    dump = open_checkpoint(folder, format="hdf5")
    for name, tensor in dump.weights.items():
        assert np.array_equal(tensor, checkpoint.weights[name]), name
    expected = NumpyBilm(options, variables, VOCABULARY).embed(["the", "bank"])
    np.testing.assert_allclose(Elmo(checkpoint).embed([["the", "bank"]], layers="all")[0], expected, atol=1e-5)


def test_a_softmax_that_shares_the_word_vectors_is_found(tf, tmp_path):
    _, variables = make(tf, tmp_path / "run", num_words=5)
    variables.pop("softmax/W")
    save(tf, tmp_path / "run", variables)
    weights = open_checkpoint(tmp_path / "run").weights
    assert np.array_equal(weights["softmax.weight"], weights["tokens.words.weight"])


def test_the_softmax_survives_our_own_format(tf, tmp_path):
    make(tf, tmp_path / "run")
    model = Elmo.from_pretrained(tmp_path / "run")
    model.save_pretrained(tmp_path / "ours")
    ours = open_checkpoint(tmp_path / "ours")
    assert ours.config.softmax is not None and ours.config.softmax.num_words == 5
    assert np.array_equal(ours.weights["softmax.weight"], model.checkpoint().weights["softmax.weight"])
    assert ours.vocabulary == tuple(VOCABULARY)


def test_the_latest_of_several_checkpoints_is_the_one_recorded(tf, tmp_path):
    folder = tmp_path / "run"
    _, variables = make(tf, folder)
    changed = {**variables, "CNN_proj/b_proj": variables["CNN_proj/b_proj"] + 1}
    save(tf, folder, changed, prefix="model.ckpt-9")
    with pytest.raises(CheckpointError, match=r"several TensorFlow checkpoints \(model.ckpt-7, model.ckpt-9\)"):
        open_checkpoint(folder)
    (folder / "checkpoint").write_text('model_checkpoint_path: "/gone/run/model.ckpt-9"\n')
    assert open_checkpoint(folder).origin["source"] == "model.ckpt-9"
    for spelled in ("model.ckpt-7", "model.ckpt-7.index", "model.ckpt-7.data-00000-of-00001"):
        assert open_checkpoint(folder / spelled).origin["source"] == "model.ckpt-7"


def test_a_truncated_checkpoint_is_explained(tf, tmp_path):
    make(tf, tmp_path / "run")
    index = tmp_path / "run" / "model.ckpt-7.index"
    index.write_bytes(index.read_bytes()[:40])
    with pytest.raises(CheckpointError, match=r"model.ckpt-7 is not a complete TensorFlow checkpoint"):
        open_checkpoint(tmp_path / "run")
    make(tf, tmp_path / "other")
    data = tmp_path / "other" / "model.ckpt-7.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:40])
    with pytest.raises(CheckpointError, match=r"model.ckpt-7 is not a complete TensorFlow checkpoint"):
        open_checkpoint(tmp_path / "other")


def test_the_missing_extra_names_itself(tmp_path, monkeypatch):
    options = make_options()
    write_model(tmp_path, options, make_variables(options))
    (tmp_path / "model.ckpt-1.index").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ConfigError, match=r"pip install .*\[tensorflow\]"):
        open_checkpoint(tmp_path, format="tensorflow")


@pytest.mark.parametrize(
    ("stated", "left_over"),
    [
        ({"num_layers": 1}, "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B"),
        ({"num_highways": 0}, "CNN_high_0/W_carry"),
    ],
)
def test_variables_the_options_do_not_ask_for_are_named(tf, tmp_path, stated, left_over):
    make(tf, tmp_path / "run")
    options = {**make_options(**stated), "n_tokens_vocab": len(VOCABULARY)}
    (tmp_path / "run" / "options.json").write_text(json.dumps(options))
    with pytest.raises(CheckpointError, match="model.ckpt-7 do not fit its settings: ") as caught:
        open_checkpoint(tmp_path / "run")
    assert f"{left_over} is in the file, but not in the settings" in str(caught.value)
    assert "Adagrad" not in str(caught.value)
