"""Small texts, and a model that separates words well enough to rank their vectors."""

from pathlib import Path

import pytest

from elmo import Elmo
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig

SENTENCES = [
    "I went to the bank to deposit money",
    "We had a picnic by the river bank",
    "The Bank raised its interest rates",
    "They play football in the park on Sunday",
    "She saw a play in the old theatre",
    "A long play of light on the water",
]


def make_model() -> Elmo:
    """A random model with vectors of 64 values, so that 8 bits a value keep the order of neighbors."""
    config = ModelConfig(
        encoder=EncoderConfig(num_layers=2, cell_dim=64, output_dim=32),
        characters=CharacterConfig(filters=((1, 16), (2, 16), (3, 32)), embedding_dim=8, num_highways=1),
    )
    return Elmo.from_config(config, seed=1)


@pytest.fixture(scope="session")
def model() -> Elmo:
    return make_model()


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    """Two files of one sentence a line: the sentences, and the same with numbers."""
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("".join(f"{sentence}.\n" for sentence in SENTENCES))
    numbered = (f"Number {number}: {sentence}.\n" for number in range(12) for sentence in SENTENCES)
    second.write_text("".join(numbered))
    return [str(first), str(second)]
