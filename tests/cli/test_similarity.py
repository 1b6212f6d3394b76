import json

import numpy as np
import pytest

from tests.cli.conftest import Run

MONEY = "I went to the [bank] to deposit money"
RIVER = "I sat by the [bank] of the river"
RATES = "The [central bank] raised its rates"


def test_two_sentences_give_one_line(run: Run, model_folder, tiny_model):
    answer = run("similarity", MONEY, RIVER, "-m", model_folder)
    cosine = tiny_model.similarity(MONEY, RIVER)
    assert (answer.code, answer.out, answer.err) == (0, f"{cosine:.3f}  {MONEY}  ~  {RIVER}\n", "")


@pytest.mark.parametrize(("given", "layers"), [("top", "top"), ("0", 0), ("concat", "concat"), ("1,2,3", [1, 2, 3])])
def test_layers(run: Run, model_folder, tiny_model, given, layers):
    answer = run("similarity", MONEY, RIVER, "-m", model_folder, "--layers", given, "--json")
    expected = tiny_model.similarity(MONEY, RIVER, layers=layers)
    assert json.loads(answer.out)["pairs"][0]["cosine"] == pytest.approx(expected, abs=1e-6)


def test_more_sentences_give_a_matrix(run: Run, model_folder, tiny_model):
    answer = run("similarity", MONEY, RIVER, RATES, "-m", model_folder)
    sentences, table = answer.out.split("\n\n")
    assert sentences.splitlines() == [f"    1  {MONEY}", f"    2  {RIVER}", f"    3  {RATES}"]
    given = [MONEY, RIVER, RATES]
    rows = [row.split() for row in table.splitlines()]
    assert rows[0] == ["1", "2", "3"]
    for number, (a, row) in enumerate(zip(given, rows[1:], strict=True), start=1):
        assert row == [str(number), *(f"{tiny_model.similarity(a, b):.3f}" for b in given)]


def test_twenty_sentences_are_not_cut_to_the_terminal(run: Run, model_folder):
    answer = run("similarity", *[MONEY] * 20, "-m", model_folder)
    assert answer.out.splitlines()[-1].split() == ["20", *["1.000"] * 20]


def test_each_layer_by_itself(run: Run, model_folder, tiny_model):
    answer = run("similarity", MONEY, RIVER, "-m", model_folder, "--by-layer")
    expected = [tiny_model.similarity(MONEY, RIVER, layers=layer) for layer in range(3)]
    heading, row = answer.out.splitlines()[-2:]
    assert heading.split() == ["layer", "0", "layer", "1", "layer", "2"]
    assert row.split() == ["1", "~", "2", *(f"{cosine:.3f}" for cosine in expected)]
    assert row.split()[3] == "1.000"  # without its sentence, the word is the same


def test_json_by_layer(run: Run, model_folder, tiny_model):
    found = json.loads(run("similarity", MONEY, RIVER, RATES, "-m", model_folder, "--by-layer", "--json").out)
    assert [(sentence["start"], sentence["end"]) for sentence in found["sentences"]] == [(4, 5), (4, 5), (1, 3)]
    assert found["sentences"][1]["words"] == ["I", "sat", "by", "the", "bank", "of", "the", "river"]
    assert [(pair["a"], pair["b"]) for pair in found["pairs"]] == [(0, 1), (0, 2), (1, 2)]
    expected = [tiny_model.similarity(MONEY, RATES, layers=layer) for layer in range(3)]
    assert found["pairs"][1]["cosine_by_layer"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("brackets", ["[]", "【】", "［］", "「」"])
def test_brackets_of_chinese_keyboards_mark_words(run: Run, model_folder, brackets):
    left, right = brackets
    answer = run("similarity", f"我在{left}银行{right}存钱", f"我坐在{left}河岸{right}上", "-m", model_folder)
    assert answer.out.endswith("  我在[银行]存钱  ~  我坐在[河岸]上\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([MONEY], "One sentence was given"),
        ([MONEY, "no mark"], "'no mark' has 0 marked words"),
        ([MONEY, RIVER, "--by-layer", "--layers", "top"], "--by-layer shows every layer"),
        ([MONEY, RIVER, "--layers", "all"], "--layers is 'all'"),
        ([MONEY, RIVER, "--layers", "foo"], "layers is 'foo'"),
        ([MONEY, "a [\udcff]"], "is not UTF-8"),
    ],
)
def test_mistakes(run: Run, arguments, message):
    assert message in run("similarity", *arguments).message()


def test_sentences_without_marks_are_compared_as_sentences(run: Run, model_folder, tiny_model):
    answer = run("similarity", "I went home", "I walked home", "-m", model_folder)
    first, second = tiny_model.encode(["I went home", "I walked home"])
    cosine = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    assert answer.out == f"{cosine:.3f}  I went home  ~  I walked home\n"


def test_whole_sentences_take_no_layers(run: Run):
    answer = run("similarity", "I went home", "I walked home", "--by-layer")
    assert "Whole sentences are compared by one vector each" in answer.message()


@pytest.mark.parametrize("empty", ["", " \t"])
def test_a_sentence_without_words_is_not_compared(run: Run, model_folder, empty):
    answer = run("similarity", "I went home", empty, "-m", model_folder)
    assert f"The sentence {empty!r} has no words, so there is nothing to compare" in answer.message()


def test_names_of_files_are_no_sentences(run: Run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("I went home\n")
    message = run("similarity", "a.txt", "b.txt").message()
    assert "'a.txt' is the name of a file, but similarity takes the sentences themselves" in message
    assert run("similarity", "a.txt", "no file").code == 0


def test_whole_sentences_of_one_topic_are_nearer(run: Run):
    answer = run(
        "similarity",
        "How do I reset my password?",
        "I forgot my login password",
        "How do I bake a cake?",
        "--json",
    )
    cosines = {(pair["a"], pair["b"]): pair["cosine"] for pair in json.loads(answer.out)["pairs"]}
    assert cosines[0, 1] > cosines[0, 2]


def test_by_layer_shows_the_meaning_that_the_plain_command_shows(run: Run):
    pair = ("I went to the [bank] to deposit money", "I sat by the [bank] of the river")
    plain = json.loads(run("similarity", *pair, "--json").out)["pairs"][0]["cosine"]
    by_layer = json.loads(run("similarity", *pair, "--by-layer", "--json").out)["pairs"][0]
    assert by_layer["cosine_by_meaning"] == pytest.approx(plain)
    heads, row = run("similarity", *pair, "--by-layer").out.splitlines()[-2:]
    assert heads.split()[-1] == "meaning" and row.split()[-1] == f"{plain:.3f}"
