"""A model -> the same model with another vocabulary, without training."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from elmo.checkpoint.card import derived_card
from elmo.checkpoint.checkpoint import Checkpoint, name_words
from elmo.checkpoint.weights import list_some
from elmo.errors import InputError
from elmo.text.vocabulary import Vocabulary

_SOFTMAXES = ("softmax", "right_to_left_softmax")
_EMBEDDING = "tokens.words.weight"
_COUNTED_WORDS = 10**9  # of the text that the counts of a changed vocabulary stand for


def change_vocabulary(checkpoint: Checkpoint, words: Sequence[str]) -> Checkpoint:
    """Return the model with `words` as its vocabulary, special words included.

    Words of both lists keep their rows bit for bit. A new word's row of the softmax is the mean of the rows of the
    old ordinary words, so in any context it is as likely as they are in the geometric mean: N new words beside M
    old ones divide no old word's probability by more than 1 + N / M. In a model that reads whole words, a new word
    is read as the unknown one was, so no vector changes before further training.
    """
    old, config = require_vocabulary(checkpoint), checkpoint.config
    if missing := name_words(words, config).missing_special_words():
        raise InputError(f"The new vocabulary lacks {', '.join(missing)}; every vocabulary needs its special words.")
    invalid = [repr(word) for word, count in Counter(words).items() if count > 1 or "\n" in word]
    if invalid:
        raise InputError(f"The new vocabulary has words twice or with a line break: {list_some(invalid)}.")
    numbers = {word: number for number, word in enumerate(old.words)}
    rows = np.array([numbers.get(word, -1) for word in words])  # (V,): the old row of each new word
    is_new = rows < 0
    special = {old.begin, old.end, old.unknown}
    ordinary = np.array([word not in special for word in old.words])
    if not ordinary.any():
        ordinary[:] = True
    weights = dict(checkpoint.weights)
    for name in [f"{softmax}.{leaf}" for softmax in _SOFTMAXES for leaf in ("weight", "bias")]:
        if name in weights:
            table = weights[name]
            weights[name] = table[rows]
            weights[name][is_new] = table[ordinary].mean(axis=0)
    if _EMBEDDING in weights:
        weights[_EMBEDDING] = weights[_EMBEDDING][np.where(is_new, numbers[old.unknown], rows)]
    # A new word is as frequent as the old ones in the geometric mean.
    frequencies = old.log_frequencies()
    frequencies = np.where(is_new, frequencies[ordinary].mean(), frequencies[rows])
    return replace(
        checkpoint,
        config=replace(
            config,
            softmax=replace(config.softmax, num_words=len(words)) if config.softmax else None,
            words=replace(config.words, num_words=len(words)) if config.words else None,
        ),
        weights=weights,
        vocabulary=tuple(words),
        word_counts=tuple(np.rint(np.exp(frequencies) * _COUNTED_WORDS).astype(np.int64).tolist()),
        card=derived_card(checkpoint.card, "elmo vocab, which changed its vocabulary"),
    )


def require_vocabulary(checkpoint: Checkpoint) -> Vocabulary:
    """Return the words that a model's weights are about; InputError if it has none."""
    vocabulary = checkpoint.make_vocabulary()
    if vocabulary is None or (checkpoint.config.softmax is None and checkpoint.config.words is None):
        raise InputError(
            "This model has no vocabulary to change: it reads characters and has no softmax, or its vocabulary file is "
            "missing. Use a model trained with `elmo train`, or the TensorFlow checkpoint it was exported from."
        )
    return vocabulary
