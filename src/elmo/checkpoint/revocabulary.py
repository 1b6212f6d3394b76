"""A trained model and another list of words -> the same model over that list. Nothing is trained here.

Words that both lists have keep their rows bit for bit.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from elmo.checkpoint.card import derived_card
from elmo.checkpoint.checkpoint import Checkpoint, list_some
from elmo.config import ModelConfig
from elmo.errors import InputError
from elmo.text.vocabulary import Vocabulary

SOFTMAX_NAMES = tuple(
    f"{softmax}.{leaf}" for softmax in ("softmax", "right_to_left_softmax") for leaf in ("weight", "bias")
)
EMBEDDING_NAME = "tokens.words.weight"
_NO_ROW = -1
_COUNTED_WORDS = 10**9  # of the text that the counts of a changed vocabulary stand for


def change_vocabulary(checkpoint: Checkpoint, words: Sequence[str]) -> Checkpoint:
    """Give the model with `words` in place of its vocabulary, special words included.

    A new word's row of the softmax is the mean of the old ordinary words' rows, so in any context it is as
    likely as they are in the geometric mean: N new words beside M old ones divide no old word's probability by
    more than 1 + N / M. Where the model reads whole words, a new word reads as the unknown one did, so no
    vector changes before further training.
    """
    old = require_vocabulary(checkpoint)
    _check_words(words, checkpoint.config)
    numbers = {word: number for number, word in enumerate(old.words)}
    # (V,): the old row of each word of the new list.
    rows = torch.tensor([numbers.get(word, _NO_ROW) for word in words])
    special = {old.begin, old.end, old.unknown}
    ordinary = torch.tensor([word not in special for word in old.words])
    weights = dict(checkpoint.weights)
    for name in SOFTMAX_NAMES:
        if name in weights:
            table = weights[name]
            known = table[ordinary] if ordinary.any() else table
            weights[name] = _choose_rows(table, rows, known.mean(dim=0))
    if EMBEDDING_NAME in weights:
        table = weights[EMBEDDING_NAME]
        weights[EMBEDDING_NAME] = _choose_rows(table, rows, table[numbers[old.unknown]])
    return replace(
        checkpoint,
        config=_resize(checkpoint.config, len(words)),
        weights=weights,
        vocabulary=tuple(words),
        word_counts=_choose_counts(old, rows.tolist(), ordinary.tolist()),
        card=derived_card(checkpoint.card, "elmo vocab, which changed its vocabulary"),
    )


def require_vocabulary(checkpoint: Checkpoint) -> Vocabulary:
    """Give the words a model's weights are about, or say that it has none."""
    if checkpoint.config.softmax is None and checkpoint.config.words is None:
        raise InputError(
            "This model reads characters and has no softmax, so it has no vocabulary to change; use a model "
            "trained with `elmo train`, or the TensorFlow checkpoint it was exported from (format 'tensorflow')."
        )
    vocabulary = checkpoint.make_vocabulary()
    if vocabulary is None:
        raise InputError(
            "This model's vocabulary file is missing, so it is not known which words its weights are about; put "
            "the file it was trained with beside it."
        )
    return vocabulary


def _check_words(words: Sequence[str], config: ModelConfig) -> None:
    if missing := Vocabulary(
        words, begin=config.begin_word, end=config.end_word, unknown=config.unknown_word
    ).missing_special_words():
        raise InputError(
            f"The new vocabulary lacks {', '.join(missing)}; every vocabulary needs its special words."
        )
    if repeated := [repr(word) for word, count in Counter(words).items() if count > 1]:
        raise InputError(f"The new vocabulary lists words more than once: {list_some(repeated)}.")
    if broken := [repr(word) for word in words if "\n" in word]:
        raise InputError(
            f"The new vocabulary has words that its file, one word a line, cannot hold: {list_some(broken)}."
        )


def _choose_rows(table: Tensor, rows: Tensor, new_row: Tensor) -> Tensor:
    chosen = table[rows]
    chosen[rows == _NO_ROW] = new_row.to(table.dtype)
    return chosen


def _choose_counts(old: Vocabulary, rows: Sequence[int], ordinary: Sequence[bool]) -> tuple[int, ...]:
    """Return the counts of the new list; a new word is as frequent as the old ones in the geometric mean."""
    frequencies = old.log_frequencies()
    usual = frequencies[np.array(ordinary, dtype=bool)].mean() if any(ordinary) else frequencies.mean()
    chosen = np.array([usual if row == _NO_ROW else frequencies[row] for row in rows])
    return tuple(np.rint(np.exp(chosen) * _COUNTED_WORDS).astype(np.int64).tolist())


def _resize(config: ModelConfig, num_words: int) -> ModelConfig:
    return replace(
        config,
        softmax=replace(config.softmax, num_words=num_words) if config.softmax else None,
        words=replace(config.words, num_words=num_words) if config.words else None,
    )
