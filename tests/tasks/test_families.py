"""Every family learns a toy task with every way to add ELMo, and its folder reproduces the predictions."""

import dataclasses
import json

import pytest
import torch

from elmo import InputError, tasks
from elmo.files.sources import Place
from elmo.tasks import TaskOptions, load
from elmo.tasks.examples import TaggedSentence, build_example
from elmo.tasks.families.metrics import score_tags
from elmo.tasks.readers import read_examples
from elmo.tasks.settings import ReadSettings
from elmo.text.tokenize import tokenize
from tests.tasks.toys import PLACES, SUFFIXES, small

FAMILIES = ("tagging", "classification", "pairs", "relations", "question_answering", "senses")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_learns_and_its_folder_gives_the_same_scores(train_toy, family, tmp_path):
    changes = {
        "senses": {"network__kind": "bilstm"},
        "pairs": {"elmo__where": "input", "network__dim": 32, "fit__num_epochs": 20, "fit__patience": 20},
    }
    folder, scores = train_toy(family, **changes.get(family, {}))
    metric = scores.metric
    assert scores.test[metric] > 90, scores.history
    examples, _ = read_examples(str(tmp_path / f"test.{SUFFIXES[family]}"), family, ReadSettings())
    assert load(folder).evaluate(examples) == scores.test
    assert load(folder).family in repr(load(folder))


@pytest.mark.parametrize(
    "changes",
    [
        {"elmo__where": "none", "words__kinds": ["characters"]},
        {"elmo__where": "output", "elmo__layers": "concat", "network__kind": "cnn", "network__num_layers": 2},
        {
            "elmo__where": "both",
            "elmo__layers": "top",
            "words__kinds": [],
            "network__kind": "linear",
            "fit__num_epochs": 25,
            "fit__patience": 25,
        },
        {"elmo__tune": True, "elmo__learning_rate": 0.01, "fit__num_epochs": 3},
    ],
    ids=["characters", "output", "both", "tuned"],
)
def test_elmo_and_words_can_be_combined_in_every_way(train_toy, changes):
    folder, scores = train_toy("tagging", **changes)
    where = changes.get("elmo__where", "input")
    assert len(scores.mixes) == {"none": 0, "both": 2}.get(where, 1)
    (prediction,) = load(folder).predict([["we", "like", "Oslo", "city", "."]])
    if not changes.get("elmo__tune"):
        assert prediction.tags == ("O", "O", "B-place", "I-place", "O")
    assert len(prediction.tags) == 5


def test_a_tuned_bilm_is_saved_and_differs_from_the_original(train_toy, bilm_folder, tiny_model):
    from elmo import Elmo

    folder, _ = train_toy("tagging", elmo__tune=True, elmo__learning_rate=0.01, fit__num_epochs=1)
    tuned = Elmo.from_pretrained(folder / "bilm")
    assert abs(tuned.embed("we like it") - tiny_model.embed("we like it")).max() > 1e-3


def test_predictions_are_typed(train_toy):
    folder, _ = train_toy("tagging")
    (prediction,) = load(folder).predict(["you like Rome city ."])
    assert prediction.words == ("you", "like", "Rome", "city", ".")
    assert prediction.spans == [("place", 2, 4)]


def test_a_label_comes_with_its_probabilities(train_toy):
    folder, _ = train_toy("classification")
    prediction, _ = load(folder).predict(["look, a cat here", []])
    assert prediction.label == "good"
    assert sum(prediction.probabilities.values()) == pytest.approx(1)
    assert prediction.probabilities["good"] > 0.5


def test_an_answer_is_a_span_of_the_passage(train_toy):
    folder, _ = train_toy("question_answering")
    passage = "Ann went to Lima by train ."
    (prediction,) = load(folder).predict([("Which place ?", passage)])
    assert prediction.text in PLACES
    assert passage[prediction.start :].startswith(prediction.text)


def test_similarity_gives_a_number_on_the_scale_of_the_data(bilm_folder, tmp_path):
    rows = [("a cat runs", "a cat runs", "5"), ("a cat runs", "the bug sits", "0.5"), ("a dog", "a dog", "5")]
    path = tmp_path / "scores.csv"
    lines = [f"{first},{second},{score}\n" for first, second, score in rows * 8]
    path.write_text("first,second,score\n" + "".join(lines))
    scores = tasks.train(
        path, kind="pairs", output=tmp_path / "run", model=bilm_folder,
        settings=small("pairs"), dev=path,
        options=TaskOptions(cache_folder=str(tmp_path / "cache")),
    )  # fmt: skip
    assert scores.metric == "pearson" and scores.test is None
    assert scores.dev["pearson"] > 90
    high, low = load(tmp_path / "run").predict([("a cat runs", "a cat runs"), ("a cat runs", "the bug sits")])
    assert 0.5 <= low.score < high.score <= 5


def test_unknown_lemmas_have_no_sense(train_toy):
    folder, scores = train_toy("senses")
    assert scores.test["known"] == 100
    task = load(folder)
    known, unknown, either = task.predict(
        [
            ("the river bank", [(2, 3, "bank", "NOUN")]),
            ("the river bank", [(1, 2, "river", "NOUN")]),
            (["so"], []),
        ]
    )
    assert known.keys[0].startswith("bank%1:")
    assert unknown.keys == (None,) and either.keys == ()


