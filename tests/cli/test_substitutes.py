import json

import numpy as np
import pytest

from tests.cli.conftest import Run
from tests.language_models import make_language_model

MARKED = "I went to the [bank]"


def test_a_line_for_each_word(run: Run, language_folder):
    answer = run("substitutes", MARKED, "-m", language_folder)
    expected = make_language_model().substitutes(MARKED)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [f"{np.exp(each.log_probability):.4f}  {each.word}" for each in expected]


def test_top_k(run: Run, language_folder):
    whole = run("substitutes", MARKED, "-m", language_folder).out.splitlines()
    assert run("substitutes", MARKED, "--top-k", "2", "-m", language_folder).out.splitlines() == whole[:2]


def test_json(run: Run, language_folder):
    found = json.loads(run("substitutes", MARKED, "--json", "--top-k", "3", "-m", language_folder).out)
    expected = make_language_model().substitutes(MARKED, top_k=3)
    assert found["sentence"] == MARKED
    assert found["substitutes"] == [
        {"word": each.word, "log_probability": pytest.approx(each.log_probability, abs=1e-5)} for each in expected
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no mark"], "'no mark' has 0 marked words"),
        (["the [central bank]"], "The brackets hold 2 words"),
        (["[a]", "--top-k", "0"], "'--top-k'"),
    ],
)
def test_mistakes(run: Run, language_folder, arguments, message):
    assert message in run("substitutes", *arguments, "-m", language_folder).message()


def test_a_model_that_predicts_no_words(run: Run, model_folder):
    message = run("substitutes", MARKED, "-m", model_folder).message()
    assert message.startswith("This model has no softmax, so it returns vectors but cannot predict words; ")
