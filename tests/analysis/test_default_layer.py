"""Senses, maps and the sense probe use "meaning" if the model has a context layer."""

import json

import numpy as np
import pytest

from elmo.analysis import find_occurrences, induce_senses, map_senses
from elmo.inference.context import normalize
from elmo.tasks.examples import SenseSentence, SenseTarget
from elmo.tasks.probes import probe_senses
from tests.cli.conftest import Run, run  # noqa: F401
from tests.two_topics import MONEY, make_topics


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "topics.txt"
    path.write_text(make_topics(60, seed=3))
    return path


def test_senses_of_a_fused_model_go_by_meaning(fused_model, corpus):
    occurrences, _ = find_occurrences([str(corpus)], "bank")
    by_default, by_meaning, by_top = (
        induce_senses(fused_model, "bank", occurrences, layer=layer, num_senses=2) for layer in (None, "meaning", "top")
    )
    assert by_default == by_meaning
    assert by_default.silhouette != by_top.silhouette


def test_a_map_of_a_fused_model_goes_by_meaning(fused_model, corpus):
    occurrences, _ = find_occurrences([str(corpus)], "bank")
    points = map_senses(fused_model, occurrences).points
    assert list(points) == [*range(fused_model.num_layers), "meaning"]
    (by_meaning,) = map_senses(fused_model, occurrences, layers=["meaning"]).points.values()
    by_default, by_top = points["meaning"], points[fused_model.num_layers - 1]
    np.testing.assert_array_equal(by_default, by_meaning)
    assert not np.allclose(by_default, by_top, atol=1e-3)


def test_the_command_goes_by_meaning(run: Run, fused_model, corpus, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    fused_model.save_pretrained("fused")
    shared = ["senses", "bank", "--senses", "2", "--corpus", corpus, "--split", "lines", "-m", "fused", "--json"]
    by_default, by_meaning, by_top = (
        json.loads(run(*shared, *layers).out) for layers in ([], ["--layers", "meaning"], ["--layers", "top"])
    )
    assert by_default == by_meaning != by_top


def make_targets(text):
    """Yield the sentences with the word bank; its sense is their topic."""
    for line in text.lower().splitlines():
        words = tuple(line.split())
        if "bank" in words:
            place = words.index("bank")
            key = "money" if set(words) & set(MONEY) else "river"
            yield SenseSentence(words, (SenseTarget("t", (place, place + 1), "bank", "NOUN", (key,)),))


def test_the_probe_of_senses_has_a_row_by_meaning(fused_model, tiny_model):
    train, test = list(make_targets(make_topics(40, seed=1))), list(make_targets(make_topics(80, seed=2)))
    found = probe_senses(fused_model, train, test)
    rows = {row.name: row.scores["senses"].mean for row in found.rows}

    def embed(sentences):
        vectors = [fused_model.embed_spans(each.words, [each.targets[0].span], layers="meaning") for each in sentences]
        return normalize(np.concatenate(vectors)), np.array([each.targets[0].keys[0] for each in sentences])

    known, keys = embed(train)
    vectors, right = embed(test)
    names = np.array(["money", "river"])
    means = normalize(np.stack([known[keys == name].mean(axis=0) for name in names]))
    expected = 100 * float((names[(vectors @ means.T).argmax(axis=1)] == right).mean())
    assert rows["meaning"] == pytest.approx(expected) and rows["meaning"] > rows["layer 2"]
    assert "meaning" not in [row.name for row in probe_senses(tiny_model, train, test).rows]
