"""The language model, an index and tasks give the same results over HTTP as in Python."""

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from elmo.files import durable
from elmo.serve.page_folder import write_page
from elmo.serve.served import Served, ServedModel
from elmo.tasks import load
from tests.serve.conftest import serving


def test_substitutes_are_those_of_the_model(client, language_model):
    body = {"sentence": "I went to the [bank]", "top_k": 4}
    response = client.post("/substitutes", json=body).json()
    expected = language_model.substitutes("I went to the [bank]", top_k=4)
    assert [entry["word"] for entry in response["substitutes"]] == [substitute.word for substitute in expected]
    logs = [entry["log_probability"] for entry in response["substitutes"]]
    assert logs == pytest.approx([substitute.log_probability for substitute in expected], abs=1e-6)
    assert (response["words"], response["index"]) == (["I", "went", "to", "the", "bank"], 4)


def test_scores_are_those_of_the_model(client, language_model):
    sentences = ["I went to the bank", "unheard words", ""]
    response = client.post("/score", json={"sentences": sentences}).json()
    for score, expected in zip(response["sentences"], language_model.score(sentences), strict=True):
        assert score["perplexity"] == pytest.approx(expected.perplexity, rel=1e-5)
        assert score["left_to_right"] == pytest.approx(expected.left_to_right.tolist(), abs=1e-5)
        assert score["right_to_left"] == pytest.approx(expected.right_to_left.tolist(), abs=1e-5)
        assert score["is_unknown"] == expected.is_unknown.tolist()


@pytest.mark.parametrize("path", ["/substitutes", "/score"])
def test_a_model_without_a_softmax_is_an_error(tiny_model, path):
    with serving(tiny_model) as client:
        body = {"sentence": "the [bank]"} if path == "/substitutes" else {"sentences": "the bank"}
        response = client.post(path, json=body)
        assert response.status_code == 400 and "has no softmax" in response.json()["error"]["message"]
        assert client.get("/models").json()["models"][0]["predicts_words"] is False


def test_one_word_is_substituted(client):
    response = client.post("/substitutes", json={"sentence": "I [went to]"})
    assert response.json()["error"]["message"].startswith("The brackets hold 2 words, 'went to'; mark")


def test_without_tasks_their_list_is_empty(client):
    assert client.get("/models").json()["tasks"] == []


def test_an_included_tagger_names_its_source():
    (described,) = Served({}, {"names": load("en-entities")}).describe_tasks()
    assert (described["name"], described["source"]) == ("names", "en-entities")


def test_the_beginning_of_a_request_decides_its_language(tiny_model):
    served = Served({name: ServedModel(name, tiny_model) for name in ("en-small", "zh-small")})

    assert served.model(None, ["我来到北京。" * 100_000]).name == "zh-small"
    assert served.model(None, [["I", "went"], "to 北京" + " home" * 9]).name == "en-small"
    assert served.model(None, ["", "I went to the bank. " * 100_000, "我" * 10_000_000]).name == "en-small"


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
        response = client.post("/tasks/places", json={"items": items}).json()
        for item, prediction, expected in zip(items, response["predictions"], task.predict(items), strict=True):
            assert prediction["tags"] == list(expected.tags)
            assert prediction["spans"] == [{"type": t, "start": s, "end": e} for t, s, e in expected.spans]
            if isinstance(item, str):
                assert [item[start:end] for start, end in prediction["offsets"]] == prediction["words"]
        task.read = replace(task.read, split_on_spaces=True)
        item = "I like  Oslo-city, don't you?"
        (prediction,) = client.post("/tasks/places", json={"items": [item]}).json()["predictions"]
        assert prediction["words"] == ["I", "like", "Oslo-city,", "don't", "you?"]
        assert [item[start:end] for start, end in prediction["offsets"]] == prediction["words"]
        unknown = client.post("/tasks/people", json={"items": ["a"]})
        assert unknown.json()["error"] == {
            "code": "task_not_found", "message": "Unknown task 'people'; available tasks: places.", "field": None
        }  # fmt: skip
        assert client.post("/tasks/places", json={"items": [5]}).json()["error"]["code"] == "invalid_input"
        assert client.post("/tasks/places", json={"items": []}).status_code == 422


def test_a_page_stays_until_the_next_one_is_on_the_disk(tmp_path, monkeypatch):
    def interrupt(path: Path) -> NoReturn:
        raise KeyboardInterrupt

    assert write_page(Served({}), tmp_path / "site", 10) > 0
    monkeypatch.setattr(durable, "_sync_all", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_page(Served({}), tmp_path / "site", 10)
    assert (tmp_path / "site" / "index.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    monkeypatch.undo()
    assert write_page(Served({}), tmp_path / "site", 10) > 0
