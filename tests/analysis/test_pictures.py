"""Pictures are whole, show every word, warn of characters no font has; labels do not cover each other."""

import itertools
import json
import logging
from pathlib import Path

import numpy as np
import pytest

from elmo import ConfigError, InputError
from elmo.analysis import (
    MixingWeights,
    compare_sentences,
    draw_learning_curves,
    draw_mixing_weights,
    draw_occurrence_map,
    draw_similarity_map,
    map_occurrences,
    mixing_weights,
)
from elmo.analysis.drawing import drawing
from elmo.analysis.fonts import choose_fonts
from elmo.analysis.label_placing import place_labels
from elmo.analysis.occurrences import Occurrence, join_words


def make_occurrences(count, labels=None):
    sentences = [join_words(f"the {number}th play was long".split(), "text", number) for number in range(count)]
    return [
        Occurrence(sentence, 2, 3, None if labels is None else labels[number % len(labels)])
        for number, sentence in enumerate(sentences)
    ]


def make_vectors(count):
    draw = np.random.default_rng(0)
    return (draw.standard_normal((count, 8)) + 6 * np.eye(2, 8)[np.arange(count) % 2]).astype(np.float32)


def test_a_similarity_map_has_the_cosines_of_each_layer(model, tmp_path):
    first, second = "I went to the bank", "a river $bank$"
    maps = compare_sentences(model, first, second, layers=["0", "top"])
    assert [each.layer for each in maps] == [0, 2]
    assert maps[0].second == ("a", "river", "$", "bank", "$")
    for each in maps:
        expected = model.similarity(first, second, index_a=4, index_b=3, layers=each.layer)
        assert each.cosines[4, 3] == pytest.approx(expected, abs=1e-5)
    draw_similarity_map(maps, tmp_path / "map.svg")
    drawn = (tmp_path / "map.svg").read_text()
    assert all(f">{word}<" in drawn for word in ("went", "river", "bank", "$", "layer 0", "layer 2"))
    assert list(tmp_path.iterdir()) == [tmp_path / "map.svg"]
    json.dumps(maps[0].to_dict())


@pytest.mark.parametrize(("sentence", "count"), [("", 0), ("word " * 61, 61)])
def test_sentences_that_cannot_be_drawn(model, sentence, count):
    with pytest.raises(InputError, match=f"The second sentence has {count} words; 1 to 60 can be compared"):
        compare_sentences(model, "a bank", sentence)


@pytest.mark.parametrize("projection", ["pca", "tsne"])
def test_a_map_of_occurrences_shows_groups_and_contexts(tmp_path, projection):
    occurrences = make_occurrences(24)
    found = map_occurrences("play", occurrences, make_vectors(24), projection=projection)
    assert set(found.groups) == {"cluster 1", "cluster 2"}
    assert found.points.shape == (24, 2)
    distance = np.linalg.norm(found.points[0::2].mean(axis=0) - found.points[1::2].mean(axis=0))
    assert distance > found.points[0::2].std()
    draw_occurrence_map(found, tmp_path / "map.svg")
    drawn = (tmp_path / "map.svg").read_text()
    assert "cluster 1 (12)" in drawn and "[play]" in drawn and "24 occurrences" in drawn
    json.dumps(found.to_dict())


def test_many_labels_are_gathered_under_others(tmp_path):
    labels = [f"label {number}" for number in range(11)]
    found = map_occurrences("play", make_occurrences(44, labels), make_vectors(44))
    assert set(found.groups) == set(labels)
    draw_occurrence_map(found, tmp_path / "map.svg")
    drawn = (tmp_path / "map.svg").read_text()
    assert "others (16)" in drawn and drawn.count("label ") >= 7


def test_a_map_needs_three_occurrences():
    with pytest.raises(InputError, match=r"'play' has 2 occurrence\(s\); a map needs at least 3"):
        map_occurrences("play", make_occurrences(2), make_vectors(2))


def test_labels_cover_neither_each_other_nor_the_frame(tmp_path):
    points = np.random.default_rng(0).standard_normal((60, 2)).astype(np.float32)
    with drawing(tmp_path / "labels.png", (6, 4)) as figure:
        axes = figure.subplots()
        axes.scatter(points[:, 0], points[:, 1])
        boxes = place_labels(
            figure, axes, points, [(point, f"label number {n}") for n, point in enumerate(points)]
        )
        frame = axes.get_window_extent()
    assert len(boxes) > 15
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert all(frame.x0 <= box.left and box.right <= frame.x1 for box in boxes)
    assert all(frame.y0 <= box.bottom and box.top <= frame.y1 for box in boxes)


