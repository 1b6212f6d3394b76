"""What is asked for, what the machine has, and what is used then."""

import logging
import re

import pytest

from elmo import Elmo
from elmo.config import CharacterConfig, ModelConfig, TransformerConfig
from elmo.errors import ConfigError
from elmo.inference import precision
from elmo.inference.precision import choose_precision


@pytest.fixture
def machine(monkeypatch):
    """Says what the machine supports."""

    def has(*names):
        monkeypatch.setattr(precision, "is_supported", lambda name: name in names)

    return has


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8"])
def test_what_the_machine_has_is_used_without_a_word(machine, caplog, name):
    machine("bfloat16", "int8")
    assert choose_precision(name, can_pack=True) == name
    assert not caplog.records


@pytest.mark.parametrize(
    ("supported", "chosen"),
    [(("int8", "bfloat16"), "int8"), (("bfloat16",), "bfloat16"), (("int8",), "int8"), ((), "float32")],
)
def test_auto_takes_the_fastest_there_is(machine, caplog, supported, chosen):
    machine(*supported)
    assert choose_precision("auto", can_pack=True) == chosen
    assert choose_precision("auto", can_pack=False) == "float32"
    assert not caplog.records


def test_a_precision_without_instructions_becomes_float32_with_one_line_in_the_log(machine, caplog):
    machine("int8")
    assert choose_precision("bfloat16", can_pack=True) == "float32"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and record.name.startswith("elmo.")
    assert record.getMessage() == (
        "The precision bfloat16 is not to be had here (this CPU has no instructions for it); float32 is used."
    )


def test_a_transformer_runs_in_float32_and_says_so(caplog):
    config = ModelConfig(
        encoder=TransformerConfig(num_layers=1, output_dim=4, num_heads=1, feed_forward_dim=4),
        characters=CharacterConfig(filters=((1, 3),), embedding_dim=2, num_highways=0),
    )
    model = Elmo(Elmo.from_config(config).checkpoint(), precision="int8")
    assert model.precision == "float32"
    (record,) = caplog.records
    assert record.getMessage() == (
        "The precision int8 is not to be had here (only LSTMs on a CPU can be run in it); float32 is used."
    )
    assert model.embed("a b").shape == (2, 8)


def test_an_unknown_precision_is_refused_with_the_known_ones():
    message = "The precision 'float8' is not known; choose one of auto, float32, bfloat16, int8."
    with pytest.raises(ConfigError, match="^" + re.escape(message) + "$"):
        choose_precision("float8", can_pack=True)
