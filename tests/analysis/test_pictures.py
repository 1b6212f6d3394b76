"""Plots are complete, show every word, and warn of characters that no font has."""

import dataclasses
import functools
import json
import logging

import numpy as np
import pytest

from elmo import ConfigError, Elmo, InputError
from elmo.analysis import (
    compare_sentences,
    draw_senses,
    draw_similarity_map,
    map_senses,
    style,
)
from elmo.analysis.occurrences import Occurrence, join_words, read_query
from elmo.analysis.style import drawing, list_fonts
from elmo.analysis.word_map import name_senses


def make_occurrences(count):
    sentences = [join_words(f"the {number}th play was long".split(), "text", number) for number in range(count)]
    return [Occurrence(sentence, 2, 3) for sentence in sentences]


def test_a_similarity_map_has_the_cosines_of_each_layer(model, tmp_path):
    first, second = "I went to the bank", "a river $bank$"
    compared = compare_sentences(model, first, second, layers=["0", "top"])
    assert [*compared.cosines] == [0, 2]
    assert compared.second == ("a", "river", "$", "bank", "$")
    for layer, cosines in compared.cosines.items():
        expected = model.similarity("I went to the [bank]", "a river $[bank]$", layers=layer)
        assert cosines[4, 3] == pytest.approx(expected, abs=1e-5)
    draw_similarity_map(compared, tmp_path / "map.svg")
    drawn = (tmp_path / "map.svg").read_text()
    assert all(f">{word}<" in drawn for word in ("went", "river", "bank", "$", "layer 0", "layer 2"))
    assert list(tmp_path.iterdir()) == [tmp_path / "map.svg"]


@pytest.mark.parametrize(("sentence", "count"), [("", 0), ("word " * 61, 61)])
def test_sentences_that_cannot_be_drawn(model, sentence, count):
    with pytest.raises(InputError, match=f"The second sentence has {count} words"):
        compare_sentences(model, "a bank", sentence)


def make_two_senses(count):
    """Occurrences by turns of a football match and of a theatre, with vectors that tell them apart."""
    contexts = ("the football team will play a match on day {}", "a long play on the theatre stage in year {}")
    sentences = [contexts[number % 2].format(number).split() for number in range(count)]
    return [
        Occurrence(join_words(words, "text", number), words.index("play"), words.index("play") + 1)
        for number, words in enumerate(sentences)
    ]


def test_a_map_keeps_senses_apart_and_names_them_by_their_words(model, tmp_path):
    occurrences = make_two_senses(24)
    sense_map = map_senses(model, occurrences, layers=[2], num_senses=2)
    points = sense_map.points[2]
    assert sense_map.senses == (sense_map.senses[0], 1 - sense_map.senses[0]) * 12
    assert np.linalg.norm(points[0::2].mean(axis=0) - points[1::2].mean(axis=0)) > points[0::2].std()
    football, theatre = (sense_map.names[sense_map.senses[number]] for number in (0, 1))
    assert {"football", "team"} <= {*football} and {*theatre} & {"theatre", "stage"}
    assert not {*football} & {*theatre} and "play" not in (*football, *theatre)
    draw_senses(sense_map, tmp_path / "map.svg")
    drawn = (tmp_path / "map.svg").read_text()
    assert ", ".join(football) in drawn and "“play” in 24 sentences" in drawn
    json.dumps(sense_map.to_dict())


def test_a_map_of_one_sense_has_one_label(model, tmp_path):
    draw_senses(map_senses(model, make_occurrences(12), num_senses=1), tmp_path / "map.svg")
    assert "all occurrences" in (tmp_path / "map.svg").read_text()


BANKS = [
    *(f"she paid {what} into the [bank]" for what in ("cash", "her wages", "a cheque", "the loan", "some cash")),
    *(f"a {what} lay on the [bank] of the river" for what in ("boat", "wet boat", "tree", "dead fish", "net")),
]


def test_senses_fall_apart_from_layer_to_layer_on_equal_axes(model, tmp_path):
    found = map_senses(model, BANKS, num_senses=2)
    assert found.word == "bank" and list(found.points) == [0, 1, 2]
    assert np.allclose(found.points[0], 0)  # without its sentence the word is the same everywhere
    assert found.senses[:5] == (found.senses[0],) * 5 and found.senses[5:] == (1 - found.senses[0],) * 5
    money, river = (found.names[found.senses[number]] for number in (0, 9))
    assert {"paid", "cash"} <= {*money} and {"lay", "river"} <= {*river} and "bank" not in (*money, *river)
    for layer in (1, 2):
        spread = np.linalg.norm(found.points[layer] - found.points[layer].mean(axis=0), axis=1)
        assert 0 < spread.max() <= 2  # vectors of length 1
    draw_senses(found, tmp_path / "senses.svg")
    drawn = (tmp_path / "senses.svg").read_text()
    assert "“bank” in 10 sentences" in drawn and ", ".join(money) in drawn and "layer 0 (no context)" in drawn
    described = json.loads(json.dumps(found.to_dict()))
    assert [each["num_occurrences"] for each in described["senses"]] == [5, 5]
    assert [each["layer"] for each in described["layers"]] == [0, 1, 2]


