"""x: pretrained word vectors and characters of words."""

import numpy as np
import pytest
import torch

from elmo import InputError
from elmo.tasks.families.blocks import CharacterCnn, read_pretrained

SENTENCES = [("The", "cat"), ("Zebra",)]


def test_words_of_the_data_and_the_first_of_the_file_are_kept(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("4 2\nof 1 2\nthe 3 4\nzebra 5 6\nrare 7 8\n")
    words, vectors = read_pretrained(path, SENTENCES, num_kept=2)  # the first line has two counts
    assert words.words == ("of", "the", "zebra")
    assert words.ids(["The", "Zebra", "rare"]) == [3, 4, 1]
    np.testing.assert_array_equal(vectors[0], [0, 0])
    np.testing.assert_array_equal(vectors[1], [3, 4])  # the unknown word: the mean of all
    np.testing.assert_array_equal(vectors[4], [5, 6])


@pytest.mark.parametrize(("content", "message"), [("", "is it a word vector file"), ("the 1 x\n", "not a word")])
def test_a_file_without_vectors_is_reported(tmp_path, content, message):
    path = tmp_path / "vectors.txt"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_pretrained(path, SENTENCES, num_kept=1)


def test_the_character_vector_of_a_word_does_not_depend_on_the_batch():
    torch.manual_seed(0)
    network = CharacterCnn(7)
    vectors = network([("cat", "é"), ("é", "dog", "cat")], 3)
    assert vectors.shape == (2, 3, 7)
    assert torch.equal(vectors[0, 0], vectors[1, 2]) and torch.equal(vectors[0, 1], vectors[1, 0])
    assert not torch.equal(vectors[0, 0], vectors[1, 1])
    beside_a_longer_word = network([("cat", "dromedaries")], 2)
    assert torch.allclose(beside_a_longer_word[0, 0], vectors[0, 0])
