"""Commands reject binary files by name, and warn once about text in another script."""

import json

import pytest
import torch

from elmo import Elmo, InputError


@pytest.mark.parametrize(
    "command",
    [
        ["embed", "FILE"], ["embed", "FILE", "-o", "vectors"], ["encode", "FILE"], ["score", "FILE"],
        ["evaluate", "FILE"], ["prepare", "FILE", "-o", "corpus"],
        ["neighbors", "a [bank]", "--corpus", "FILE"], ["task", "train", "pos", "--train", "FILE", "-o", "run"],
    ],
)  # fmt: skip
def test_a_pdf_is_refused_by_every_command(run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paper.txt").write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    message = run(*["paper.txt" if part == "FILE" else part for part in command]).message()
    assert message.startswith("paper.txt, line 2, is not UTF-8 (byte 0xe2 at position 1)")
    assert [path.name for path in tmp_path.iterdir() if path.name != "corpus"] == ["paper.txt"]


def test_chinese_in_the_english_model_is_warned_of_in_one_line(run):
    answer = run("similarity", "我去[银]行", "河[岸]很高", "山[上]有雪", "-m", "en-small")
    assert answer.code == 0 and answer.out
    (line,) = answer.err.splitlines()
    assert line.startswith("elmo: warning: Most letters of this text are Han, but the model was trained on Latin")


def test_chinese_is_read_by_the_chinese_model_unless_another_one_is_named(run):
    sentences = ["他买了一部新的[苹果]手机", "[苹果]公司发布了新产品", "我每天吃一个[苹果]"]
    answer = run("similarity", *sentences, "--json")
    assert answer.err == "elmo: using the model zh-small for this text; --model chooses another one.\n"
    company, *fruit = (pair["cosine"] for pair in json.loads(answer.out)["pairs"])
    assert company > max(fruit) + 0.1
    assert answer.out == run("similarity", *sentences, "--json", "-m", "zh-small").out
    english = run("similarity", "An [apple] a day", "the [apple] tree", "--json")
    assert english.err == "" and json.loads(english.out)["sentences"][0]["words"][1] == "apple"


def test_an_index_is_searched_with_its_model_whatever_the_script_of_the_sentence(run, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("银行在河边。\n我去银行存钱。\nThe bank is closed.\n", encoding="utf-8")
    chinese, english = "他去[银行]取钱", "a [bank] by the river"
    for folder, built_for in ((tmp_path / "chinese", chinese), (tmp_path / "english", english)):
        assert run("neighbors", "--build", folder, "--corpus", text, built_for).code == 0
        for sentence in (chinese, english):
            answer = run("neighbors", sentence, "--corpus", folder)
            assert answer.code == 0 and "using the model" not in answer.err


@pytest.mark.parametrize(
    "command",
    [["substitutes", "他在[北京]大学学习"], ["score", "--text", "今天天气很好"], ["embed", "--text", "天气"]],
)
def test_every_command_with_a_text_chooses_the_model_by_its_script(run, command):
    answer = run(*command)
    assert answer.code == 0 and answer.err.startswith("elmo: using the model zh-small")


def test_a_name_in_place_of_a_checkpoint_is_explained():
    with pytest.raises(InputError) as caught:
        Elmo("en-small")
    assert "open a model with Elmo.from_pretrained('en-small')" in str(caught.value)


def test_a_prepared_corpus_is_no_index(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("I went to the bank .\n" * 3)
    assert run("prepare", "text.txt", "-o", "corpus", "--workers", 1).code == 0
    message = run("neighbors", "the [bank]", "--corpus", "corpus").message()
    assert message.startswith("corpus is not a folder of vectors")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_a_device_that_is_missing_is_not_offered(run):
    message = run("embed", "--text", "a", "--device", "cuda").message()
    assert message.startswith("The device 'cuda' cannot be used") and message.endswith("; choose cpu.")
