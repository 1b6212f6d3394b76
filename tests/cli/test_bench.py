"""What `elmo bench` reports, but not how fast it is."""

import importlib
import itertools
import json
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Run

QUICK = ("--seconds", "0.01")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat\n\nit rained all day\n", encoding="utf-8")
    return path


def test_each_precision_and_number_of_sentences_is_measured(run: Run, model_folder, text):
    answer = run("bench", text, "-m", model_folder, "--at-once", "1", "--at-once", "5", "--json", *QUICK)
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert (found["num_sentences"], found["mean_words"], found["num_threads"]) == (2, 5.0, 1)
    precisions = ["float32", "int8"]
    rows = found["measurements"]
    assert [(row["precision"], row["at_once"]) for row in rows] == [
        (name, number) for name in precisions for number in (1, 5)
    ]
    for row in rows:
        assert row["words_per_second"] > 0
        assert 0 <= row["hit_rate"] < 1  # the words are new at first


@pytest.fixture
def slow_clock(monkeypatch):
    """A clock that is 2, 4, 2, 4 ... milliseconds later each second time it is read."""
    steps = itertools.cycle([0.0, 0.002, 0.0, 0.004])
    clock = itertools.accumulate(steps)
    module = importlib.import_module("elmo.cli.commands.measure")
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))


@pytest.mark.usefixtures("slow_clock")
def test_milliseconds_are_those_of_a_sentence_given_alone(run: Run, model_folder, text):
    arguments = ("--precision", "float32", "--at-once", "1", "--at-once", "2", "--seconds", "0.018")
    rows = json.loads(run("bench", text, "-m", model_folder, *arguments, "--json").out)["measurements"]
    # Three times (2 + 4) milliseconds for sentences of 6 and 4 words; the median of 2 and 4 is 3.
    assert rows[0]["milliseconds_per_sentence"] == pytest.approx(3.0)
    assert rows[0]["words_per_second"] == pytest.approx(30 / 0.018)
    assert rows[1]["milliseconds_per_sentence"] is None


def test_a_table_for_people_and_generated_text(run: Run, model_folder):
    arguments = ("--precision", "float32", "--at-once", "16", "--threads", "2")
    lines = run("bench", "-m", model_folder, *arguments, *QUICK).out.splitlines()
    assert lines[0].startswith("4,096 sentences of 2") and lines[0].endswith(" words, 2 threads")
    heads = ["precision", "at", "once", "words/s", "ms", "cached"]
    assert lines[1].split() == heads
    row = lines[2].split()
    assert row[:2] == ["float32", "16"]
    assert row[3] == "-"  # sentences were not given one at a time
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seconds", "0"], "--seconds is 0"),
        (["--at-once", "0"], "'--at-once'"),
        (["--precision", "int3"], "precision is 'int3'"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(run: Run, model_folder, arguments, message):
    assert message in run("bench", "-m", model_folder, *arguments).message()


def test_a_text_without_words_is_refused(run: Run, model_folder, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    message = "The text has no words to measure with"
    assert message in run("bench", tmp_path / "empty.txt", "-m", model_folder).message()
