"""Averages of models: all weights, shares, and rejection of different architectures."""

import numpy as np
import pytest

from elmo import Elmo, InputError
from elmo.checkpoint.derived import average
from elmo.checkpoint.folder import read_folder
from elmo.cli import main
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


def test_the_command(tmp_path, capsys):
    folders = [str(tmp_path / name) for name in ("one", "two")]
    for model, folder in zip(MODELS, folders, strict=False):
        model.save_pretrained(folder)
    arguments = ["average", *folders, "-o", str(tmp_path / "mean"), "--share", "1", "--share", "3"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"Wrote {tmp_path / 'mean'}, the mean of 2 models.\n"
    expected = average([model.checkpoint() for model in MODELS[:2]], [1, 3])
    for name, weight in read_folder(tmp_path / "mean").weights.items():
        np.testing.assert_allclose(weight, expected.weights[name], rtol=1e-5)
    assert Elmo.from_pretrained(tmp_path / "mean").embed("the bank").shape[0] == 2
    assert main(arguments) == 2
    assert "is not an empty folder" in capsys.readouterr().err


def test_the_mean_drops_the_context_layer_with_a_message(fused_model, tiny_model, tmp_path, capsys):
    assert average([fused_model.checkpoint(), tiny_model.checkpoint()]).context is None
    for name, model in (("fused", fused_model), ("plain", tiny_model)):
        model.save_pretrained(tmp_path / name)
    for pair in (("fused", "plain"), ("plain", "fused")):
        output = tmp_path / "-".join(pair)
        assert main(["average", *(str(tmp_path / name) for name in pair), "-o", str(output)]) == 0
        assert capsys.readouterr().out == (
            f"Wrote {output}, the mean of 2 models.\n"
            "It has no context layer, because those of the models do not fit it; add one with elmo fuse.\n"
        )
        assert Elmo.from_pretrained(output).context is None
