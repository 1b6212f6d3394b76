import json
from pathlib import Path

import pytest

from elmo.inference.scoring import evaluate_text
from tests.cli.conftest import Run
from tests.language_models import VOCABULARY, make_language_model

LINES = ["I went to the bank.", "", "the zyzzyva went to the river."]


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_for_people(run: Run, language_folder, text):
    answer = run("evaluate", "-m", language_folder, text)
    found = evaluate_text(make_language_model(), LINES)
    assert (answer.code, answer.err) == (0, "")
    rows = dict(line.rsplit(maxsplit=1) for line in answer.out.splitlines())
    assert rows["perplexity"] == f"{found.perplexity:,.3f}".rstrip("0")
    assert (rows["softmax"], rows["num words"], rows["num predictions"], rows["state"]) == ("full", "13", "15", "zero")


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_for_programs(run: Run, language_folder, text, state):
    found = json.loads(run("evaluate", "-m", language_folder, text, "--json", "--state", state).out)
    expected = evaluate_text(make_language_model(state=state), LINES)
    assert found == {
        "softmax": "full",
        "vocabulary_words": len(VOCABULARY),
        "state": state,
        "perplexity": pytest.approx(expected.perplexity),
        "left_to_right_perplexity": pytest.approx(expected.left_to_right_perplexity),
        "right_to_left_perplexity": pytest.approx(expected.right_to_left_perplexity),
        "left_to_right_loss": pytest.approx(expected.left_to_right_loss),
        "right_to_left_loss": pytest.approx(expected.right_to_left_loss),
        "num_predictions": 15,
        "num_sentences": 2,
        "num_words": 13,
        "num_unknown": 1,
        "unknown_rate": pytest.approx(1 / 13),
    }


def test_several_files_and_standard_input(run: Run, language_folder, text):
    found = json.loads(run("evaluate", "-m", language_folder, text, "-", "--json", stdin=b"money\n").out)
    expected = evaluate_text(make_language_model(), [*LINES, "money"])
    assert found["perplexity"] == pytest.approx(expected.perplexity) and found["num_sentences"] == 3


def test_split_on_spaces(run: Run, language_folder, text):
    found = json.loads(run("evaluate", "-m", language_folder, text, "--split-on-spaces", "--json").out)
    assert (found["num_words"], found["num_unknown"]) == (11, 3)


def test_running_text_is_split_into_sentences(run: Run, language_folder, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("I went to the bank. I went to the river.\n\nmoney\n")
    found = json.loads(
        run("evaluate", "-m", language_folder, path, "--split", "sentences", "--split-on-spaces", "--json").out
    )
    expected = evaluate_text(make_language_model(), ["I went to the bank .", "I went to the river .", "money"])
    assert found["num_sentences"] == 3 and found["num_words"] == 11 and found["num_unknown"] == 2
    found = json.loads(run("evaluate", "-m", language_folder, path, "--split", "sentences", "--json").out)
    assert found["perplexity"] == pytest.approx(expected.perplexity)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.txt"], "'no.txt' is not a file"),
        (["-", "-"], "- is named twice"),
        (["-"], "The text has no words"),
        (["FOLDER"], "is not a file"),
    ],
)
def test_mistakes(run: Run, language_folder, arguments, message):
    arguments = [str(language_folder) if argument == "FOLDER" else argument for argument in arguments]
    assert message in run("evaluate", *arguments, "-m", language_folder).message()


def test_a_model_without_a_softmax_cannot_be_evaluated(run: Run, model_folder, text):
    assert "has no softmax" in run("evaluate", "-m", model_folder, text).message()
