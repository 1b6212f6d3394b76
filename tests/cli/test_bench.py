"""What `elmo bench` reports, but not how fast it is."""

import json

import pytest

from elmo.cli.commands import measure
from tests.cli.conftest import Run

QUICK = ("--seconds", "0.01")


def test_each_precision_and_number_of_sentences_is_measured(run: Run, model_folder):
    answer = run("bench", "-m", model_folder, "--threads", "2", "--json", *QUICK)
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert found["num_threads"] == 2
    rows = found["measurements"]
    assert [(row["precision"], row["at_once"]) for row in rows] == [
        (name, number) for name in ("float32", "int8") for number in measure.SENTENCES_AT_ONCE
    ]
    for row in rows:
        assert row["words_per_second"] > 0 and row["milliseconds"] > 0
        assert 0 <= row["hit_rate"] < 1  # the words are new at first


def test_a_table_for_people(run: Run, model_folder, monkeypatch):
    monkeypatch.setattr(measure, "SENTENCES_AT_ONCE", (16,))
    lines = run("bench", "-m", model_folder, *QUICK).out.splitlines()
    assert lines[0].split() == ["precision", "at", "once", "words/s", "ms", "cached"]
    assert [line.split()[:2] for line in lines[1:3]] == [["float32", "16"], ["int8", "16"]]


@pytest.mark.parametrize("wrong", [("--seconds", "0"), ("--threads", "0")])
def test_wrong_arguments_are_refused_in_one_line(run: Run, model_folder, wrong):
    assert f"'{wrong[0]}'" in run("bench", "-m", model_folder, *wrong).message()
