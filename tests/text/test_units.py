"""Words -> the tokens of a model: scripts split into characters, aliases, and joining tokens."""

import pytest

from elmo import ConfigError
from elmo.config import ModelConfig, TokenizationConfig
from elmo.text.tokenize import split_sentences
from elmo.text.units import Tokenization

CHARACTERS = Tokenization(TokenizationConfig("characters"), {"蘋": "苹", "買": "买"})


def test_a_model_of_words_reads_given_words_as_they_are():
    read = Tokenization().split_words(["我", "每天", "吃", "苹果"])
    assert read.tokens == ["我", "每天", "吃", "苹果"] and read.num_tokens is None


def test_a_model_of_characters_splits_given_words_like_text():
    read = CHARACTERS.split_words(["我", "每天", "吃", "苹果", "iPhone手机", "2008年"])
    assert read.tokens == ["我", "每", "天", "吃", "苹", "果", "iPhone", "手", "机", "2008", "年"]
    assert read.num_tokens == [1, 2, 1, 2, 3, 2]
    assert read.ranges() == [(0, 1), (1, 3), (3, 4), (4, 6), (6, 9), (9, 11)]
    assert CHARACTERS.count(["每天", "吃"]) == 3


def test_a_word_without_a_unit_stays_one():
    assert CHARACTERS.split_words([" ", "", "吃"]).tokens == [" ", "", "吃"]


def test_aliases_and_full_width_letters_are_read_as_other_units_but_not_shown():
    assert CHARACTERS.split_words(["蘋果", "買", "３５", "ＡＢ"]).tokens == ["苹", "果", "买", "35", "AB"]
    assert [word.text for word in CHARACTERS("蘋果３５")] == ["蘋", "果", "３５"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("他在2008年买了iPhone手机。", "他 在 2008 年 买 了 iPhone 手 机 。"),
        ("《红楼梦》（又名石头记），100%！", "《 红 楼 梦 》 （ 又 名 石 头 记 ） ， 100 % ！"),
        ("「臺灣」的面積約３．６萬平方公里……", "「 臺 灣 」 的 面 積 約 ３ ． ６ 萬 平 方 公 里 … …"),
    ],
)
def test_punctuation_latin_and_digits_inside_chinese(text, words):
    words_of_text = CHARACTERS(text)
    assert [word.text for word in words_of_text] == words.split()
    assert all(text[word.start : word.end] == word.text for word in words_of_text)


def test_configured_scripts_are_split_into_letters():
    kana = Tokenization(TokenizationConfig("characters", ("Han", "Hiragana", "Katakana")))
    assert [word.text for word in kana("データを見る")] == list("データを見る")
    thai = Tokenization(TokenizationConfig("characters", ("Thai",)))
    assert [word.text for word in thai("ที่นี่")] == ["ที่", "นี่"]  # marks belong to their letter


def test_units_are_joined_as_they_are_written():
    assert CHARACTERS.join(["苹", "果"]) == "苹果"
    assert CHARACTERS.join(["iPhone", "手", "机"]) == "iPhone手机"
    assert CHARACTERS.join(["New", "York"]) == "New York"


def test_old_configurations_have_the_tokenization_of_words():
    values = ModelConfig().to_dict()
    assert "tokenization" not in values
    assert ModelConfig.from_dict(values).tokenization == TokenizationConfig("words", ("Han",))
    own = ModelConfig(tokenization=TokenizationConfig("characters", ("Han", "Hiragana")))
    assert ModelConfig.from_dict(own.to_dict()) == own


def test_wrong_tokenizations_are_explained():
    with pytest.raises(ConfigError, match="tokenization.scripts is 'Klingon'"):
        ModelConfig.from_dict({"tokenization": {"scripts": ["Klingon"]}})
    with pytest.raises(ConfigError, match="tokenization.scripts is empty, but units is 'characters'"):
        ModelConfig(tokenization=TokenizationConfig("characters", ()))


def test_chinese_sentences_end_at_their_marks_and_closing_quotes():
    text = "他问：“你吃了吗？”我说：“吃了。”然后我们走了！版本3.5发布了。真的吗？！是的"
    assert split_sentences(text, language="zh") == [
        "他问：“你吃了吗？”", "我说：“吃了。”", "然后我们走了！", "版本3.5发布了。", "真的吗？！", "是的",
    ]  # fmt: skip
