"""Vectors in another basis: they are multiplied, and what is predicted stays."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from elmo import Elmo, InputError
from elmo.checkpoint.derived import change_basis
from elmo.config import SoftmaxConfig, TransformerConfig
from tests.conftest import TINY_CONFIG
from tests.language_models import VOCABULARY, language_config, make_language_model

SENTENCES = [["I", "went", "to", "the", "bank", "."], ["the", "river"]]


def make_matrix(dim, seed):
    """Return an invertible matrix that is far from a rotation."""
    generator = torch.Generator().manual_seed(seed)
    return torch.eye(dim) * torch.linspace(0.3, 1, dim) + 0.1 * torch.randn(dim, dim, generator=generator)


def models():
    checkpoint = make_language_model().checkpoint()
    bias = torch.linspace(-0.5, 0.5, checkpoint.config.encoder.output_dim)
    yield "shared", Elmo(replace(checkpoint, weights={**checkpoint.weights, "tokens.projection.bias": bias}))
    yield "words", make_language_model(reads_words=True)
    config = replace(language_config(), softmax=SoftmaxConfig(len(VOCABULARY), shared=False))
    yield "apart", Elmo.from_config(config, vocabulary=VOCABULARY, seed=4)
    encoder = replace(TINY_CONFIG.encoder, num_layers=3, residual=False)
    yield "plain", Elmo.from_config(replace(language_config(), encoder=encoder), vocabulary=VOCABULARY, seed=5)


@pytest.mark.parametrize("model", [pytest.param(model, id=name) for name, model in models()])
def test_vectors_are_multiplied_and_predictions_stay(model):
    dim = model.config.encoder.output_dim
    words, layers = make_matrix(dim, 1), make_matrix(dim, 2)
    changed = Elmo(change_basis(model.checkpoint(), words=words, layers=layers))
    for before, after in zip(
        model.embed(SENTENCES, layers="all"), changed.embed(SENTENCES, layers="all"), strict=True
    ):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            matrix = (layers if number else words).numpy()
            expected = np.concatenate([old[:, :dim] @ matrix, old[:, dim:] @ matrix], axis=1)
            np.testing.assert_allclose(new, expected, rtol=1e-3, atol=2e-5 * np.abs(expected).max())
            assert np.abs(new - old).max() > 0.1 * np.abs(old).max()
    for before, after in zip(model.score(SENTENCES), changed.score(SENTENCES), strict=True):
        np.testing.assert_allclose(after.left_to_right, before.left_to_right, atol=2e-4)
        np.testing.assert_allclose(after.right_to_left, before.right_to_left, atol=2e-4)
    assert changed.config == model.config


def test_types_and_what_is_not_about_vectors_stay():
    checkpoint = make_language_model().checkpoint()
    dim = checkpoint.config.encoder.output_dim
    checkpoint = replace(
        checkpoint, weights={**checkpoint.weights, "tokens.projection.bias": torch.linspace(1, 2, dim)}
    )
    changed = change_basis(checkpoint, words=make_matrix(dim, 1), layers=make_matrix(dim, 2))
    assert {name: weight.dtype for name, weight in changed.weights.items()} == {
        name: weight.dtype for name, weight in checkpoint.weights.items()
    }
    same = {name for name, weight in checkpoint.weights.items() if torch.equal(weight, changed.weights[name])}
    assert same == {name for name in checkpoint.weights if name.startswith("tokens.characters.")} | {
        f"{direction}.layers.{number}.bias"
        for direction in ("left_to_right", "right_to_left")
        for number in (0, 1)
    } | {"softmax.bias"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            replace(TINY_CONFIG, encoder=TransformerConfig(num_layers=1, output_dim=8, num_heads=2)),
            "This model has Transformers, whose vectors cannot be multiplied without changing its predictions",
        ),
        (
            replace(TINY_CONFIG, encoder=replace(TINY_CONFIG.encoder, projected=False, cell_dim=8, output_dim=8)),
            "This model has LSTMs without a projection",
        ),
    ],
    ids=["transformer", "unprojected"],
)
def test_models_that_have_no_other_basis_are_refused(config, message):
    model = Elmo.from_config(config)
    with pytest.raises(InputError, match=message):
        change_basis(model.checkpoint(), words=torch.eye(8), layers=torch.eye(8))
