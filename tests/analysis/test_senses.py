"""Clusters of occurrences: the right number, and one cluster if there is no structure."""

import numpy as np
import pytest

from elmo import InputError
from elmo.analysis import find_occurrences, induce_senses
from elmo.analysis.occurrences import Occurrence, join_words
from elmo.analysis.senses import find_clusters
from tests.language_models import make_language_model


def make_groups(sizes, dim=20, spread=0.25):
    draw = np.random.default_rng(5)
    centres = draw.standard_normal((len(sizes), dim))
    rows = [centre + spread * draw.standard_normal((size, dim)) for centre, size in zip(centres, sizes, strict=True)]
    return np.concatenate(rows).astype(np.float32)


@pytest.mark.parametrize("sizes", [(40,), (30, 20), (30, 20, 25), (60, 15, 30, 20)])
def test_the_number_of_clusters_is_found(sizes):
    clusters = find_clusters(make_groups(sizes))
    assert len(set(clusters.labels)) == len(sizes)
    assert sorted(np.bincount(clusters.labels).tolist(), reverse=True) == sorted(sizes, reverse=True)
    assert (clusters.silhouette is None) == (len(sizes) == 1)


def test_a_few_odd_ones_are_no_sense_of_their_own():
    vectors = make_groups((60, 1))
    assert len(set(find_clusters(vectors).labels)) == 1


@pytest.mark.parametrize("num_vectors", [1, 2, 9])
def test_few_or_equal_vectors_are_one_cluster(num_vectors):
    assert len(set(find_clusters(make_groups((num_vectors,))).labels)) == 1
    assert len(set(find_clusters(np.ones((num_vectors * 20, 4), dtype=np.float32)).labels)) == 1


@pytest.mark.parametrize(("separation", "num_clusters"), [(0.0, 1), (1.6, 2)])
def test_two_groups_of_few_vectors_in_many_dimensions_are_found(separation, num_clusters):
    vectors = np.random.default_rng(3).standard_normal((14, 300)).astype(np.float32) * 0.1
    vectors[:, 0] += 1
    vectors[:7, 1] += separation
    clusters = find_clusters(vectors)
    assert len(set(clusters.labels)) == num_clusters
    assert len(set(clusters.labels[:7])) == len(set(clusters.labels[7:])) == 1


def test_a_given_number_is_kept():
    assert len(set(find_clusters(make_groups((40,)), num_clusters=3).labels)) == 3
    with pytest.raises(InputError, match="3 senses were requested, but there are 1 different contexts"):
        find_clusters(np.ones((20, 4), dtype=np.float32), num_clusters=3)


@pytest.mark.slow
def test_a_hundred_thousand_vectors_are_clustered_as_a_part_of_them_is():
    clusters = find_clusters(make_groups((60_000, 40_000)))
    assert np.bincount(clusters.labels).tolist() == [60_000, 40_000]


def make_occurrences(num_each=12):
    """A word among others of one kind, or of another, so that any model tells them apart."""
    found = []
    for number in range(num_each):
        for before, after in (("the money to the", "went to the money to"), ("I . I", ". . I . .")):
            words = [*before.split(), "bank", *after.split(), *["the"] * (number % 3)]
            start = words.index("bank")
            found.append(Occurrence(join_words(words, "text", number), start, start + 1))
    return found


def test_senses_have_contexts_and_substitutes():
    model = make_language_model()
    found = induce_senses(model, "bank", make_occurrences(), num_senses=2, num_typical=2)
    assert found.numbers == (found.numbers[0], 1 - found.numbers[0]) * 12
    assert [sense.num_occurrences for sense in found.senses] == [12, 12]
    for sense in found.senses:
        assert len({each.sentence.words[0] for each in sense.typical}) == 1 and len(sense.typical) == 2
        assert sense.substitutes and "bank" not in [each.word for each in sense.substitutes]
        assert all(0 < each.probability <= 1 for each in sense.substitutes)
    first, second = ({each.word for each in sense.substitutes} for sense in found.senses)
    assert not first & second
    assert found.to_dict()["senses"][0]["typical"][0]["word"] == "bank"


def test_a_model_without_softmax_gives_no_substitutes(model):
    found = induce_senses(model, "bank", make_occurrences())
    assert all(sense.substitutes == () for sense in found.senses)


def test_no_and_one_occurrence(model):
    with pytest.raises(InputError, match="'bank' does not occur in the corpus"):
        induce_senses(model, "bank", [])
    found = induce_senses(model, "bank", make_occurrences()[:1])
    assert (len(found.senses), found.numbers) == (1, (0,))
    with pytest.raises(InputError, match="5 senses were requested, but there are 2 different contexts"):
        induce_senses(model, "bank", make_occurrences()[:2], num_senses=5)


def test_a_frequent_word_is_drawn_evenly_by_the_seed(texts):
    every, count = find_occurrences(texts, "BANK", max_occurrences=1000)
    assert count == len(every) == 39
    drawn = [find_occurrences(texts, "bank", max_occurrences=10, seed=seed)[0] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(len(each) == 10 and set(each) <= set(every) for each in drawn)


def test_a_hundred_thousand_occurrences_are_counted_and_a_sample_is_clustered(model, tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"the bank {number % 40}\n" for number in range(100_000)))
    drawn, count = find_occurrences([str(tmp_path / "text.txt")], "bank", max_occurrences=60)
    assert (len(drawn), count) == (60, 100_000)
    numbers = [each.sentence.number for each in drawn]
    assert numbers == sorted(numbers) and max(numbers) > 50_000
    found = induce_senses(model, "bank", drawn, num_found=count, num_typical=1)
    assert (found.num_found, len(found.numbers)) == (100_000, 60)
