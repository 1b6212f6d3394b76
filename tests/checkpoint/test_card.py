"""The card and the word counts are saved with a model; measurements are dropped when the weights change."""

import hashlib
import json
from dataclasses import replace

import pytest

from elmo import CheckpointError, Elmo
from elmo.checkpoint.folder import card_field, read_folder
from elmo.checkpoint.vocabulary import change_vocabulary
from tests.language_models import VOCABULARY, make_language_model

CARD = "---\nlanguage: en\nlicense: cc-by-sa-3.0\n---\n# My model\n\nPerplexity 82.1.\n"


@pytest.fixture
def model():
    counts = tuple(range(len(VOCABULARY)))
    return Elmo(replace(make_language_model().checkpoint(), card=CARD, word_counts=counts))


@pytest.mark.parametrize("format", ["elmo", "hdf5"])
def test_save_pretrained_writes_the_card(model, tmp_path, format):
    model.save_pretrained(tmp_path / "model", format=format)
    assert (tmp_path / "model" / "README.md").read_text() == CARD


def test_the_card_next_to_an_hdf5_file_is_read(model, tmp_path):
    model.save_pretrained(tmp_path / "hdf5", format="hdf5")
    (weights,) = (tmp_path / "hdf5").glob("*.hdf5")
    for source in (tmp_path / "hdf5", weights):
        assert Elmo.from_pretrained(source).checkpoint().card == CARD
    (tmp_path / "hdf5" / "README.md").write_text("How to unpack the other files of this folder.")
    assert Elmo.from_pretrained(weights).checkpoint().card is None


def test_a_saved_model_has_its_card_and_counts_when_it_is_opened_again(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    opened = read_folder(tmp_path / "model")
    assert (opened.card, opened.word_counts) == (CARD, model.checkpoint().word_counts)


def test_a_readme_that_is_there_is_not_replaced(model, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    model.save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_saved_copies_keep_license_and_counts(tmp_path):
    model = Elmo.from_pretrained()
    model.save_pretrained(tmp_path / "copy", storage="compact")
    copy = read_folder(tmp_path / "copy")
    assert card_field(copy.card, "license") == "cc-by-sa-3.0"
    assert copy.word_counts is not None and copy.word_counts[model.vocabulary.words.index("the")] > 10**6


def test_a_changed_model_keeps_the_license_and_not_the_measurements(model):
    card = change_vocabulary(model.checkpoint(), VOCABULARY).card
    assert card_field(card, "license") == "cc-by-sa-3.0"
    assert "# From My model" in card and "The license of My model applies" in card
    assert "82.1" not in card


def test_damaged_counts_are_refused(model, tmp_path):
    content = "1\nmany\n"
    model.save_pretrained(tmp_path)
    (tmp_path / "word_counts.txt").write_text(content)
    config = json.loads((tmp_path / "config.json").read_text())
    config["lists"]["word_counts.txt"] = hashlib.sha256(content.encode()).hexdigest()
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="a list next to it is damaged"):
        Elmo.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("front", "language"),
    [
        ("language: en\n", "en"),
        ('license: mit\nlanguage: "zh"\n', "zh"),
        ("language:\n- en\n- zh\n", "en"),
        ("language: [en, zh]\n", "en"),
        ("language:\nlicense: mit\n", None),
        ("license: mit\n---\nlanguage: en\n", None),
    ],
)
def test_the_front_matter_names_the_language(front, language):
    assert card_field(f"---\n{front}---\n# My model\n", "language") == language
