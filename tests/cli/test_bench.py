"""`elmo bench` tells what it measured, for each precision and each number of sentences at a time."""

import json

import pytest

from tests.cli.conftest import Run

QUICK = ("--seconds", "0.01", "--repeats", "1")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("I went to the bank .\n\nthe river went by\n", encoding="utf-8")
    return path


def test_every_combination_is_measured(run: Run, model_folder, text):
    asked = ("--at-once", "1", "--at-once", "2", "--precision", "float32", "--precision", "auto")
    answer = run("bench", "--model", model_folder, text, *QUICK, *asked, "--json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert (found["num_sentences"], found["mean_words"]) == (2, 5.0)
    assert [row["at_once"] for row in found["measurements"]] == [1, 2, 1, 2]
    for row in found["measurements"]:
        assert 0 < row["lowest"] <= row["words_per_second"] <= row["highest"]
        assert 0 <= row["hit_rate"] < 1 and row["share_of_limit"] > 0


def test_for_people_and_without_a_text(run: Run, model_folder):
    answer = run("bench", "--model", model_folder, *QUICK, "--at-once", "4", "--precision", "float32")
    first, head, row, _ = answer.out.splitlines()
    assert first.startswith("4,096 sentences of 24.")
    assert head.split()[:3] == ["precision", "at", "once"]
    assert row.split()[:2] == ["float32", "4"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seconds", "0"), "--seconds is 0; give more than 0 and at most 3600."),
        (("--at-once", "0"), "--at-once is 0; give 1 or more."),
        (("--repeats", "-1"), "--repeats is -1; give 1 or more."),
    ],
)
def test_numbers_that_measure_nothing_are_refused(run: Run, model_folder, arguments, message):
    assert run("bench", "--model", model_folder, *arguments).message() == message


def test_a_text_without_words_is_refused(run: Run, model_folder, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    assert "no words" in run("bench", "--model", model_folder, empty).message()
