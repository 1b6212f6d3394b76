"""Word vectors from text files: both formats, unusual words, and invalid lines."""

import gzip
import lzma

import numpy as np
import pytest

from elmo import InputError
from elmo.fusion.word_vectors import read_word_vectors


def write(tmp_path, text):
    path = tmp_path / "vectors.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("header", ["", "3 2\n"], ids=["GloVe", "word2vec"])
def test_only_the_requested_words_are_read(tmp_path, header):
    path = write(tmp_path, f"{header}the 1 2\nbank 3 4.5\n. . . 5 6\n")
    found = read_word_vectors(path, {"bank", ". . .", "unseen"})
    assert set(found) == {"bank", ". . ."}
    np.testing.assert_array_equal(found["bank"], np.array([3, 4.5], np.float32))
    np.testing.assert_array_equal(found[". . ."], np.array([5, 6], np.float32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2\nbank 1\n", "line 2 has 1 values, but line 1 has 2"),
        ("bank a b\n", "line 1 is not a word followed by numbers"),
        ("bank nan 1\n", "line 1 contains NaN or infinite values"),
        ("other 1 2\n", "has no vector for any word in the vocabulary"),
    ],
)
def test_files_that_are_no_word_vectors_are_explained(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_word_vectors(write(tmp_path, text), {"bank"})


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"No such file: '.*none.txt'"):
        read_word_vectors(tmp_path / "none.txt", {"bank"})


@pytest.mark.parametrize("compress", [gzip, lzma], ids=["gz", "xz"])
def test_compressed_files_are_read_and_damaged_ones_explained(tmp_path, compress):
    path = tmp_path / ("vectors.txt.gz" if compress is gzip else "vectors.txt.xz")
    packed = compress.compress(b"the 1 2\nbank 3 4.5\n" * 50)
    path.write_bytes(packed)
    np.testing.assert_array_equal(read_word_vectors(path, {"bank"})["bank"], np.array([3, 4.5], np.float32))
    path.write_bytes(packed[:-12])
    with pytest.raises(InputError, match="is truncated or damaged .* download or compress it again"):
        read_word_vectors(path, {"bank"})