def test_an_unknown_lemma_gets_the_first_sense_of_wordnet(train_toy, tmp_path):
    index = tmp_path / "index.sense"
    index.write_text("river%1:17:00:: 09411430 1 29\nriver%1:17:02:: 09411431 2 0\n")
    folder, _ = train_toy("senses", inputs={"sense_index": str(index)})
    (prediction,) = load(folder).predict([("the river bank", [(1, 2, "river", "NOUN"), (0, 1, "the", "DET")])])
    assert prediction.keys == ("river%1:17:00::", None)


def test_labels_of_phrases_are_learned(tmp_path, bilm_folder):
    path = tmp_path / "trees.ptb"
    path.write_text("(1 (0 bad) (1 (2 but) (1 good)))\n(0 (1 good) (0 (2 but) (0 bad)))\n" * 6)
    options = TaskOptions(cache_folder=str(tmp_path / "cache"))
    result = tasks.train(
        path, kind="sentiment", output=tmp_path / "run", model=bilm_folder, options=options,
        settings=small("classification", fit__num_epochs=2),
    )  # fmt: skip
    assert result.load().description.labels == {"labels": ["0", "1", "2"], "has_phrases": True}


@pytest.mark.parametrize(
    ("family", "item", "message"),
    [
        ("tagging", 7, "give a string, or a list of words"),
        ("pairs", ("one",), "not a pair of sentences"),
        ("relations", "no marks", "the marks are missing"),
        ("question_answering", ("q", " "), "two strings that are not empty"),
        ("senses", ("a b", [(1, 5, "b", "NOUN")]), "not (start, end, lemma, pos) of a sentence of 2 words"),
    ],
)
def test_a_wrong_item_is_reported(family, item, message):
    with pytest.raises(InputError) as caught:
        build_example(family, item, tokenize)
    assert message in str(caught.value)


def test_a_single_text_is_rejected(train_toy):
    folder, _ = train_toy("classification", fit__num_epochs=1)
    with pytest.raises(InputError, match="put the one text in a list"):
        load(folder).predict("a cat")


def test_tags_of_chinese_entities_mark_spans():
    from elmo.tasks.examples import TagPrediction
    from elmo.tasks.families import choose_family

    tagging = choose_family("tagging")

    tags = ("B-per", "M-per", "E-per", "O", "S-loc", "B-loc", "E-loc")
    sentence = TaggedSentence(tuple("王小明在京上海"), tags, place=Place("a.conll", 1))
    labels = tagging.learn_labels([sentence], small("tagging"))
    assert (labels["marks_spans"], labels["strict"], labels["crf"]) == (True, True, True)
    prediction = TagPrediction(sentence.words, tags)
    assert prediction.spans == [("per", 0, 3), ("loc", 4, 5), ("loc", 5, 7)]
    assert score_tags([sentence.tags], [prediction.tags], marks_spans=True)["f1"] == 100
    broken = dataclasses.replace(sentence, tags=("O", "M-per", "E-per", "O", "O", "O", "O"))
    assert not tagging.learn_labels([sentence, broken], small("tagging"))["strict"]


def test_questions_without_an_answer_are_learned_and_scored(bilm_folder, tmp_path, caplog):
    answered = [{"question": "Which place ?", "context": f"Ann went to {name} .", "answer": name} for name in PLACES]
    unanswered = [{**row, "context": f"Ann has {row['answer']} shoes", "answer": ""} for row in answered]
    scores = {}
    for name, rows in (("one", answered), ("two", answered + unanswered)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows * 3))
        result = tasks.train(
            path, kind="qa", dev=path, output=tmp_path / name, model=bilm_folder,
            settings=small("question_answering", fit__num_epochs=20, fit__patience=20),
            options=TaskOptions(cache_folder=str(tmp_path / "cache")),
        )  # fmt: skip
        scores[name] = result.dev
    assert scores["one"]["f1"] > 90 and scores["two"]["exact"] > 90, scores
    examples = tmp_path / "two.jsonl"
    task = load(tmp_path / "two")
    assert task.evaluate(examples) == scores["two"]
    answer, none = task.predict([(row["question"], row["context"]) for row in (answered[0], unanswered[0])])
    assert (answer.text, none.text, none.start) == ("Paris", "", 0)
    assert 0 < none.probability <= 1
    # A network that never saw such questions has no choice but to be wrong.
    task = load(tmp_path / "one")
    assert task.evaluate(examples)["exact"] == scores["one"]["exact"] / 2
    assert "'no answer' was not among the labels in training (12 such given examples)" in caplog.text


def test_without_unanswered_questions_the_network_has_no_extra_weights(toy_inputs):
    from elmo.tasks.families import choose_family
    from elmo.tasks.families.blocks import NetworkInputs, Vocabularies, WordList
    from elmo.tasks.task import build_network

    examples, _ = read_examples(toy_inputs("question_answering").train, "question_answering", ReadSettings())
    settings = small("question_answering", elmo__where="none")
    known = choose_family("question_answering").learn_labels(examples, settings)
    inputs = NetworkInputs(Vocabularies(WordList(["went", "to"]), WordList([])))
    weights = []
    for labels in (known, {**known, "no_answer": True}):
        torch.manual_seed(1)
        weights.append(build_network("question_answering", settings, labels, inputs).state_dict())
    without, with_none = weights
    assert without.keys() == {name for name in with_none if "no_answer" not in name}
    assert all(torch.equal(weight, with_none[name]) for name, weight in without.items())
    assert len(with_none) == len(without) + 2
