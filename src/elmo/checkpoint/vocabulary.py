"""Change the vocabulary of a model without training."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from elmo.checkpoint.checkpoint import SOFTMAX_PREFIXES, Checkpoint, build_vocabulary
from elmo.checkpoint.folder import derived_card
from elmo.checkpoint.weights import list_some
from elmo.errors import InputError
from elmo.text.vocabulary import Vocabulary

_EMBEDDING = "tokens.words.weight"
_COUNTED_WORDS = 10**9  # nominal size of the text that the new word counts refer to


def change_vocabulary(checkpoint: Checkpoint, words: Sequence[str]) -> Checkpoint:
    """Return the model with `words` as its vocabulary, special words included.

    Words in both vocabularies keep their rows bit for bit. The softmax row of a new word is the mean row of the old
    ordinary words, so in every context its probability is the geometric mean of theirs: adding N words to M divides
    the probability of an old word by at most 1 + N / M. In a word-level model, a new word starts with the embedding
    of the unknown word, so no vector changes before further training.
    """
    old, config = require_vocabulary(checkpoint), checkpoint.config
    if missing := build_vocabulary(words, config).missing_special_words():
        raise InputError(f"The new vocabulary lacks {', '.join(missing)}; every vocabulary needs its special words.")
    invalid = [repr(word) for word, count in Counter(words).items() if count > 1 or "\n" in word]
    if invalid:
        raise InputError(f"The new vocabulary has words that are repeated or have a line break: {list_some(invalid)}.")
    old_ids = {word: number for number, word in enumerate(old.words)}
    rows = np.array([old_ids.get(word, -1) for word in words])  # (V,): the old row of each word, -1 for a new word
    is_new = rows < 0
    special = {old.begin, old.end, old.unknown}
    ordinary = np.array([word not in special for word in old.words])
    if not ordinary.any():
        ordinary[:] = True
    weights = dict(checkpoint.weights)
    for name in weights:
        if name.startswith(SOFTMAX_PREFIXES):
            table = weights[name]
            weights[name] = table[rows]
            weights[name][is_new] = table[ordinary].mean(axis=0)
    if _EMBEDDING in weights:
        weights[_EMBEDDING] = weights[_EMBEDDING][np.where(is_new, old_ids[old.unknown], rows)]
    # The frequency of a new word is the geometric mean of the old ordinary words' frequencies.
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
    """Return the vocabulary of a model's softmax or word embedding; InputError if it has neither."""
    vocabulary = checkpoint.make_vocabulary()
    if vocabulary is None or (checkpoint.config.softmax is None and checkpoint.config.words is None):
        raise InputError(
            "This model has no vocabulary to change: it reads characters and has no softmax, or its vocabulary file is "
            "missing. Use a model trained with `elmo train`, or the TensorFlow checkpoint it was exported from."
        )
    return vocabulary
