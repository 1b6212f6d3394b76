"""Windows of packed rows: inputs, targets, and positions that make resuming exact."""

import itertools

import numpy as np
import pytest
import torch

from elmo.config import ModelConfig, WordConfig
from elmo.corpus.prepared import PreparedCorpus
from elmo.pretrain.stream import BlockReader, Position, TokenReader, read_ahead, read_windows
from elmo.text.batch import BEGIN_ROW, END_ROW


@pytest.fixture(scope="module")
def corpus(corpus_folder):
    return PreparedCorpus.open(corpus_folder)


def make(corpus, *, rows=range(4), position=None, num_rows=4, num_steps=7, **changes):
    settings = {"seed": 3, "reset_at_sentences": True, **changes}
    tokens = TokenReader(corpus, ModelConfig(words=WordConfig(len(corpus.vocabulary), 8)))
    position = position or Position(tuple(rows), (0,) * len(rows))
    return read_windows(tokens, num_rows=num_rows, num_steps=num_steps, position=position, **settings)


def spell(corpus, batch, direction):
    """The words of a window as text, (T, B), with marks for the boundaries."""
    words = np.array(["<S>", "</S>", *(corpus.vocabulary[number] for number in batch.word_ids[2:].tolist())])
    return words[batch.word_index[direction].numpy()]


def test_left_to_right_predicts_the_next_word_and_right_to_left_the_previous_one(corpus):
    stream = make(corpus, num_steps=400)
    batch = next(stream)
    vocabulary = np.array(corpus.vocabulary)
    left_to_right, left_to_right_targets = spell(corpus, batch, 0)[:, 0], vocabulary[batch.targets[0].numpy()][:, 0]
    text = " ".join(left_to_right)
    sentences = [part.split() for part in text.split("<S>") if part.strip()]
    for words in sentences[:-1]:
        assert words[0] == "the" and words[-1] == "."
    assert list(left_to_right_targets[:-1]) == [word if word != "<S>" else "</S>" for word in left_to_right[1:]]
    right_to_left, right_to_left_targets = spell(corpus, batch, 1)[:, 0], vocabulary[batch.targets[1].numpy()][:, 0]
    reversed_sentences = [part.split() for part in " ".join(right_to_left).split("</S>") if part.strip()]
    assert reversed_sentences[:-1] == [words[::-1] for words in sentences[:-1]]
    assert list(right_to_left_targets[:-1]) == [word if word != "</S>" else "<S>" for word in right_to_left[1:]]


def test_rows_are_reset_at_sentence_starts_if_requested(corpus):
    batch = next(make(corpus))
    starts = batch.word_index[0] == BEGIN_ROW
    assert starts.any() and torch.equal(batch.keep == 0, starts)
    assert torch.equal(starts, batch.word_index[1] == END_ROW)
    assert next(make(corpus, reset_at_sentences=False)).keep.all()


def test_each_distinct_word_is_there_once(corpus):
    batch = next(make(corpus))
    assert len(torch.unique(batch.char_ids, dim=0)) == len(batch.char_ids)
    assert batch.word_index.max() == len(batch.char_ids) - 1


def test_a_stream_goes_on_from_the_position_of_any_batch(corpus):
    stream = make(corpus)
    batches = list(itertools.islice(stream, 60))
    resumed = make(corpus, position=batches[29].position)
    for expected in batches[30:]:
        actual = next(resumed)
        assert torch.equal(actual.targets, expected.targets) and actual.position == expected.position


def test_rows_do_not_depend_on_the_number_of_processes(corpus):
    whole = make(corpus)
    halves = [make(corpus, rows=range(0, 2)), make(corpus, rows=range(2, 4))]
    for _ in range(40):
        expected = next(whole)
        parts = [next(half) for half in halves]
        assert torch.equal(expected.targets, torch.cat([part.targets for part in parts], dim=2))


def test_an_epoch_reads_every_block_once_and_the_next_in_another_order(corpus):
    num_blocks = len(corpus.blocks())
    reader = BlockReader(corpus, seed=3)
    first = [reader.load(number)[0].tobytes() for number in range(num_blocks)]
    second = [reader.load(number)[0].tobytes() for number in range(num_blocks, 2 * num_blocks)]
    assert sorted(first) == sorted(second) and first != second
    total = sum(len(np.frombuffer(block, dtype=np.int64)) for block in first)
    assert total == corpus.num_tokens


def test_an_error_while_reading_ahead_reaches_the_caller():
    def fail():
        yield 1
        raise OSError("the disk is gone")

    batches = read_ahead(fail())
    assert next(batches) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)
