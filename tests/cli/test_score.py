import json

import pytest

from elmo.cli.commands import language_model
from tests.cli.conftest import Run
from tests.language_models import make_language_model

SENTENCE = "the zyzzyva went"


def test_a_line_for_each_sentence_of_every_input(run: Run, language_folder, tmp_path):
    (tmp_path / "text.txt").write_text("I  went\n\n")
    answer = run("score", tmp_path / "text.txt", "-", "--text", "to the bank.", "-m", language_folder, stdin=b"money")
    expected = make_language_model().score(["I went", "", "money", "to the bank."])
    assert (answer.code, answer.err) == (0, "")
    texts = ["  I went", "", "  money", "  to the bank."]
    assert not any(score.num_unknown for score in expected)
    assert answer.out.splitlines() == [
        f"{score.perplexity:>10,.2f}{text}" for score, text in zip(expected, texts, strict=True)
    ]


def test_unknown_words_are_counted(run: Run, language_folder):
    answer = run("score", "--text", SENTENCE, "-m", language_folder)
    score = make_language_model().score(SENTENCE)
    assert answer.out == f"{score.perplexity:>10.2f}  {SENTENCE}  (1 unknown)\n"


def test_json(run: Run, language_folder):
    answer = run("score", "--text", "I went", "--text", SENTENCE, "--json", "-m", language_folder)
    expected = make_language_model().score(["I went", SENTENCE])
    for number, (line, score) in enumerate(zip(answer.out.splitlines(), expected, strict=True)):
        found = json.loads(line)
        assert (found["index"], found["words"], found["num_unknown"]) == (number, list(score.words), number)
        assert found["perplexity"] == pytest.approx(score.perplexity)


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_json_counts_the_sentences_of_all_batches(run: Run, language_folder, monkeypatch, state):
    monkeypatch.setattr(language_model, "_SENTENCES_AT_ONCE", 2)
    texts = [part for word in ["I", "went", "to", "the", "bank"] for part in ("--text", word)]
    answer = run("score", *texts, "--json", "--state", state, "-m", language_folder)
    assert [json.loads(line)["index"] for line in answer.out.splitlines()] == [0, 1, 2, 3, 4]


def test_json_with_words(run: Run, language_folder):
    found = json.loads(run("score", "--text", SENTENCE, "--json", "-m", language_folder).out)
    score = make_language_model().score(SENTENCE)
    assert found["left_to_right"] == pytest.approx(score.left_to_right.tolist(), abs=1e-6)
    assert found["right_to_left"] == pytest.approx(score.right_to_left.tolist(), abs=1e-6)
    assert (found["end"], found["begin"]) == pytest.approx((score.end, score.begin), abs=1e-6)
    assert found["is_unknown"] == [False, True, False]


def test_tables_are_read_by_their_column(run: Run, language_folder, tmp_path):
    (tmp_path / "table.csv").write_text("id,text\n1,I went\n2,to the bank\n")
    (tmp_path / "words.jsonl").write_text('{"tokens": ["to", "the bank"]}\n')
    answer = run("score", tmp_path / "table.csv", tmp_path / "words.jsonl", "--json", "-m", language_folder)
    words = [json.loads(line)["words"] for line in answer.out.splitlines()]
    assert words == [["I", "went"], ["to", "the", "bank"], ["to", "the bank"]]
    message = run("score", tmp_path / "table.csv", "--column", "body", "-m", language_folder).message()
    assert message == f"{tmp_path}/table.csv has no column 'body', only 'id', 'text'; choose one with --column."


def test_split_on_spaces(run: Run, language_folder):
    found = json.loads(run("score", "--text", "the bank.", "--json", "--split-on-spaces", "-m", language_folder).out)
    assert found["words"] == ["the", "bank."]


def test_carried_state_goes_from_sentence_to_sentence(run: Run, language_folder):
    arguments = ["--text", "I went", "--text", "I went", "-m", language_folder, "--json"]
    first, second = (json.loads(line) for line in run("score", *arguments, "--state", "carry").out.splitlines())
    assert first["perplexity"] != pytest.approx(second["perplexity"], rel=1e-6)
    first, second = (json.loads(line) for line in run("score", *arguments).out.splitlines())
    assert first["perplexity"] == pytest.approx(second["perplexity"], rel=1e-6)


def test_nothing_to_score(run: Run):
    assert run("score").message().startswith("Nothing to read")


def test_a_model_without_a_softmax_cannot_score(run: Run, model_folder):
    assert "has no softmax" in run("score", "--text", "I", "-m", model_folder).message()
