"""Probes find the informative layer, and report the number of examples."""

import numpy as np
import pytest

from elmo import InputError
from elmo.tasks import probe
from elmo.tasks.examples import SenseSentence, SenseTarget
from elmo.tasks.probes import (
    LabelledSentence,
    Score,
    SenseMeans,
    _embed_targets,
    draw_sentences,
    read_features,
    train_linear_probe,
)
from elmo.tasks.readers.datasets import read_first_senses
from tests.analysis.conftest import make_model

CONLLU = "{number}\t{word}\t_\t{tag}\t_\t{features}\t_\t_\t_\t_\n"


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture
def tagged(tmp_path):
    """Words whose tag is seen from their letters, with a feature for some."""
    draw = np.random.default_rng(0)
    words = {"cat": ("NOUN", "Number=Sing"), "cats": ("NOUN", "Number=Plur"), "runs": ("VERB", "Tense=Pres"),
             "ran": ("VERB", "Tense=Past"), "the": ("DET", "_")}  # fmt: skip
    paths = []
    for name, num_sentences in (("train", 120), ("test", 20)):
        lines = []
        for _ in range(num_sentences):
            for number, word in enumerate(draw.choice(list(words), size=6), start=1):
                tag, features = words[word]
                lines.append(CONLLU.format(number=number, word=word, tag=tag, features=features))
            lines.append("\n")
        paths.append(tmp_path / f"{name}.conllu")
        paths[-1].write_text("".join(lines))
    return {"train": str(paths[0]), "test": str(paths[1])}


def scores(result, name=None):
    return {row.name: row.scores[name or next(iter(row.scores))].mean for row in result.rows}


def test_a_linear_probe_identifies_the_informative_layer():
    draw = np.random.default_rng(0)
    labels = draw.integers(3, size=600)
    vectors = draw.standard_normal((600, 3, 8)).astype(np.float16)
    vectors[:, 1] += (5 * np.eye(3, 8)[labels]).astype(np.float16)
    names = [str(label) for label in labels]
    train, test = (vectors[:500], names[:500]), (vectors[500:], names[500:])
    result = train_linear_probe(train, test, seed=0, all_vectors=vectors[:500])
    layer_0, layer_1, layer_2, average, mix = result.accuracy
    assert layer_1 > 90 and max(layer_0, layer_2) < 60
    assert average < layer_1 and mix > 80
    assert result.mix_weights[1] > 0.5 and sum(result.mix_weights) == pytest.approx(1)


def test_scaling_uses_all_words_not_those_of_one_feature():
    draw = np.random.default_rng(0)
    all_vectors = draw.standard_normal((1000, 2, 8)).astype(np.float16)
    labels = draw.integers(2, size=400)
    vectors = draw.standard_normal((400, 2, 8)).astype(np.float16)
    vectors[:, :, 0] += (5 * labels[:, None]).astype(np.float16)
    vectors[:200, :, 1:] *= np.float16(1e-3)  # the words in training are alike in the other dimensions
    names = [str(label) for label in labels]
    result = train_linear_probe((vectors[:200], names[:200]), (vectors[200:], names[200:]), 0, all_vectors)
    assert result.accuracy.min() > 65  # chance is 50


def test_the_spread_of_resampled_examples_is_the_standard_error_of_their_mean():
    values = np.random.default_rng(0).normal(50, 10, size=400)
    score = Score.of_examples(lambda column: float(column.mean()), values)
    assert score.mean == values.mean() and score.spread_of == "resampling"
    assert score.spread == pytest.approx(10 / 400**0.5, rel=0.2)
    pairs = Score.of_examples(lambda one, other: float(np.corrcoef(one, other)[0, 1]), values, 2 * values)
    assert (pairs.mean, pairs.spread) == (pytest.approx(1), pytest.approx(0, abs=1e-6))  # columns stay paired


