"""Words that were seen before: found again, bounded in bytes, forgotten with the weights."""

import threading

import pytest
import torch

from elmo import Elmo, ElmoLayer
from elmo.errors import ConfigError
from elmo.inference.word_encoder import WordCache, make_keys

DIM = 4
ROW_BYTES = 4 * DIM + 256


class Encoder:
    """Gives each word the number it is, and remembers which it was asked for."""

    def __init__(self, words):
        self.words, self.asked = words, []

    def __call__(self, positions):
        found = [self.words[position] for position in positions]
        self.asked += found
        return torch.tensor([[float(word)] * DIM for word in found])


def look_up(cache, *words):
    """Look words up, check what they give, and say which had to be encoded."""
    encode = Encoder(words)
    vectors = cache.look_up([str(word).encode() for word in words], encode)
    assert vectors.tolist() == [[float(word)] * DIM for word in words]
    return encode.asked


def test_a_word_is_encoded_once():
    cache = WordCache(DIM)
    assert look_up(cache, 1, 2, 3) == [1, 2, 3]
    assert look_up(cache, 3, 4, 1) == [4]
    info = cache.info()
    assert (info.num_hits, info.num_misses, info.num_words, info.num_bytes) == (2, 4, 4, 4 * ROW_BYTES)
    assert info.hit_rate == pytest.approx(2 / 6)


def test_the_least_recently_used_word_leaves_first():
    cache = WordCache(DIM, max_bytes=3 * ROW_BYTES + 1)
    look_up(cache, 1, 2, 3)
    look_up(cache, 1)
    look_up(cache, 4)  # in the place of 2
    assert look_up(cache, 1, 3, 4) == []
    assert look_up(cache, 2) == [2]
    assert cache.info().num_words == cache.info().max_words == 3


def test_more_words_than_there_is_room_for_are_all_given():
    cache = WordCache(DIM, max_bytes=3 * ROW_BYTES)
    assert look_up(cache, *range(10)) == list(range(10))
    assert look_up(cache, 7, 8, 9) == []
    assert cache.info().num_words == 3


def test_many_words_are_remembered_as_the_table_grows():
    cache = WordCache(DIM, max_bytes=5000 * ROW_BYTES)
    for start in range(0, 5000, 700):
        look_up(cache, *range(start, min(5000, start + 700)))
    assert look_up(cache, *range(5000)) == []


def test_no_bytes_remember_nothing():
    cache = WordCache(DIM, max_bytes=0)
    assert look_up(cache, 1) == look_up(cache, 1) == [1]
    assert cache.info().num_bytes == 0 and cache.info().hit_rate == 0


def test_threads_share_a_cache_that_is_too_small_for_them():
    cache = WordCache(DIM, max_bytes=20 * ROW_BYTES)
    failed = []

    def read(seed):
        order = torch.Generator().manual_seed(seed)
        try:
            for _ in range(200):
                look_up(cache, *torch.randperm(60, generator=order)[:15].tolist())
        except AssertionError as error:
            failed.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert cache.info().num_words == 20


def test_keys_differ_where_the_network_reads_something_else():
    characters, words = torch.tensor([[1, 2], [1, 3], [1, 2]]), torch.tensor([5, 5, 6])
    assert len(set(make_keys(characters, None))) == 2
    assert len(set(make_keys(None, words))) == 2
    assert len(set(make_keys(characters, words))) == 3


def test_a_model_remembers_words_from_call_to_call(own_model):
    own_model.embed("the cat sat")
    own_model.embed(["the dog sat", "the end"])
    info = own_model.cache_info()
    # Two boundaries and three words; then two boundaries, two words, and two new ones.
    assert (info.num_hits, info.num_misses, info.num_words) == (4, 7, 7)


@pytest.mark.parametrize("name", ["tokens.characters.embedding.weight", "left_to_right.layers.0.state_weight"])
def test_changed_weights_give_new_vectors(own_model, name):
    before = own_model.embed("the cat sat", layers="all")
    with torch.no_grad():
        own_model.bilm.get_parameter(name).mul_(-1)
    found = own_model.embed("the cat sat", layers="all")
    fresh = Elmo(own_model.checkpoint()).embed("the cat sat", layers="all")
    torch.testing.assert_close(torch.from_numpy(found), torch.from_numpy(fresh), rtol=0, atol=1e-6)
    assert abs(found - before).max() > 1e-3


def test_training_a_layer_on_a_model_forgets_its_words(own_model):
    layer = ElmoLayer(own_model, tune_bilm=True, dropout=0.0)
    before = own_model.embed("the cat sat", layers=0)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    layer(["the cat sat"]).mixes[0].sum().backward()
    optimizer.step()
    after = own_model.embed("the cat sat", layers=0)
    fresh = Elmo(own_model.checkpoint()).embed("the cat sat", layers=0)
    assert abs(after - before).max() > 1e-4
    torch.testing.assert_close(torch.from_numpy(after), torch.from_numpy(fresh), rtol=0, atol=1e-6)


@pytest.mark.parametrize("wrong", [-1, 1.5, True])
def test_a_size_that_is_none_is_refused(tiny_model, wrong):
    message = f"^cache_bytes is {wrong!r}; it must be a whole number of bytes, 0 or more.$"
    with pytest.raises(ConfigError, match=message):
        Elmo(tiny_model.checkpoint(), cache_bytes=wrong)
