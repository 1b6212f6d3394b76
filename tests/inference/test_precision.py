"""What is asked for, what the machine has, and what is used then."""

import logging
import re

import pytest

from elmo import Elmo
from elmo.config import CharacterConfig, ModelConfig, TransformerConfig
from elmo.errors import ConfigError
from elmo.inference import precision
from elmo.inference.precision import choose_precision
from tests.conftest import list_variants

SMALL, LARGE = 10**5, 10**8  # weights of one direction


@pytest.fixture
def machine(monkeypatch):
    """Says what the machine supports."""

    def has(*names, kernels="off", vnni=False):
        monkeypatch.setenv("ELMO_KERNELS", kernels)
        monkeypatch.setattr(precision, "is_supported", lambda name: name in names)
        monkeypatch.setattr(precision, "multiplies_bytes_exactly", lambda: vnni)

    return has


def choose(asked, *, can_pack=True, num_weights=SMALL):
    return choose_precision(asked, can_pack=can_pack, num_weights=num_weights)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8"])
def test_what_the_machine_has_is_used_without_a_word(machine, caplog, name):
    machine("bfloat16", "int8")
    assert choose(name).precision == name
    assert choose(name).reason == "as asked for"
    assert not caplog.records


@pytest.mark.parametrize(
    ("supported", "vnni", "small", "large"),
    [
        (("int8", "bfloat16"), True, "int8", "int8"),
        (("int8",), False, "float32", "int8"),  # torch's 8 bits are slower than float32 for a small model
        (("bfloat16",), False, "float32", "float32"),
        ((), False, "float32", "float32"),
    ],
)
def test_auto_takes_what_is_fastest_in_torch_for_the_size(machine, caplog, supported, vnni, small, large):
    machine(*supported, vnni=vnni)
    assert choose("auto").precision == small
    assert choose("auto", num_weights=LARGE).precision == large
    assert choose("auto", can_pack=False, num_weights=LARGE).precision == "float32"
    assert not caplog.records


@pytest.mark.parametrize("variant", list_variants())
def test_auto_takes_8_bits_where_the_kernels_have_instructions_for_them(machine, variant):
    machine("int8", kernels=variant)
    choice = choose("auto")
    assert choice.precision == ("float32" if variant == "portable" else "int8")
    assert variant in choice.reason


def test_a_precision_without_instructions_becomes_float32_with_one_line_in_the_log(machine, caplog):
    machine("int8")
    assert choose("bfloat16").precision == "float32"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and record.name.startswith("elmo.")
    assert record.getMessage() == (
        "The precision bfloat16 is not available here (this CPU has no instructions for it); float32 is used."
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
        "The precision int8 is not available here (only LSTMs on a CPU run in it); float32 is used."
    )
    assert model.embed("a b").shape == (2, 8)


def test_an_unknown_precision_is_refused_with_the_known_ones():
    message = "The precision 'float8' is not known; choose one of auto, float32, bfloat16, int8."
    with pytest.raises(ConfigError, match="^" + re.escape(message) + "$"):
        choose("float8")
