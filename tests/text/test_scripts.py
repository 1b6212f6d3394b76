"""Text in a script that a model has hardly seen gives one warning."""

import warnings

import pytest

from elmo import Elmo
from elmo.text.units import ScriptWatch, UnfamiliarScriptWarning, main_script, script_of

ENGLISH = ["the", "bank", "river", "naïve", "Ω"] + ["money"] * 20


@pytest.mark.parametrize(
    ("character", "script"),
    [
        ("a", "Latin"),
        ("é", "Latin"),
        ("银", "Han"),
        ("я", "Cyrillic"),
        ("ひ", "Hiragana"),
        ("1", None),
        (".", None),
    ],
)
def test_script_of_a_character(character, script):
    assert script_of(character) == script


@pytest.mark.parametrize(
    ("text", "script"), [("我 去 银行 the", "Han"), ("Привет мир OK", "Cyrillic"), ("こんにちは 世界", "Hiragana")]
)
def test_a_text_mostly_in_another_script_is_warned_of_once(text, script):
    watch = ScriptWatch(ENGLISH, {})
    with pytest.warns(UnfamiliarScriptWarning, match=f"Most letters of this text are {script}, but the model was "):
        watch.check([text.split()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch.check([text.split()])


@pytest.mark.parametrize(
    "text", ["the bank", "café déjà vu", "the bank of 中国 is here", "1 2 3 !", "", "👍 🎉", "“the” — bank"]
)
def test_other_text_is_not(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ScriptWatch(ENGLISH, {}).check([text.split()])


def test_a_model_without_a_vocabulary_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ScriptWatch(None, {}).check([["银", "行"]])


@pytest.mark.parametrize("call", ["embed", "encode", "score", "substitutes", "similarity"])
def test_every_way_to_read_text_warns(call):
    model = Elmo.from_pretrained()
    with pytest.warns(UnfamiliarScriptWarning, match="are Han, but the model was trained on Latin text"):
        if call == "similarity":
            model.similarity("我去[银]行", "河[岸]很高")
        elif call == "substitutes":
            model.substitutes("我去[银]行")
        else:
            getattr(model, call)("我去银行存钱")


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("我用Python写代码", "Han"),
        ("我的iPhone没电了", "Han"),
        ("打开 Windows 系统", "Han"),
        ("iPhone 15 Pro Max 手机", "Han"),
        ("The word 银行 means bank in Chinese", "Latin"),
        ("hello", "Latin"),
        ("Я живу в Москве", "Cyrillic"),
        ("123 !", None),
    ],
)
def test_a_substantial_share_of_han_characters_makes_a_text_chinese(text, script):
    assert main_script([text]) == script
