"""A trained model -> a model derived from it without training: averaged, or with another vocabulary."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.checkpoint import Checkpoint, name_words
from elmo.checkpoint.weights import Float32, list_some
from elmo.config import ModelConfig
from elmo.errors import InputError
from elmo.text.vocabulary import Vocabulary

_SOFTMAXES = ("softmax", "right_to_left_softmax")
_EMBEDDING = "tokens.words.weight"
_NO_ROW = -1
_COUNTED_WORDS = 10**9  # of the text that the counts of a changed vocabulary stand for
_FRONT_MATTER = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)


def average(checkpoints: Sequence[Checkpoint], shares: Sequence[float] | None = None) -> Checkpoint:
    """Return the weighted mean of models with the same settings and words, with equal shares by default.

    It is useful for checkpoints of one run, or models fine-tuned from a common ancestor: weights that were
    initialized independently have nothing in common. The mean has no context layer and no
    sentence head: those of a model fit its own layers only.
    """
    shares = [1.0] * len(checkpoints) if shares is None else list(shares)
    if len(checkpoints) < 2:
        raise InputError(f"{len(checkpoints)} model was given; an average needs two or more.")
    if len(shares) != len(checkpoints):
        raise InputError(f"{len(shares)} shares were given for {len(checkpoints)} models; give one for each.")
    if not all(0 <= share < float("inf") for share in shares) or not sum(shares):
        raise InputError(f"The shares are {', '.join(map(str, shares))}; each must be 0 or more, and not all 0.")
    first, *others = checkpoints
    for number, other in enumerate(others, start=2):
        for name in ("config", "vocabulary", "characters"):
            if getattr(other, name) != getattr(first, name):
                what = "settings" if name == "config" else name
                raise InputError(
                    f"Model {number} and the first one differ in their {what}; only models with the same settings "
                    "and words, fine-tuned from a common ancestor, can be averaged."
                )
    total = sum(shares)
    weights = {}
    for name in first.weights:
        mean = np.zeros(first.weights[name].shape)
        for checkpoint, share in zip(checkpoints, shares, strict=True):
            mean += checkpoint.weights[name].astype(np.float64) * (share / total)
        weights[name] = mean.astype(np.float32)
    card = derived_card(first.card, "elmo average, which mixed its weights")
    return replace(first, weights=weights, context=None, sentence=None, card=card)


def change_vocabulary(checkpoint: Checkpoint, words: Sequence[str]) -> Checkpoint:
    """Return the model with `words` as its vocabulary, special words included.

    Words of both lists keep their rows bit for bit. A new word's row of the softmax is the mean of the rows of the
    old ordinary words, so in any context it is as likely as they are in the geometric mean: N new words beside M
    old ones divide no old word's probability by more than 1 + N / M. In a model that reads whole words, a new word
    is read as the unknown one was, so no vector changes before further training.
    """
    old = require_vocabulary(checkpoint)
    _check_words(words, checkpoint.config)
    numbers = {word: number for number, word in enumerate(old.words)}
    rows = np.array([numbers.get(word, _NO_ROW) for word in words])  # (V,): the old row of each new word
    special = {old.begin, old.end, old.unknown}
    ordinary = np.array([word not in special for word in old.words])
    weights = dict(checkpoint.weights)
    for name in [f"{softmax}.{leaf}" for softmax in _SOFTMAXES for leaf in ("weight", "bias")]:
        if name in weights:
            table = weights[name]
            known = table[ordinary] if ordinary.any() else table
            weights[name] = _choose_rows(table, rows, known.mean(axis=0))
    if _EMBEDDING in weights:
        table = weights[_EMBEDDING]
        weights[_EMBEDDING] = _choose_rows(table, rows, table[numbers[old.unknown]])
    config = checkpoint.config
    return replace(
        checkpoint,
        config=replace(
            config,
            softmax=replace(config.softmax, num_words=len(words)) if config.softmax else None,
            words=replace(config.words, num_words=len(words)) if config.words else None,
        ),
        weights=weights,
        vocabulary=tuple(words),
        word_counts=_choose_counts(old, rows, ordinary),
        card=derived_card(checkpoint.card, "elmo vocab, which changed its vocabulary"),
    )


def require_vocabulary(checkpoint: Checkpoint) -> Vocabulary:
    """Return the words that a model's weights are about; InputError if it has none."""
    if checkpoint.config.softmax is None and checkpoint.config.words is None:
        raise InputError(
            "This model reads characters and has no softmax, so it has no vocabulary to change; use a model "
            "trained with `elmo train`, or the TensorFlow checkpoint it was exported from (format 'tensorflow')."
        )
    vocabulary = checkpoint.make_vocabulary()
    if vocabulary is None:
        raise InputError(
            "The vocabulary file of this model is missing, so the words of its weights are unknown; put the file "
            "it was trained with beside it."
        )
    return vocabulary


def _check_words(words: Sequence[str], config: ModelConfig) -> None:
    if missing := name_words(words, config).missing_special_words():
        raise InputError(f"The new vocabulary lacks {', '.join(missing)}; every vocabulary needs its special words.")
    if repeated := [repr(word) for word, count in Counter(words).items() if count > 1]:
        raise InputError(f"The new vocabulary lists words more than once: {list_some(repeated)}.")
    if broken := [repr(word) for word in words if "\n" in word]:
        raise InputError(
            f"The new vocabulary has words with a line break, but its file has one word per line: {list_some(broken)}."
        )


def _choose_rows(table: Float32, rows: npt.NDArray[np.int64], new_row: Float32) -> Float32:
    chosen = table[rows]
    chosen[rows == _NO_ROW] = new_row
    return chosen


def _choose_counts(old: Vocabulary, rows: npt.NDArray[np.int64], ordinary: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the counts of the new list; a new word is as frequent as the old ones in the geometric mean."""
    frequencies = old.log_frequencies()
    usual = frequencies[ordinary].mean() if ordinary.any() else frequencies.mean()
    chosen = np.where(rows == _NO_ROW, usual, frequencies[rows])
    return tuple(np.rint(np.exp(chosen) * _COUNTED_WORDS).astype(np.int64).tolist())


def derived_card(card: str | None, origin: str) -> str | None:
    """Return the card of a model made from another by `origin`: license and language hold, measurements do not."""
    if card is None:
        return None
    front = _FRONT_MATTER.match(card)
    title = re.search(r"^# (.+)$", card, re.MULTILINE)
    name = title[1].strip() if title else "a model"
    lines = [
        f"---\n{front[1]}---\n# From {name}\n" if front else f"# From {name}\n",
        f"Made from {name} by {origin}. Its measurements are not those of {name}.",
    ]
    if name_of_license := license_of(card):
        lines.append(f"The weights keep its license, {name_of_license}.")
    return "\n".join(lines) + "\n"


def license_of(card: str | None) -> str | None:
    """Return the license that the front matter of a card names."""
    front = _FRONT_MATTER.match(card or "")
    line = re.search(r"^license:\s*['\"]?([^'\"\n]+)", front[1], re.MULTILINE) if front else None
    return line[1].strip() if line else None
