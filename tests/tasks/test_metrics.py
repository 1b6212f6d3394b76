"""Scores agree with their definitions on small cases."""

import pytest

from elmo.tasks.families import metrics


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-x I-x O B-y", [("x", 0, 1), ("y", 3, 3)]),
        ("I-x I-x B-x I-y", [("x", 0, 1), ("x", 2, 2), ("y", 3, 3)]),
        ("S-x S-x B-x E-x", [("x", 0, 0), ("x", 1, 1), ("x", 2, 3)]),
        ("U-x B-y I-y L-y O", [("x", 0, 0), ("y", 1, 3)]),
        ("O O", []),
    ],
)
def test_spans_of_every_scheme_are_found(tags, spans):
    assert metrics.tag_spans(tags.split()) == spans


def test_a_span_is_correct_if_its_type_and_borders_are():
    gold = [["B-x", "I-x", "O", "B-y"], ["B-x", "O", "O"]]
    predicted = [["B-x", "I-x", "O", "B-x"], ["B-x", "I-x", "B-y"]]
    scores = metrics.score_spans(gold, predicted)  # one of three recognized, one of four correct
    assert scores["recall"] == pytest.approx(100 / 3)
    assert scores["precision"] == pytest.approx(25)
    assert scores["f1"] == pytest.approx(100 * 2 / 7)


def test_no_spans_on_either_side_is_perfect():
    assert metrics.score_spans([["O"]], [["O"]])["f1"] == 100


def test_labels_are_scored_by_accuracy_and_macro_f1():
    scores = metrics.score_labels(["a", "a", "b", "b"], ["a", "a", "b", "a"])
    assert scores["accuracy"] == 75
    assert scores["macro_f1"] == pytest.approx(100 * (0.8 + 2 / 3) / 2)


def test_numbers_are_scored_by_correlation():
    scores = metrics.score_numbers([1.0, 2.0, 3.0], [1.0, 4.0, 9.0])
    assert scores["spearman"] == pytest.approx(100)
    assert 98 < scores["pearson"] < 100
    assert metrics.score_numbers([1.0, 2.0], [3.0, 3.0]) == {"pearson": 0.0, "spearman": 0.0}


def test_relations_count_the_direction_and_leave_out_other():
    gold = ["A(e1,e2)", "A(e2,e1)", "B(e1,e2)", "Other"]
    predicted = ["A(e1,e2)", "A(e1,e2)", "B(e1,e2)", "B(e1,e2)"]
    scores = metrics.score_relations(gold, predicted)
    assert scores["macro_f1"] == pytest.approx(100 * (0.5 + 2 / 3) / 2)
    assert scores["accuracy"] == 50


def test_answers_are_compared_without_articles_punctuation_and_case():
    scores = metrics.score_answers([["the Eiffel Tower", "a tower"], ["Paris"]], ["Eiffel tower!", "in Paris"])
    assert scores["exact"] == 50
    assert scores["f1"] == pytest.approx(100 * (1 + 2 / 3) / 2)


def test_no_answer_is_correct_only_if_there_is_none():
    assert metrics.score_answers([[], ["Paris"]], ["", "Paris"]) == {"f1": 100, "exact": 100}
    assert metrics.score_answers([[], ["Paris"]], ["Paris", ""]) == {"f1": 0, "exact": 0}
