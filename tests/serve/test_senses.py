"""POST /senses returns the results of map_senses; GET /models describes the models."""

import pytest

from elmo import Elmo
from elmo.analysis import map_senses
from elmo.serve.served import ServedModel, public_source

BANKS = ["money in the [bank]", "the [bank] of the river", "I went to the [bank]", "a river [bank]"]
CARD = """---
language: en
license: cc-by-sa-3.0
---
# small

| a | table |

A **small** model of
[English](https://example.org).

## Training data

Trained on `Wikipedia`, 3 million words. Twice.

## Limits
It is small.
"""


def test_the_senses_are_those_of_the_model(client, language_model):
    response = client.post("/senses", json={"sentences": BANKS, "num_senses": 2})
    assert response.status_code == 200
    assert response.json() == {"model": "tiny", **map_senses(language_model, BANKS, num_senses=2).to_dict()}
    only = client.post("/senses", json={"sentences": BANKS, "num_senses": 2, "layers": [1]}).json()
    assert [entry["layer"] for entry in only["layers"]] == [1]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"sentences": BANKS[:2]}, 422, "sentences"),
        ({"sentences": ["no mark", *BANKS]}, 400, "has 0 marked words"),
        ({"sentences": BANKS, "num_senses": 5}, 400, "5 senses were requested, but there are 4 different contexts"),
        ({"sentences": BANKS, "layers": [9]}, 400, "The layer is 9"),
        ({"sentences": BANKS, "model": "other"}, 404, "Unknown model 'other'"),
    ],
)
def test_requests_that_cannot_be_answered(client, body, status, message):
    response = client.post("/senses", json=body)
    assert response.status_code == status and message in response.json()["error"]["message"]


def test_the_card_describes_the_model(language_folder, tmp_path):
    Elmo.from_pretrained(language_folder).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text(CARD, encoding="utf-8")
    card = ServedModel("small", Elmo.from_pretrained(tmp_path / "model")).card
    assert (card["language"], card["license"]) == ("en", "cc-by-sa-3.0")


def test_a_model_without_a_card_is_described_by_its_configuration(client, language_model):
    (entry,) = client.get("/models").json()["models"]
    card = entry["card"]
    assert (card["license"], entry["source"]) == (None, None)
    assert (card["reads"], card["language"]) == ("characters", "en")
    assert card["num_words"] == len(language_model.vocabulary.words)


def test_paths_are_not_published(tmp_path):
    from elmo.checkpoint.source import DEFAULT_MODEL

    assert public_source(str(tmp_path)) is None and public_source(None) is None
    assert public_source(str(DEFAULT_MODEL)) == "en-small" and public_source("owner/model") == "owner/model"