def test_characters_that_no_font_has_are_told_once(caplog, monkeypatch):
    from matplotlib import font_manager

    monkeypatch.setattr(font_manager.fontManager, "ttflist", [
        entry for entry in font_manager.fontManager.ttflist if entry.name == "DejaVu Sans"
    ])  # fmt: skip
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    with caplog.at_level(logging.WARNING, logger="elmo"):
        assert choose_fonts(["bank", "банк", "بنك"]) == ["DejaVu Sans"]
        assert not caplog.records
        choose_fonts(["银行", "银"])
    (record,) = caplog.records
    assert "has the characters 行 银" in record.getMessage() and "--font" in record.getMessage()


def test_a_given_font_comes_first_and_a_wrong_one_is_told(tmp_path):
    from matplotlib import font_manager

    serif = font_manager.findfont("DejaVu Serif")
    assert choose_fonts(["bank"], Path(serif)) == ["DejaVu Serif", "DejaVu Sans"]
    (tmp_path / "no.ttf").write_text("no font")
    with pytest.raises(InputError, match=r"no.ttf is no font that can be read"):
        choose_fonts(["bank"], tmp_path / "no.ttf")


def test_fonts_that_came_later_are_found_and_the_plain_one_is_taken(monkeypatch):
    from matplotlib import font_manager

    from elmo.analysis.fonts import _other_fonts

    files = [font_manager.findfont(f"DejaVu Serif:{style}") for style in ("bold", "regular", "italic")]
    assert len(set(files)) == 3
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [])
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [*files, __file__])
    assert list(_other_fonts()) == [("DejaVu Serif", files[1])]


def test_another_font_is_taken_for_what_the_first_lacks(monkeypatch):
    from elmo.analysis import fonts

    known = {"plain": frozenset("abc"), "other": frozenset("银行"), "last": frozenset("银行x")}
    monkeypatch.setattr(fonts, "_characters", lambda path: known.get(path, frozenset("abc")))
    monkeypatch.setattr(fonts, "_other_fonts", lambda: iter([("Other", "other"), ("Last", "last")]))
    monkeypatch.setattr(fonts, "_register", lambda path: None)
    assert choose_fonts(["a银行"]) == ["DejaVu Sans", "Other"]
    assert choose_fonts(["a银x"]) == ["DejaVu Sans", "Other", "Last"]


def test_bars_of_mixes(tmp_path):
    mixes = [
        MixingWeights("tagger", "input", (0.2, 0.7, 0.1), 1.25),
        MixingWeights("tagger", "output", (0, 0, 1), 1),
    ]
    draw_mixing_weights(mixes, tmp_path / "mixes.svg")
    drawn = (tmp_path / "mixes.svg").read_text()
    for text in ("tagger (input)", "tagger (output)", "0.70", "γ 1.25", "layer 2"):
        assert text in drawn
    with pytest.raises(InputError, match="There are no mixes to draw"):
        draw_mixing_weights([], tmp_path / "mixes.svg")


def test_the_mixes_of_a_comparison_are_those_on_all_the_data(tmp_path):
    rows = [
        {"variant": variant, "fraction": fraction, "metric": "accuracy", "mean": 50 * fraction + 1, "spread": 1.0,
         "num_seeds": 2, "num_train": 10, "error_reduction": None, "mixes": mixes}
        for fraction in (0.1, 1.0)
        for variant, mixes in (
            ("baseline", []), ("learned", [{"weights": [fraction, 1 - fraction], "gamma": 2.0}]),
            ("top", [{"weights": [1.0], "gamma": 1.0}]),
        )
    ]  # fmt: skip
    folder = tmp_path / "compared"
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps({"rows": rows, "runs": []}))
    assert mixing_weights(folder) == (MixingWeights("compared, learned", "input", (1.0, 0.0), 2.0),)
    draw_learning_curves(folder, tmp_path / "curve.svg")
    assert "learned" in (tmp_path / "curve.svg").read_text()
    (folder / "results.json").write_text(json.dumps({"rows": rows[3:], "runs": []}))
    with pytest.raises(InputError, match="has one share of the training data"):
        draw_learning_curves(folder, tmp_path / "curve.svg")


@pytest.mark.parametrize(
    ("name", "message"), [("x.pdf", "should end in .png or .svg"), ("no/x.png", "There is no folder")]
)
def test_names_that_are_no_pictures(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        draw_mixing_weights([MixingWeights("t", "input", (1.0, 0.0), 1.0)], tmp_path / name)


def test_a_drawing_that_fails_leaves_the_old_picture(tmp_path):
    path = tmp_path / "old.png"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), drawing(path, (2, 2)):
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'modern-elmo\[plot\]'"):
        draw_mixing_weights([MixingWeights("t", "input", (1.0, 0.0), 1.0)], tmp_path / "x.png")
