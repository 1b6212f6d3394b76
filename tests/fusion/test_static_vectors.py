"""Static vectors: words in similar contexts have similar vectors; bad input is reported in one sentence."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from elmo.corpus.prepare import prepare as prepare_corpus
from elmo.corpus.prepared import PreparedCorpus
from elmo.errors import InputError
from elmo.fusion import static_vectors
from elmo.fusion.static_vectors import (
    count_pairs,
    count_words,
    make_static_vectors,
    read_static_vectors,
    write_static_vectors,
)
from tests.two_topics import MONEY, RIVER


def prepare(folder, text):
    (folder / "text.txt").write_text(text)
    return prepare_corpus(
        [str(folder / "text.txt")], folder / "corpus", split="lines", vocabulary_size=50, num_workers=1
    )


def cosines(found, words):
    rows = found.vectors[[found.words.index(word) for word in words]]
    return rows @ rows.T


def test_pairs_are_counted_by_distance_within_sentences(tmp_path):
    corpus = prepare(tmp_path, "a b c\nc A\n")
    words = count_words(corpus, num_words=10)
    counts = count_pairs(corpus, words, window=8).toarray()
    row = {word: number for number, word in enumerate(words.words)}
    assert counts[row["a"], row["b"]] == 1
    assert counts[row["a"], row["c"]] == 1 / 2 + 1  # "a b c", and "c A": spellings are counted together
    assert counts[row["b"], row["c"]] == 1
    assert np.array_equal(counts, counts.T)
    assert words.counts[row["a"]] == 2 and words.num_words == 5
    narrow = count_pairs(corpus, words, window=1).toarray()
    assert narrow[row["a"], row["c"]] == 1


def test_too_many_pairs_lose_the_rarest_ones(topics_corpus, monkeypatch):
    corpus = PreparedCorpus.open(topics_corpus)
    words = count_words(corpus, num_words=100)
    whole = count_pairs(corpus, words, window=8)
    monkeypatch.setattr(static_vectors, "_MOST_PAIRS", 60)
    fewer = count_pairs(corpus, words, window=8)
    assert fewer.nnz < whole.nnz
    assert fewer.max() == pytest.approx(whole.max())


def make_counts(num_words=3000, num_pairs=500_000):
    draw = np.random.default_rng(0)
    rows, columns = np.sort((draw.random((2, num_pairs)) ** 2 * num_words).astype(np.int32), axis=0)
    shares = (1 / draw.integers(1, 9, num_pairs)).astype(np.float32)
    return sparse.coo_matrix((shares, (rows, columns)), shape=(num_words, num_words)).tocsr()


def test_information_is_that_of_the_formula_whatever_is_computed_at_once(monkeypatch):
    triangle = make_counts(200, 4000)
    pairs = triangle + triangle.T.tocsr()
    counts = pairs.toarray().astype(np.float64)
    sums = counts.sum(axis=1)
    contexts = sums**0.75 / (sums**0.75).sum()
    with np.errstate(divide="ignore"):
        expected = np.maximum(np.log(counts / sums[:, None] / contexts), 0)
    for at_once in (1 << 20, 700):
        monkeypatch.setattr(static_vectors, "_PAIRS_AT_ONCE", at_once)
        found = static_vectors._weigh(pairs.copy())
        assert found.dtype == np.float32 and found.nnz == (expected > 0).sum()
        np.testing.assert_allclose(found.toarray(), expected, rtol=1e-5, atol=1e-5)


def test_memory_is_bounded_by_the_pairs(monkeypatch):
    triangle = make_counts()
    pairs = triangle + triangle.T.tocsr()
    monkeypatch.setattr(static_vectors, "_PAIRS_AT_ONCE", 1 << 14)
    tracemalloc.start()
    try:
        static_vectors._weigh(pairs)
        weighing = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert weighing < 6 * triangle.nnz


def test_words_of_one_topic_are_nearer_than_words_of_two(topics_corpus):
    found = make_static_vectors(PreparedCorpus.open(topics_corpus), dim=4)
    within = [cosines(found, topic)[np.triu_indices(6, 1)].min() for topic in (MONEY, RIVER)]
    across = cosines(found, [*MONEY, *RIVER])[:6, 6:].max()
    assert min(within) > across
    assert np.allclose(np.linalg.norm(found.vectors, axis=1), 1, atol=1e-5)
    assert found.frequencies.sum() == pytest.approx(1)
    assert "bank" in found.words and "Bank" not in found.words


def test_the_same_corpus_gives_the_same_vectors(topics_corpus):
    one, two = (make_static_vectors(PreparedCorpus.open(topics_corpus), dim=4) for _ in range(2))
    assert np.array_equal(one.vectors, two.vectors)


def test_a_written_file_is_read_again(topics_corpus, tmp_path):
    made = make_static_vectors(PreparedCorpus.open(topics_corpus), dim=4)
    write_static_vectors(made, tmp_path / "vectors.txt")
    read = read_static_vectors(tmp_path / "vectors.txt", PreparedCorpus.open(topics_corpus))
    assert read.words == made.words
    # Centring vectors of length 1 again moves them a little; what is near stays near.
    assert np.corrcoef((read.vectors @ read.vectors.T).ravel(), (made.vectors @ made.vectors.T).ravel())[0, 1] > 0.95


def test_glove_files_without_a_first_line_are_read(topics_corpus, tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("money 1 0 0\nriver 0 1 0\nbank 0.5 0.5 0\nelsewhere 0 0 1\n")
    found = read_static_vectors(path, PreparedCorpus.open(topics_corpus))
    assert set(found.words) == {"money", "river", "bank"}
    assert found.vectors.shape == (3, 3)


def test_rows_in_lower_case_go_before_the_usual_spelling(tmp_path):
    corpus = prepare(tmp_path, "the bank of Paris\nThe Bank of Paris\nthe BANK of Paris and the sea\n")
    (tmp_path / "vectors.txt").write_text("Bank 9 9\nbank 1 0\nParis 0 1\nSea 5 5\nThe 7 7\nthe -1 -1\nof 0 0.5\n")
    found = read_static_vectors(tmp_path / "vectors.txt", corpus)
    assert set(found.words) == {"the", "of", "paris", "bank"}  # "Sea" is neither in lower case nor usual
    rows = np.array([[-1, -1], [0, 0.5], [0, 1], [1, 0]], np.float32)
    rows -= rows.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    order = [found.words.index(word) for word in ("the", "of", "paris", "bank")]
    np.testing.assert_allclose(found.vectors[order], rows, atol=1e-6)


def test_invalid_requests_are_reported(topics_corpus, tmp_path):
    with pytest.raises(InputError, match="dim is 400; it must be less than the number of words"):
        make_static_vectors(PreparedCorpus.open(topics_corpus), dim=400)
    with pytest.raises(InputError, match="num_words is 0"):
        make_static_vectors(PreparedCorpus.open(topics_corpus), num_words=0)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(InputError, match="has no vector for any word"):
        read_static_vectors(tmp_path / "empty.txt", PreparedCorpus.open(topics_corpus))
