"""Merging word lists, choosing a vocabulary, and the table of distinct words."""

from array import array
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo.corpus import parts as corpus_parts
from elmo.corpus.parts import (
    BLOCK_TOKENS,
    find_starts,
    map_part,
    merge_all,
    most_frequent,
    write_targets,
    write_words,
)
from elmo.corpus.prepared import WordTable
from elmo.files.workers import Workers
from elmo.text.characters import Utf8Alphabet

WORDS = ["a", "b" * 48, "c" * 49, "d" * 200, "naïve", "你" * 16, "é" * 24 + "x", "\x00", "\r", "\u2028", "🙂🙂"]


def write_list(folder: Path, counts: dict[str, int]) -> Path:
    folder.mkdir(parents=True)
    (folder / "words.txt").write_bytes("".join(f"{word}\n" for word in sorted(counts)).encode())
    (folder / "counts.bin").write_bytes(array("q", [counts[word] for word in sorted(counts)]))
    return folder


def make_table(folder: Path, counts: dict[str, int]) -> WordTable:
    write_words(write_list(folder / "merged", counts), folder, num_sentences=3)
    return WordTable(folder)


@pytest.mark.parametrize("num_parts", [1, 3, 4, 5, 17])
def test_lists_merged_in_rounds_equal_one_list(tmp_path, monkeypatch, num_parts):
    monkeypatch.setattr(corpus_parts, "LISTS_AT_ONCE", 4)
    monkeypatch.setattr(corpus_parts, "_WORDS_AT_ONCE", 50)
    random = np.random.default_rng(num_parts)
    counters = [Counter(f"w{number}" for number in random.zipf(1.3, 300)) for _ in range(num_parts)]
    counters[-1] = Counter()  # a part without a word
    parts = [write_list(tmp_path / f"{number}", counter) for number, counter in enumerate(counters)]
    merged = merge_all(parts, tmp_path / "merged", Workers(1))

    total = sum(counters, Counter())
    words = sorted(total)
    assert (merged / "words.txt").read_text().split() == words
    assert np.fromfile(merged / "counts.bin", np.int64).tolist() == [total[word] for word in words]
    for number, counter in enumerate(counters):
        ranks = map_part(tmp_path / "merged", number, num_parts)
        assert [words[rank] for rank in ranks] == sorted(counter)


def test_characters_equal_those_of_the_alphabet(tmp_path):
    table = make_table(tmp_path, dict.fromkeys(WORDS, 1))
    ids = np.random.default_rng(0).permutation(np.arange(1, len(table)))
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


def test_ids_outside_the_table_are_refused(tmp_path):
    table = make_table(tmp_path, {"a": 5})
    for number in (-1, 2):
        with pytest.raises(IndexError, match=f"word ids must be 0 to 1; {number} to {number} were given"):
            table.words([number])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.sets(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1), min_size=1)
)
def test_any_words_come_back(tmp_path_factory, words):
    table = make_table(tmp_path_factory.mktemp("table"), dict.fromkeys(words, 1))
    ids = np.arange(1, len(words) + 1)
    assert table.words(ids) == sorted(words)
    assert np.array_equal(table.character_ids(ids), Utf8Alphabet().encode(sorted(words)))


def test_targets_of_special_spellings_are_unknown(tmp_path):
    make_table(tmp_path, {"</S>": 1, "<S>": 2, "<UNK>": 4, "cat": 8, "dog": 16})
    _, num_unknown = write_targets(tmp_path / "merged", tmp_path, ["</S>", "dog", "<UNK>", "<S>"])
    assert np.load(tmp_path / "word_targets.npy").tolist() == [3, 2, 2, 2, 2, 1]
    assert num_unknown == 1 + 2 + 4 + 8


def test_frequent_words_come_first_and_ties_keep_their_order(monkeypatch):
    monkeypatch.setattr(corpus_parts, "_WORDS_AT_ONCE", 4)
    counts = np.random.default_rng(0).integers(1, 6, 50)
    expected = sorted(range(1, 50), key=lambda row: (-counts[row], row))
    assert most_frequent(counts, size=12).tolist() == expected[:12]
    assert most_frequent(counts).tolist() == expected
    assert most_frequent(counts, min_count=5).tolist() == [row for row in expected if counts[row] >= 5]


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
