"""The facade works with either encoder: vectors and scores, alone or in a batch."""

import json
from dataclasses import replace

import numpy as np
import pytest

from elmo import Elmo
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.config import SoftmaxConfig, TransformerConfig
from elmo.errors import CheckpointError
from tests.conftest import TINY_CONFIG
from tests.language_models import VOCABULARY, expected_log_probabilities, expected_targets

TRANSFORMER = TransformerConfig(num_layers=2, output_dim=8, num_heads=2, feed_forward_dim=16, context=4)
CONFIGS = {
    "lstm": replace(TINY_CONFIG, softmax=SoftmaxConfig(len(VOCABULARY))),
    "transformer": replace(TINY_CONFIG, encoder=TRANSFORMER, softmax=SoftmaxConfig(len(VOCABULARY))),
}
SENTENCES = [["I", "went", "to", "the", "bank"], ["river"], [], ["the", "money", "went", "to", "the", "river"] * 3]


@pytest.fixture(params=list(CONFIGS))
def model(request):
    return Elmo.from_config(CONFIGS[request.param], vocabulary=VOCABULARY, seed=1)


def test_a_saved_model_opens_as_the_same_model(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    opened = Elmo.from_pretrained(tmp_path / "model")
    assert opened.config == model.config
    for vectors, expected in zip(opened.embed(SENTENCES), model.embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(vectors, expected)


def test_a_sentence_has_the_same_vectors_alone_and_in_any_batch(model):
    together = model.embed(SENTENCES, layers="all")
    backwards = model.embed(SENTENCES[::-1], layers="all")[::-1]
    for sentence, vectors, turned in zip(SENTENCES, together, backwards, strict=True):
        alone = model.embed([sentence], layers="all")[0]
        assert vectors.shape == (3, len(sentence), model.dim)
        np.testing.assert_allclose(vectors, alone, atol=1e-5)
        np.testing.assert_allclose(vectors, turned, atol=1e-5)


def test_scores_are_the_softmax_of_the_states_that_have_not_seen_the_word(model):
    words = SENTENCES[0]
    (score,) = model.score([words])
    ahead, back = expected_log_probabilities(model, words)
    targets = expected_targets(words)
    np.testing.assert_allclose(score.left_to_right, ahead[range(5), targets], atol=1e-5)
    np.testing.assert_allclose(score.right_to_left, back[range(1, 6), targets], atol=1e-5)


def test_state_is_carried_between_calls_if_requested(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    carrying = Elmo.from_pretrained(tmp_path / "model", state="carry")
    first, second = (carrying.embed([SENTENCES[0]])[0] for _ in range(2))
    np.testing.assert_allclose(first, model.embed([SENTENCES[0]])[0], atol=1e-5)
    assert not np.allclose(first, second, atol=1e-3)
    carrying.embed(SENTENCES)  # more rows than before, then fewer
    carrying.embed(SENTENCES[:2])
    carrying.reset_state()
    np.testing.assert_allclose(carrying.embed([SENTENCES[0]])[0], first, atol=1e-5)


def test_a_folder_written_before_there_were_kinds_is_an_lstm(tmp_path):
    Elmo.from_config(CONFIGS["lstm"], vocabulary=VOCABULARY).save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    content = json.loads(path.read_text())
    assert content["model"]["encoder"].pop("kind") == "lstm"
    path.write_text(json.dumps(content))
    assert Elmo.from_pretrained(tmp_path / "model").config == CONFIGS["lstm"]


def test_weights_of_another_encoder_are_refused(tmp_path):
    checkpoint = Elmo.from_config(CONFIGS["lstm"], vocabulary=VOCABULARY).checkpoint()
    with pytest.raises(CheckpointError, match="left_to_right.layers.0.attention_norm.weight is missing"):
        replace(checkpoint, config=CONFIGS["transformer"])


def test_a_transformer_has_no_place_in_the_files_of_the_old_programs(tmp_path):
    model = Elmo.from_config(CONFIGS["transformer"], vocabulary=VOCABULARY)
    with pytest.raises(CheckpointError) as raised:
        write_hdf5(model.checkpoint(), tmp_path / "old")
    assert "cannot be written as bilm-tf HDF5: its encoder is a transformer, not an LSTM" in str(raised.value)
    assert not (tmp_path / "old").exists()
