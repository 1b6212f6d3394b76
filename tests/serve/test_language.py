"""The language model, an index and tasks give the same results over HTTP as in Python."""

from dataclasses import replace
from pathlib import Path

import pytest

from elmo.serve.served import Served
from elmo.tasks import load
from tests.serve.conftest import serving


def test_substitutes_are_those_of_the_model(client, language_model):
    asked = {"sentence": "I went to the [bank]", "top_k": 4}
    answer = client.post("/substitutes", json=asked).json()
    expected = language_model.substitutes("I went to the [bank]", top_k=4)
    assert [each["word"] for each in answer["substitutes"]] == [each.word for each in expected]
    logs = [each["log_probability"] for each in answer["substitutes"]]
    assert logs == pytest.approx([each.log_probability for each in expected], abs=1e-6)
    assert (answer["words"], answer["index"]) == (["I", "went", "to", "the", "bank"], 4)


def test_scores_are_those_of_the_model(client, language_model):
    sentences = ["I went to the bank", "unheard words", ""]
    answer = client.post("/score", json={"sentences": sentences}).json()
    for found, expected in zip(answer["sentences"], language_model.score(sentences), strict=True):
        assert found["perplexity"] == pytest.approx(expected.perplexity, rel=1e-5)
        assert found["left_to_right"] == pytest.approx(expected.left_to_right.tolist(), abs=1e-5)
        assert found["right_to_left"] == pytest.approx(expected.right_to_left.tolist(), abs=1e-5)
        assert found["is_unknown"] == expected.is_unknown.tolist()


@pytest.mark.parametrize("path", ["/substitutes", "/score"])
def test_a_model_without_a_softmax_is_an_error(tiny_model, path):
    with serving(tiny_model) as client:
        body = {"sentence": "the [bank]"} if path == "/substitutes" else {"sentences": "the bank"}
        answer = client.post(path, json=body)
        assert answer.status_code == 400 and "has no softmax" in answer.json()["error"]["message"]
        assert client.get("/models").json()["models"][0]["predicts_words"] is False


def test_one_word_is_substituted(client):
    answer = client.post("/substitutes", json={"sentence": "I [went to]"})
    assert answer.json()["error"]["message"].startswith("The brackets hold 2 words, 'went to'; mark")


def test_without_tasks_their_list_is_empty(client):
    assert client.get("/models").json()["tasks"] == []


def test_an_included_tagger_names_its_source():
    (described,) = Served({}, {"names": load("en-entities")}).describe_tasks()
    assert (described["name"], described["source"]) == ("names", "en-entities")


def test_tasks_predict(language_model, tagger: Path):
    task = load(tagger)
    with serving(language_model, tasks={"places": task}) as client:
        (described,) = client.get("/models").json()["tasks"]
        assert client.get("/models").json()["tasks"] == [described]
        assert described == {
            "name": "places",
            "source": None,
            "family": "tagging",
            "labels": ["B-place", "I-place", "O"],
        }
        items = ["I like Oslo city .", ["you", "like", "Rome", "city", "."]]
        answer = client.post("/tasks/places", json={"items": items}).json()
        for item, found, expected in zip(items, answer["predictions"], task.predict(items), strict=True):
            assert found["tags"] == list(expected.tags)
            assert found["spans"] == [{"type": t, "start": s, "end": e} for t, s, e in expected.spans]
            if isinstance(item, str):
                assert [item[start:end] for start, end in found["offsets"]] == found["words"]
        task.read = replace(task.read, split_on_spaces=True)
        item = "I like  Oslo-city, don't you?"
        (found,) = client.post("/tasks/places", json={"items": [item]}).json()["predictions"]
        assert found["words"] == ["I", "like", "Oslo-city,", "don't", "you?"]
        assert [item[start:end] for start, end in found["offsets"]] == found["words"]
        unknown = client.post("/tasks/people", json={"items": ["a"]})
        assert unknown.json()["error"] == {
            "code": "task_not_found", "message": "There is no task 'people' here; known: places.", "field": None
        }  # fmt: skip
        assert client.post("/tasks/places", json={"items": [5]}).json()["error"]["code"] == "invalid_input"
        assert client.post("/tasks/places", json={"items": []}).status_code == 422