def test_a_layer_is_turned_towards_the_last_one(model):
    found = map_senses(model, BANKS, layers=[1, 2], num_senses=2)
    one, other = found.points[1], found.points[2]
    left, _, right = np.linalg.svd(one.T @ other)
    assert np.allclose(left @ right, np.eye(2), atol=1e-3)


def test_chinese_senses_are_named_by_pairs_of_characters(model):
    sentences = ["我去银[行]存钱", "他在银[行]取款存钱", "火车在[行]走路上", "他们在[行]走路上"]
    occurrences = [read_query(sentence) for sentence in sentences]
    money, walk = name_senses(occurrences, [0, 0, 1, 1], model)
    assert money[0] == "存钱" and "取款" in money
    assert walk[0] == "走路" and "火车" in walk


def test_chinese_senses_are_named_by_words_as_the_language_model_ties_them():
    model = Elmo.from_pretrained("zh-small")
    fruit = ["她早餐吃了一个[苹果]", "妈妈买了香蕉和[苹果]", "秋天果园里的[苹果]熟了"]
    company = ["[苹果]公司发布了新款手机", "[苹果]在美国加州设有总部", "[苹果]推出了新的操作系统"]
    read = functools.partial(read_query, tokenization=model.tokenization)
    names = name_senses([*map(read, fruit), *map(read, company)], [0, 0, 0, 1, 1, 1], model)
    words = "早餐 妈妈 香蕉 秋天 果园 一个 公司 发布 手机 新款 美国 加州 设有 总部 推出 操作 系统 新的"
    assert {*names[0], *names[1]} <= {*words.split(" ")} and all(len(each) == 3 for each in names)


def test_senses_without_words_of_their_own_are_numbered(model):
    occurrences = [read_query(sentence) for sentence in ("the [bank]", "of [bank]", "a [bank] of the river")]
    assert name_senses(occurrences, [0, 0, 1], model) == [("sense 1",), ("river",)]
    assert name_senses(occurrences, [0, 0, 0], model) == [()]


@pytest.mark.parametrize(
    ("sentences", "options", "message"),
    [
        (BANKS[:2], {}, "needs at least 3 sentences with the word, but there are 2"),
        (BANKS[:3], {"num_senses": 4}, "4 senses were requested, but there are 3 different contexts"),
        ([*BANKS[:2], "no mark"], {}, "has 0 marked words"),
        (BANKS, {"layers": ["meaning"]}, "The layer is 'meaning'; this model has layers 0 to 2"),
    ],
)
def test_maps_of_senses_that_cannot_be_made(model, sentences, options, message):
    with pytest.raises(InputError, match=message):
        map_senses(model, sentences, **options)


def draw_text(path, text):
    with drawing(path, (2, 2)) as figure:
        figure.suptitle(text)


def test_characters_that_no_font_has_are_reported_once(tmp_path, caplog, capfd, monkeypatch):
    monkeypatch.setattr(style, "_CJK_FONTS", ())
    with caplog.at_level(logging.WARNING):
        draw_text(tmp_path / "x.png", "bank банк بنك")
        assert not caplog.records
        draw_text(tmp_path / "x.png", "银行 银")
    (record,) = caplog.records
    assert "has the characters 行 银, so boxes are drawn" in record.getMessage()
    assert "font" not in capfd.readouterr().err.replace(record.getMessage(), "")


def test_installed_fonts_with_chinese_characters_are_used(tmp_path, caplog, monkeypatch):
    from matplotlib import font_manager

    # A font without a bold face, which matplotlib would report for the title.
    entry = next(entry for entry in font_manager.fontManager.ttflist if entry.name == "STIXSizeOneSym")
    chinese = dataclasses.replace(entry, name="SimHei")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*font_manager.fontManager.ttflist, chinese])
    assert list_fonts()[0] == "DejaVu Sans" and "SimHei" in list_fonts() and "Malgun Gothic" not in list_fonts()
    with caplog.at_level(logging.WARNING):
        draw_text(tmp_path / "x.png", "银行")
    assert [record.name for record in caplog.records] == ["elmo.analysis.style"]


@pytest.mark.parametrize(("name", "message"), [("x.pdf", "should end in .png or .svg"), ("no/x.png", "does not exist")])
def test_names_that_are_no_pictures(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        draw_text(tmp_path / name, "x")


def test_a_drawing_that_fails_leaves_the_old_picture(tmp_path):
    path = tmp_path / "old.png"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), drawing(path, (2, 2)):
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install .*\[plot\]"):
        draw_text(tmp_path / "x.png", "x")


def test_the_words_of_a_picture_are_in_the_language_of_the_user(model, tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_LANG", "zh")
    draw_senses(map_senses(model, make_occurrences(12), num_senses=1), tmp_path / "map.svg")
    drawn = (tmp_path / "map.svg").read_text()
    assert "第 0 层" in drawn and "12 个句子里的“play”" in drawn and "layer" not in drawn.replace("<!-- layer", "")
