import json

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.conllu"
    sentence = (
        "1\tcats\t_\tNOUN\tNNS\tNumber=Plur\t_\t_\t_\t_\n2\trun\t_\tVERB\tVBP\tMood=Ind\t_\t_\t_\t_\n"
        "3\tdog\t_\tNOUN\tNN\tNumber=Sing\t_\t_\t_\t_\n\n"
    )
    path.write_text(sentence * 60)
    return path


def test_a_table_with_counts_and_spread(run: Run, data, model_folder):
    answer = run(
        "probe", "tagging", "--train", data, "--test", data, "-m", model_folder, "--seeds", "2",
        "--max-train-words", "90",
    )  # fmt: skip
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "90 of 180 train words; 180 test words; 2 seeds."
    assert [line.split("|")[1].strip() for line in lines[2:10]] == [
        "", "---------------", "most frequent", "layer 0", "layer 1", "layer 2", "average", "learned mix",
    ]  # fmt: skip
    assert "| layer 0       | 100.00 ± 0.00 |" in lines
    assert lines[-1].startswith("Learned weights: layer 0: 0.")


def test_json_and_another_column(run: Run, data, model_folder):
    answer = run(
        "probe", "tagging", "--train", data, "--test", data, "--column", "tag=xpos", "-m", model_folder,
        "--seeds", "1", "--json",
    )  # fmt: skip
    found = json.loads(answer.out)
    assert found["rows"][0]["scores"]["tag"]["mean"] == pytest.approx(100 / 3)
    assert found["rows"][1]["scores"]["tag"] == {"mean": 100.0, "spread": None, "spread_of": "seeds"}
    assert found["counts"]["train_words"] == 180


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tagging", "--test", "data.conllu"], "needs training examples"),
        (["tagging", "--train", "no.conllu", "--test", "data.conllu"], "No such file: 'no.conllu'"),
        (
            ["features", "--train", "data.conllu", "--test", "data.conllu", "--column", "tag=upos"],
            "'NOUN' is not a list of features",
        ),
    ],
)
def test_mistakes(run: Run, data, model_folder, monkeypatch, arguments, message):
    monkeypatch.chdir(data.parent)
    assert message in run("probe", *arguments, "-m", model_folder).message()
