"""Generate text for benchmarks without an input: word frequencies and lengths follow Zipf's law."""

import math
from collections.abc import Iterator

import numpy as np

DISTINCT_WORDS = 60_000
SENTENCE_WORDS = 20


def generate_text(num_words: int) -> Iterator[str]:
    """Yield sentences of SENTENCE_WORDS words, num_words in total; always the same."""
    generator = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    words = []
    for rank in range(1, DISTINCT_WORDS + 1):
        length = int(generator.poisson(math.log2(rank) / 2.5)) + 2
        words.append("".join(letters[generator.geometric(0.12, length) % len(letters)]))
    shares = 1 / np.arange(1, DISTINCT_WORDS + 1)
    drawn = generator.choice(DISTINCT_WORDS, num_words, p=shares / shares.sum())
    for start in range(0, num_words, SENTENCE_WORDS):
        yield " ".join(words[number] for number in drawn[start : start + SENTENCE_WORDS])
