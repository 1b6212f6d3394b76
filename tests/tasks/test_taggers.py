"""The included taggers: NumPy agrees with the trained network, and plain sentences get sensible tags."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from elmo import CheckpointError, Elmo, InputError, tasks
from elmo.tasks.taggers import Tagger, choose_tagger, decode, open_taggers
from tests.conftest import TINY_CONFIG

SPEC = importlib.util.spec_from_file_location(
    "taggers_recipe", Path(__file__).parents[2] / "recipes" / "taggers" / "run.py"
)
recipe = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(recipe)
NETWORK = {"words.kinds": [], "network.kind": "cnn", "network.num_layers": 2, "network.width": 3}


def test_the_tagger_of_a_task_predicts_the_same(train_toy, bilm_folder):
    folder, _ = train_toy("tagging", **{name.replace(".", "__"): value for name, value in NETWORK.items()})
    model = Elmo.from_pretrained(bilm_folder, precision="float32")
    made = recipe.Recipe("", (0, 1), "tiny", "toys", "none", 1)
    tagger = recipe.to_tagger(folder, "toy", made, model)
    texts = ["I like Paris city .", "we like Lima city . you like Oslo city .", "", "Rome"]
    assert tagger.predict(texts) == tasks.load(folder).predict(texts)
    assert ("place", 2, 4) in tagger.predict(texts)[0].spans


def test_words_of_the_data_become_those_of_the_model():
    model = Elmo.from_pretrained("zh-small")
    sentence = ("我爱北京", ["我", "爱", "北京"], ["O", "O", "B-LOC"])
    assert recipe.retokenize(sentence, model, marks_words=False) == (
        list("我爱北京"),
        ["O", "O", "B-LOC", "I-LOC"],
    )
    sentence = ("我爱北京", ["我", "爱", "北京"], ["PRON", "VERB", "PROPN"])
    assert recipe.retokenize(sentence, model, marks_words=True)[1] == ["B-PRON", "B-VERB", "B-PROPN", "I-PROPN"]
    english = Elmo.from_pretrained()
    sentence = ("I don't", ["I", "do", "n't"], ["PRON", "AUX", "PART"])
    assert recipe.retokenize(sentence, english, marks_words=False) == (["I", "don", "'t"], ["PRON", "AUX", "PART"])


@pytest.fixture(scope="module")
def load():
    opened = {}

    def open_once(name):
        opened.setdefault(name, tasks.load(name))
        return opened[name]

    return open_once


def entities(tagger, text):
    (prediction,) = tagger.predict([text])
    spans = tagger.to_json(tagger.read_items([text])[0], prediction)["spans"]
    return {(text[slice(*span["characters"])], span["type"]) for span in spans}


def test_english_entities_have_their_characters(load):
    spans = entities(load("en-entities"), "Ada Lovelace was born in London .")
    assert spans == {("Ada Lovelace", "person"), ("London", "location")}
    assert entities(load("en-entities"), "the cat sat on the mat") == set()


def test_english_words_have_parts_of_speech(load):
    (prediction,) = load("en-pos").predict(["The old bank didn't raise its rates."])
    assert prediction.words == ("The", "old", "bank", "didn", "'t", "raise", "its", "rates", ".")
    assert prediction.tags == ("DET", "ADJ", "NOUN", "AUX", "PART", "VERB", "PRON", "NOUN", "PUNCT")


def test_chinese_entities_and_words(load):
    spans = entities(load("zh-entities"), "李明在北京大学学习。")
    assert any(name == "PER" and "李明" in text for text, name in spans)
    (prediction,) = load("zh-pos").predict(["他昨天在上海买了三本书。"])
    tags = dict(zip(prediction.words, prediction.tags, strict=True))
    assert "".join(prediction.words) == "他昨天在上海买了三本书。"
    assert (tags["他"], tags["昨天"], tags["上海"], tags["买"]) == ("PRON", "NOUN", "PROPN", "VERB")
    (given,) = load("zh-pos").predict([["他们", "学习", "汉语"]])
    assert given.words == ("他们", "学习", "汉语") and given.tags[:2] == ("PRON", "VERB")


def test_a_tagger_describes_its_data_and_scores(load):
    for name in tasks.list_taggers():
        description = load(name).description
        assert description["data"] and description["license"] and max(description["scores"].values()) > 30
    assert tasks.list_taggers() == ["en-entities", "en-pos", "zh-entities", "zh-pos"]


def test_a_tagger_is_measured_on_files_and_on_data_in_memory(load, tmp_path):
    tagger = load("en-entities")
    (tmp_path / "a.conll").write_text("I\tO\nlike\tO\nParis\tB-location\n")
    rows = [{"words": ["I", "like", "Paris"], "tags": ["O", "O", "B-location"]}]
    for data in (tmp_path / "a.conll", rows, tagger.read_examples(rows)):
        scores = tagger.evaluate(data)
        assert (scores["f1"], scores["accuracy"]) == (100, 100)
    rows[0]["tags"] = ["O", "O", "B-person"]
    assert tagger.evaluate(rows)["f1"] == 0


def test_plain_text_is_not_measured_as_a_column_of_tags(load, tmp_path):
    (tmp_path / "plain.txt").write_text("The cat sat on the mat .\n")
    with pytest.raises(
        InputError, match=r"plain.txt, line 1: '.' and all other tags are unknown .* has ADJ, .*--column tag=NUMBER"
    ):
        load("en-pos").evaluate(tmp_path / "plain.txt")


def test_the_task_and_the_language_choose_the_tagger():
    assert choose_tagger("pos", ["The bank"]) == "en-pos"
    assert choose_tagger("entities", ["我来到北京"]) == "zh-entities"
    assert choose_tagger("en-pos", ["我来到北京"]) == "en-pos"
    with pytest.raises(InputError, match="There is no tagger 'verbs'"):
        choose_tagger("verbs", ["The bank"])


def test_another_model_is_rejected_and_an_open_one_is_shared():
    with pytest.raises(CheckpointError, match="trained with other weights"):
        tasks.load("en-pos", bilm=Elmo.from_config(TINY_CONFIG))
    model = Elmo.from_pretrained()
    taggers = open_taggers([model, Elmo.from_config(TINY_CONFIG)])
    assert sorted(taggers) == ["en-entities", "en-pos"] and taggers["en-pos"].elmo is model
    assert isinstance(tasks.load("en-pos", bilm=model), Tagger)


def test_the_best_path_is_found():
    draw = np.random.default_rng(0)
    scores, transitions, first, last = (draw.standard_normal(shape) for shape in ((4, 3), (3, 3), 3, 3))
    paths = np.stack(np.meshgrid(*[np.arange(3)] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    totals = scores[np.arange(4), paths].sum(axis=1) + transitions[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    best = paths[(totals + first[paths[:, 0]] + last[paths[:, -1]]).argmax()]
    assert decode(scores, transitions, first, last) == best.tolist()


def test_the_command_marks_entities_and_parts_of_speech(capsys):
    from elmo.cli import main

    assert main(["tag", "Ada Lovelace was born in London"]) == 0
    assert capsys.readouterr().out == "[Ada Lovelace](person) was born in [London](location)\n"
    assert main(["tag", "She plays", "--task", "pos", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["tags"] == ["PRON", "VERB"] and output["offsets"] == [[0, 3], [4, 9]]
    assert main(["info", "en-pos"]) == 0
    assert "EWT" in capsys.readouterr().out
