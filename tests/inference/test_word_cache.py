"""The word cache: one row per word, and the same vectors as without a cache."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo import Elmo
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, WordConfig
from elmo.errors import ConfigError
from elmo.inference.words import WordCache

DIM = 4
ROW_BYTES = 4 * DIM + 256


def vector_of(key):
    return np.full(DIM, hash(key) % 2**20, dtype=np.float32)


def look_up(cache, *keys):
    """Look keys up, check what they give, and return which had to be encoded."""
    missing = []

    def encode(positions):
        missing.extend(keys[position] for position in positions)
        return np.stack([vector_of(keys[position]) for position in positions])

    vectors = cache.look_up(keys, encode)
    np.testing.assert_array_equal(vectors, [vector_of(key) for key in keys])
    return missing


def run_in_threads(run):
    """Call `run` in four threads, each with its seed."""
    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_word_is_encoded_once():
    cache = WordCache(DIM)
    assert look_up(cache, "a", "b", "c") == ["a", "b", "c"]
    assert look_up(cache, "c", "d", "a") == ["d"]
    info = cache.info()
    assert (info.num_hits, info.num_misses, info.num_words, info.num_bytes) == (2, 4, 4, 4 * ROW_BYTES)
    assert info.hit_rate == pytest.approx(2 / 6)


def test_the_least_recently_used_word_leaves_first():
    cache = WordCache(DIM, max_bytes=3 * ROW_BYTES + 1)
    look_up(cache, "a", "b", "c")
    look_up(cache, "a")
    look_up(cache, "d")  # in the place of b
    assert look_up(cache, "a", "c", "d") == []
    assert look_up(cache, "b") == ["b"]
    assert cache.info().num_words == cache.info().max_words == 3


KEYS = st.one_of(st.text("abc", max_size=3), st.integers(0, 1), st.binary(max_size=2))


@settings(max_examples=200, deadline=None)
@given(
    batches=st.lists(st.one_of(st.lists(KEYS, max_size=12), st.just("clear")), max_size=20),
    max_words=st.integers(0, 9),
)
def test_a_cache_answers_like_a_dictionary(batches, max_words):
    """Also where a batch names a key twice, or more keys than there is room for."""
    cache = WordCache(DIM, max_bytes=max_words * ROW_BYTES)
    for batch in batches:
        if batch == "clear":
            cache.clear()
        elif batch:
            look_up(cache, *batch)
        assert cache.info().num_words <= max_words
        rows = list(cache._rows.values())
        assert len(set(rows)) == len(rows)  # no two keys share a row


def test_threads_share_a_cache_that_is_too_small_for_them():
    cache, failed = WordCache(DIM, max_bytes=20 * ROW_BYTES), []

    def run(seed):
        draw = np.random.default_rng(seed)
        try:
            for _ in range(300):
                look_up(cache, *(str(number) for number in set(draw.integers(0, 60, 9).tolist())))
        except AssertionError as error:
            failed.append(error)

    run_in_threads(run)
    assert not failed


# Whole models: repeated, after other text, across batches, threads and evictions, against a model without a cache.

CHARACTERS = CharacterConfig(filters=((1, 8), (2, 8), (3, 8)), embedding_dim=4, num_highways=1, max_characters=12)
VOCABULARY = ("<S>", "</S>", "<UNK>", "the", "cat", "sat")
ENCODER = EncoderConfig(num_layers=2, cell_dim=24, output_dim=16)
CONFIGS = {
    "characters": ModelConfig(encoder=ENCODER, characters=CHARACTERS),
    "words": ModelConfig(encoder=ENCODER, words=WordConfig(len(VOCABULARY), 8)),
    "both": ModelConfig(encoder=ENCODER, characters=CHARACTERS, words=WordConfig(len(VOCABULARY), 8)),
}
# Unknown words, words alike in their first characters, empty words, words of other scripts.
MIXED = [
    ["the", "cat", "sat"],
    ["我", "用", "Kubernetes", "和", "Terraform", "部署", "服务"],
    ["x" * 60 + "a", "x" * 60 + "b", "dog"],
    ["", "the", "", "unknown", "unknowable"],
    ["cat"],
]


def open_pair(name, **options):
    """Return a model and the same one without a cache."""
    if name.endswith("small"):
        return Elmo.from_pretrained(name, **options), Elmo.from_pretrained(
            name, precision=options.get("precision", "auto"), cache_bytes=0, num_threads=1
        )
    checkpoint = Elmo.from_config(CONFIGS[name], vocabulary=VOCABULARY if "chara" not in name else None).checkpoint()
    return Elmo(checkpoint, **options), Elmo(
        checkpoint, precision=options.get("precision", "float32"), cache_bytes=0, num_threads=1
    )


@pytest.mark.filterwarnings("ignore::elmo.text.units.UnfamiliarScriptWarning")
@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", [*CONFIGS, "en-small", "zh-small"])
def test_a_cache_changes_no_bit(name, precision, num_threads):
    for cache_bytes in (2**20, 6 * (4 * 16 + 256)):  # the second holds a few words
        model, plain = open_pair(name, precision=precision, num_threads=num_threads, cache_bytes=cache_bytes)
        expected = [plain.embed([words], layers="all")[0] for words in MIXED]
        for _ in range(3):
            for words, vectors in zip(MIXED, expected, strict=True):
                np.testing.assert_array_equal(model.embed([words], layers="all")[0], vectors)
            model.embed([["other", "text", f"number {number}"] for number in range(40)])
            for vectors, known in zip(model.embed(MIXED[::-1], layers="all"), expected[::-1], strict=True):
                np.testing.assert_array_equal(vectors, known)


@pytest.mark.filterwarnings("ignore::elmo.text.units.UnfamiliarScriptWarning")
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", ["en-small", "zh-small"])
def test_the_same_vectors_after_10_000_other_sentences(name, precision):
    model, plain = open_pair(name, precision=precision, cache_bytes=2**22)
    expected = plain.embed(MIXED, layers="all")
    draw = np.random.default_rng(0)
    for _ in range(100):
        model.embed([[f"w{number}" for number in draw.integers(0, 20000, 8)] for _ in range(100)])
    for vectors, known in zip(model.embed(MIXED, layers="all"), expected, strict=True):
        np.testing.assert_array_equal(vectors, known)


@pytest.mark.parametrize("name", CONFIGS)
def test_threads_and_evictions_change_no_bit(name):
    model, plain = open_pair(name, cache_bytes=8 * (4 * 16 + 256))
    expected, failed = plain.embed(MIXED, layers="all"), []

    def run(seed):
        draw = np.random.default_rng(seed)
        for _ in range(60):
            number = int(draw.integers(len(MIXED)))
            if not np.array_equal(model.embed([MIXED[number]], layers="all")[0], expected[number]):
                failed.append(number)

    run_in_threads(run)
    assert not failed


def test_a_word_counts_once_in_each_batch(own_model):
    own_model.embed([["a", "b", "a"]])
    assert own_model.cache_info().num_misses == 4  # with the boundaries
    own_model.embed([["a", "c"]])
    info = own_model.cache_info()
    assert (info.num_hits, info.num_misses) == (3, 5)
    own_model.clear_cache()
    assert own_model.cache_info().num_words == 0


@pytest.mark.parametrize("cache_bytes", [-1, 0.5, True, "1"])
def test_a_size_that_is_no_number_of_bytes_is_refused(tiny_model, cache_bytes):
    with pytest.raises(ConfigError, match="cache_bytes is"):
        Elmo(tiny_model.checkpoint(), cache_bytes=cache_bytes)


FORKS = """
import os, sys, threading, time
from elmo import Elmo
from tests.conftest import TINY_CONFIG
model = Elmo.from_config(TINY_CONFIG) if sys.argv[1] == "tiny" else Elmo.from_pretrained(num_threads=2)
expected = model.embed("I went", layers="top").tobytes()
def work():
    number = 0
    while True:
        model.embed(f"I went {number}"); number += 1
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
for number in range(int(sys.argv[2])):
    process = os.fork()
    if process == 0:
        same = model.embed("I went", layers="top").tobytes() == expected
        os._exit(0 if same else 3)
    end = time.monotonic() + 30
    while (done := os.waitpid(process, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(process, 9); os.waitpid(process, 0)
            print("hangs at", number, flush=True); os._exit(1)
        time.sleep(0.001)
    if done[1]:
        print("wrong at", number, done[1], flush=True); os._exit(1)
print("all", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(("name", "num_forks"), [("tiny", 200), ("default", 30)])
@pytest.mark.needs("fork")
def test_a_fork_while_other_threads_embed_does_not_hang(name, num_forks):
    done = subprocess.run(
        [sys.executable, "-c", FORKS, name, str(num_forks)], capture_output=True, text=True, timeout=250
    )
    assert done.stdout.strip() == "all", done.stdout + done.stderr
