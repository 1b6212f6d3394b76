"""Averages of models: all weights, shares, and rejection of different architectures."""

import numpy as np
import pytest

from elmo import InputError
from elmo.checkpoint.derived import average
from tests.language_models import VOCABULARY, make_language_model

MODELS = [make_language_model(seed=seed) for seed in (1, 2, 3)]


def test_every_weight_is_the_mean_of_all():
    found = average([model.checkpoint() for model in MODELS])
    for name, weight in found.weights.items():
        expected = np.stack([model.checkpoint().weights[name] for model in MODELS]).mean(axis=0)
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-7)
        assert weight.dtype == MODELS[0].checkpoint().weights[name].dtype
    assert found.vocabulary == VOCABULARY
    name = "left_to_right.layers.0.input_weight"
    shared = average([model.checkpoint() for model in MODELS[:2]], [3, 1]).weights[name]
    first, second = (model.checkpoint().weights[name] for model in MODELS[:2])
    np.testing.assert_allclose(shared, 0.75 * first + 0.25 * second, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("models", "shares", "message"),
    [
        (MODELS[:1], None, "1 shares were given for 1 models"),
        (MODELS[:2], [1.0], "1 shares were given for 2 models"),
        (MODELS[:2], [0.0, 0.0], "The shares are 0.0, 0.0"),
        (MODELS[:2], [2.0, -1.0], "The shares are 2.0, -1.0"),
        (
            [MODELS[0], make_language_model(reads_words=True)],
            None,
            "Model 2 and the first one differ in their settings or words",
        ),
        (
            [MODELS[0], make_language_model(VOCABULARY[::-1])],
            None,
            "Model 2 and the first one differ in their settings or words",
        ),
    ],
    ids=["one", "shares", "nothing", "negative", "settings", "vocabulary"],
)
def test_incompatible_models_are_rejected(models, shares, message):
    with pytest.raises(InputError, match=message):
        average([model.checkpoint() for model in models], shares)


def test_the_mean_has_no_context_layer(fused_model, tiny_model):
    assert average([fused_model.checkpoint(), tiny_model.checkpoint()]).context is None
