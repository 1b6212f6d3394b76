"""Choosing a vocabulary, and the table of distinct words."""

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo.corpus.parts import BLOCK_TOKENS, choose_vocabulary, find_starts, write_table
from elmo.corpus.prepared import PreparedCorpus
from elmo.corpus.settings import PrepareSettings
from elmo.text.characters import Utf8Alphabet

WORDS = ["a", "b" * 48, "c" * 49, "d" * 200, "naïve", "你" * 16, "é" * 24 + "x", "\x00", "\r", "\u2028", "🙂🙂"]


VOCABULARY = ["<S>", "</S>", "<UNK>"]


def make_table(folder: Path, counts: dict[str, int]) -> PreparedCorpus:
    encoded = {word.encode(): counts[word] for word in sorted(counts)}
    write_table(encoded, 3, VOCABULARY, folder)
    names = ("num_words", "num_sentences", "num_tokens", "num_distinct_words")
    return PreparedCorpus(folder, {"counts": dict.fromkeys(names, 0), "shards": []})


def test_characters_equal_those_of_the_alphabet(tmp_path):
    table = make_table(tmp_path, dict.fromkeys(WORDS, 1))
    ids = np.random.default_rng(0).permutation(np.arange(1, len(WORDS) + 1))
    assert sorted(table.words(ids)) == sorted(WORDS)
    for max_characters in (3, 10, 50):
        expected = Utf8Alphabet(max_characters).encode(table.words(ids))
        assert np.array_equal(table.character_ids(ids, max_characters), expected)


def test_the_mark_is_row_0(tmp_path):
    table = make_table(tmp_path, {"a": 5})
    assert table.words([0, 1]) == ["", "a"]
    assert np.array_equal(table.character_ids([0])[0], Utf8Alphabet().boundaries()[0])
    assert np.load(tmp_path / "word_counts.npy").tolist() == [3, 5]
    assert table.character_ids([]).shape == (0, 50)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.sets(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1), min_size=1)
)
def test_any_words_round_trip(tmp_path_factory, words):
    table = make_table(tmp_path_factory.mktemp("table"), dict.fromkeys(words, 1))
    ids = np.arange(1, len(words) + 1)
    assert table.words(ids) == sorted(words)
    assert np.array_equal(table.character_ids(ids), Utf8Alphabet().encode(sorted(words)))


def test_targets_of_special_spellings_are_unknown(tmp_path):
    counts = {b"</S>": 1, b"<S>": 2, b"<UNK>": 4, b"cat": 8, b"dog": 16}
    _, num_unknown = write_table(counts, 3, ["</S>", "dog", "<UNK>", "<S>"], tmp_path)
    assert np.load(tmp_path / "word_targets.npy").tolist() == [3, 2, 2, 2, 2, 1]
    assert num_unknown == 1 + 2 + 4 + 8


def test_words_are_sorted_by_frequency_and_ties_are_stable():
    numbers = np.random.default_rng(0).integers(1, 6, 50).tolist()
    counts = {f"w{number:02}".encode(): count for number, count in enumerate(numbers)}
    expected = [word.decode() for word in sorted(counts, key=lambda word: (-counts[word], word))]
    assert choose_vocabulary(counts, PrepareSettings(vocabulary_size=12)) == [*VOCABULARY, *expected[:9]]
    assert choose_vocabulary(counts, PrepareSettings()) == [*VOCABULARY, *expected]
    frequent = [word for word in expected if counts[word.encode()] >= 5]
    assert choose_vocabulary(counts, PrepareSettings(min_count=5)) == [*VOCABULARY, *frequent]


def test_blocks_begin_at_marks_and_are_of_about_the_same_size():
    random = np.random.default_rng(0)
    lengths = random.integers(1, 80, 2000)
    lengths[700] = 3 * BLOCK_TOKENS
    tokens = np.concatenate([[0, *[1] * length] for length in lengths])
    starts = find_starts(tokens)
    sizes = np.diff(np.append(starts, len(tokens)))
    assert starts[0] == 0 and not tokens[starts].any()
    assert len(set(starts.tolist())) == len(starts)
    assert (np.abs(np.sort(sizes)[1:-1] - BLOCK_TOKENS) <= 81).all()
    assert sizes.max() >= 3 * BLOCK_TOKENS
