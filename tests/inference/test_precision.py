"""Choice of the precision: explicit values, and "auto"."""

import logging

import numpy as np
import pytest

from elmo import Elmo
from elmo.errors import ConfigError
from elmo.inference import runtime as module
from elmo.inference.layers import cosine
from elmo.inference.runtime import (
    CHECK_SENTENCES,
    MIN_MEAN_COSINE,
    choose_precision,
    int8_preserves_vectors,
)
from elmo.inference.runtime import _compare_int8 as compare_int8
from elmo.kernels.library import find_library


def check_arguments(model):
    return model.config, model.checkpoint().weights, model._indexer


def test_an_unknown_precision_is_refused(tiny_model):
    with pytest.raises(ConfigError, match="precision is 'float8'"):
        Elmo(tiny_model.checkpoint(), precision="float8")


def test_bfloat16_needs_a_gpu(caplog):
    with caplog.at_level(logging.WARNING):
        assert choose_precision("bfloat16", check_int8=lambda: True).precision == "float32"
    assert "GPU" in caplog.text


@pytest.mark.parametrize("keeps", [True, False])
def test_auto_selects_int8_if_it_is_accurate(keeps, kernels, caplog):
    with caplog.at_level(logging.INFO):
        choice = choose_precision("auto", check_int8=lambda: keeps)
    expected = "int8" if keeps and kernels != "off" else "float32"
    assert choice.precision == expected
    assert ("too much" in caplog.text) == (kernels != "off" and not keeps)


def test_auto_checks_a_model_once_per_machine(tiny_model, monkeypatch, tmp_path):
    monkeypatch.setattr("elmo.model.int8_preserves_vectors", int8_preserves_vectors)  # other tests stay in float32
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    if find_library() is None:
        pytest.skip("without kernels auto is float32")
    checked = []

    def check(*arguments):
        checked.append(compare_int8(*arguments))
        return checked[-1]

    monkeypatch.setattr(module, "_compare_int8", check)
    models = [Elmo(tiny_model.checkpoint(), precision="auto") for _ in range(3)]
    assert {model.precision for model in models} == {
        "int8" if compare_int8(*check_arguments(tiny_model)) else "float32"
    }
    assert len(checked) == 1
    assert len(list((tmp_path / "precision").iterdir())) == 1


def test_a_model_that_int8_changes_too_much_fails_the_check(tiny_model, monkeypatch):
    monkeypatch.setattr(module, "MIN_MEAN_COSINE", 1.1)
    assert not compare_int8(*check_arguments(tiny_model))


@pytest.mark.filterwarnings("ignore::elmo.text.units.UnfamiliarScriptWarning")
@pytest.mark.parametrize("name", ["en-small", "zh-small"])
def test_8_bits_keep_the_vectors_of_the_packaged_models(name):
    """What from_pretrained relies on when it takes 8 bits for them without a check."""
    exact, rounded = (
        Elmo.from_pretrained(name, precision=precision).embed(CHECK_SENTENCES, layers="all")
        for precision in ("float32", "int8")
    )
    near = np.concatenate([cosine(*pair) for pair in zip(exact, rounded, strict=True)], axis=1)
    assert near.mean(axis=1).min() >= MIN_MEAN_COSINE
    assert Elmo.from_pretrained(name).precision == ("float32" if find_library() is None else "int8")
    assert module.MIN_MEAN_COSINE == 0.999