def test_tags_that_depend_on_the_spelling_are_predicted_from_every_layer(model, tagged):
    result = probe(model, "tagging", **tagged, seeds=(0, 1))
    assert list(scores(result)) == ["most frequent", "layer 0", "layer 1", "layer 2", "average", "learned mix"]
    assert scores(result)["layer 0"] == 100
    assert scores(result)["most frequent"] < 60
    assert result.counts == {
        "train_words": 720, "train_words_in_data": 720, "test_words": 120, "seeds": 2,
    }  # fmt: skip
    assert result.rows[1].scores["tag"].spread == 0


def test_each_feature_is_probed_on_words_that_have_it(model, tagged):
    result = probe(model, "features", **tagged, seeds=(0,))
    assert list(result.rows[0].scores) == ["mean", "Number", "Tense"]
    assert scores(result, "Number")["layer 0"] == 100
    assert result.rows[1].scores["mean"].spread is None  # one seed


def test_features_are_parsed():
    assert read_features(["Number=Sing|Person=3", "_"]) == ({"Number": "Sing", "Person": "3"}, {})
    with pytest.raises(InputError, match="'NOUN' is not a list of features"):
        read_features(["NOUN"])


def test_each_seed_draws_its_own_sentences():
    sentences = [LabelledSentence(("a", "b", "c"), ()) for _ in range(100)]
    drawn = [draw_sentences(sentences, 30, seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(len(sample) == 10 for sample in drawn)
    assert draw_sentences(sentences, 300, 0) == list(range(100))


def test_limits_are_respected_and_reported(model, tagged):
    result = probe(model, "tagging", **tagged, seeds=(0,), max_train_words=100)
    assert (result.counts["train_words"], result.counts["train_words_in_data"]) == (96, 720)
    assert result.counts["test_words"] == 120


def test_classes_of_texts(model, tmp_path):
    rows = [f"{'good' if number % 2 else 'bad'},{'nice film' if number % 2 else 'dull plot'}\n" for number in range(60)]
    (tmp_path / "texts.csv").write_text("label,text\n" + "".join(rows))
    path = str(tmp_path / "texts.csv")
    result = probe(model, "classification", train=path, test=path, seeds=(0,))
    assert scores(result)["layer 0"] == 100 and scores(result)["most frequent"] == 50


def test_similarity_is_correlated(model, tmp_path):
    draw = np.random.default_rng(0)
    rows = ["sentence1,sentence2,score\n"]
    for _ in range(40):
        words = draw.choice(["bank", "river", "money", "xylophone", "quick"], size=8)
        shared = draw.integers(9)
        rows.append(f"{' '.join(words)},{' '.join([*words[:shared], *['zebra'] * (8 - shared)])},{shared / 2}\n")
    (tmp_path / "pairs.csv").write_text("".join(rows))
    path = str(tmp_path / "pairs.csv")
    result = probe(model, "similarity", test=path)
    assert [row.name for row in result.rows] == ["layer 0", "layer 1", "layer 2", "average"]
    assert result.rows[0].scores["pearson"].mean > 70
    assert result.rows[0].scores["pearson"].spread_of == "resampling"


def target(sense, lemma="bank", pos="NOUN"):
    return SenseTarget("x", (0, 1), lemma, pos, (sense,))


def test_the_nearest_mean_decides_by_each_layer():
    means = SenseMeans()
    for sign in (1, -1):
        for shift in (0.1, -0.1):
            vector = np.zeros((2, 3), dtype=np.float32)
            vector[1] = (sign, shift, 0)  # layer 1 knows, layer 0 does not
            vector[0] = (0, shift, 1)
            means.add(target("a" if sign > 0 else "b"), vector)
    vectors = np.asarray([[0, 0.1, 1], [-1, 0, 0]], dtype=np.float32)
    assert means.nearest("bank#NOUN", vectors)[1] == "b"
    assert means.candidates("bank#NOUN") == ["a", "b"]


def write_senses(tmp_path, name, sentences):
    lines, keys = ["<corpus><text>"], []
    for number, (words, place, lemma, key) in enumerate(sentences):
        parts = [
            f'<instance id="s{number}" lemma="{lemma}" pos="NOUN">{word}</instance>' if place == at else
            f'<wf lemma="{word}" pos="X">{word}</wf>' for at, word in enumerate(words.split())
        ]  # fmt: skip
        lines.append(f'<sentence id="{number}">{"".join(parts)}</sentence>')
        keys.append(f"s{number} {key}")
    (tmp_path / f"{name}.data.xml").write_text("\n".join([*lines, "</text></corpus>"]))
    (tmp_path / f"{name}.gold.key.txt").write_text("\n".join(keys))
    return str(tmp_path / f"{name}.data.xml")


def test_senses_are_the_nearest_mean_or_else_the_first_sense(model, tmp_path):
    money, river = (
        ("pay the money bank now", 3, "bank", "bank%1:14:00::"),
        ("a green wet bank of", 3, "bank", "bank%1:17:01::"),
    )
    train = write_senses(tmp_path, "train", [money] * 4 + [river] * 3)
    test = write_senses(tmp_path, "test", [river, money, ("a tall tree here", 2, "tree", "tree%1:20:00::")])
    (tmp_path / "index.sense").write_text("tree%1:20:00:: 13104059 1 33\ntree%1:25:00:: 13912260 2 0\n")
    without = probe(model, "senses", train=train, test=test, seeds=(0,))
    assert scores(without)["layer 2"] == pytest.approx(200 / 3)
    assert scores(without)["layer 0"] == pytest.approx(100 / 3)  # the word alone has one vector for both
    result = probe(model, "senses", train=train, test=test, seeds=(0,), sense_index=str(tmp_path / "index.sense"))
    assert scores(result)["layer 2"] == 100
    assert scores(result)["first sense"] == pytest.approx(200 / 3)
    assert result.counts["test_targets_not_in_training"] == 1
    assert result.counts["train_targets"] == 7
    limited = probe(model, "senses", train=train, test=test, seeds=(0,), max_train_words=12)
    assert limited.counts["train_words"] == 15


def test_the_index_of_wordnet_is_parsed_or_rejected(tmp_path):
    path = tmp_path / "index.sense"
    path.write_text("good%5:00:00:moral:00 1 1 3\nwell%4:02:00:: 2 2 3\nNew_York%1:15:00:: 3 1 0\n")
    assert read_first_senses(path) == {"good#ADJ": "good%5:00:00:moral:00", "new_york#NOUN": "New_York%1:15:00::"}
    path.write_text("not an index\n")
    with pytest.raises(InputError, match=r"index.sense, line 1: .* is not a line of WordNet's index.sense"):
        read_first_senses(path)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("tagging", {"train": None}, "The probe tagging needs training examples"),
        ("tagging", {"sense_index": "x"}, "The index of senses is only for the senses probe"),
        (
            "tags",
            {},
            "There is no probe 'tags'",
        ),
    ],
)
def test_invalid_arguments_are_reported(model, tagged, kind, change, message):
    with pytest.raises(InputError) as caught:
        probe(model, kind, **{**tagged, **change})
    assert message in str(caught.value)


def test_the_meaning_of_a_phrase_is_that_of_embed_spans(fused_model):
    words = ("the", "river", "bank", "of", "money")
    target = SenseTarget("t", (1, 3), "river_bank", "NOUN", ("a",))
    ((_, (*layers, _, meaning)),) = _embed_targets(fused_model, [SenseSentence(words, (target,))])
    expected = fused_model.embed_spans(words, [(1, 3)], layers="meaning")[0]
    np.testing.assert_allclose(meaning, expected, atol=1e-6)
    np.testing.assert_allclose(layers[-1], fused_model.embed_spans(words, [(1, 3)], layers="top")[0], atol=1e-6)
