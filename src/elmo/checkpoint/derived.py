"""A trained model -> a model derived from it without training: averaged, in another basis, with other words."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint, ContextLayer, list_some, name_words
from elmo.config import EncoderConfig, ModelConfig
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
    initialized independently have nothing in common. The mean has no context layer: that of a model fits its own
    layer 0 only.
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
    for name, weight in first.weights.items():
        mean = torch.zeros_like(weight, dtype=torch.float64)
        for checkpoint, share in zip(checkpoints, shares, strict=True):
            mean += checkpoint.weights[name].double() * (share / total)
        weights[name] = mean.to(weight.dtype)
    card = derived_card(first.card, "elmo average, which mixed its weights")
    return replace(first, weights=weights, context=None, card=card)


def check_basis(config: ModelConfig) -> None:
    """Raise InputError for a model whose vectors cannot be written in another basis."""
    encoder = config.encoder
    if not isinstance(encoder, EncoderConfig) or not encoder.projected:
        kind = "LSTMs without a projection" if isinstance(encoder, EncoderConfig) else "Transformers"
        raise InputError(
            f"This model has {kind}, whose vectors cannot be multiplied without changing its predictions; use one "
            "whose LSTMs have a projection."
        )
    if not config.token_projection:
        raise InputError(
            "This model has no projection of its word vectors, so they cannot be multiplied; use one that has."
        )


def change_basis(checkpoint: Checkpoint, *, words: Tensor, layers: Tensor) -> Checkpoint:
    """Multiply word vectors (layer 0) by `words` and those of all other layers by `layers`: x becomes x @ matrix.

    Both are (D, D) and invertible; both directions are multiplied alike, because they may share their softmax.
    Weights that write a vector are multiplied, weights that read it are multiplied by the inverse, so predictions
    stay as they were except for rounding and for values that the projections clip in one basis only.
    """
    check_basis(checkpoint.config)
    changed = {name: weight.double() for name, weight in checkpoint.weights.items()}

    def write(name: str, matrix: Tensor) -> None:
        changed[name] = matrix.T @ changed[name]

    def read(name: str, inverse: Tensor) -> None:
        changed[name] = changed[name] @ inverse.T

    words, layers = words.double(), layers.double()
    words_inverse, layers_inverse = torch.linalg.inv(words), torch.linalg.inv(layers)
    write("tokens.projection.weight", words)
    write("tokens.projection.bias", words)
    for direction in ("left_to_right", "right_to_left"):
        for number in range(checkpoint.config.encoder.num_layers):
            layer = f"{direction}.layers.{number}"
            read(f"{layer}.input_weight", layers_inverse if number else words_inverse)
            read(f"{layer}.state_weight", layers_inverse)
            write(f"{layer}.projection_weight", layers)
    for softmax in _SOFTMAXES:
        if f"{softmax}.weight" in changed:
            read(f"{softmax}.weight", layers_inverse)
    weights = {name: changed[name].to(weight.dtype) for name, weight in checkpoint.weights.items()}
    context = checkpoint.context and _change_context_basis(checkpoint.context, words, words_inverse)
    card = derived_card(checkpoint.card, "elmo align, which changed the basis of its vectors")
    return replace(checkpoint, weights=weights, context=context, card=card)


def _change_context_basis(context: ContextLayer, words: Tensor, inverse: Tensor) -> ContextLayer:
    """Return the context layer that reads word vectors in the new basis; its own vectors stay as they are."""
    old = {name: context.tensors[name].double() for name in ("unknown_map", "word_mean", "word_components")}
    changed = {
        "unknown_map": inverse @ old["unknown_map"],
        "word_mean": old["word_mean"] @ words,
        # The directions are no longer orthogonal after the multiplication.
        "word_components": torch.linalg.qr((old["word_components"] @ words).T).Q.T,
    }
    floats = {name: tensor.float().contiguous() for name, tensor in changed.items()}
    return replace(context, tensors={**context.tensors, **floats})


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
    rows = torch.tensor([numbers.get(word, _NO_ROW) for word in words])  # (V,): the old row of each new word
    ordinary = torch.tensor([word not in {old.begin, old.end, old.unknown} for word in old.words])
    weights = dict(checkpoint.weights)
    for name in [f"{softmax}.{leaf}" for softmax in _SOFTMAXES for leaf in ("weight", "bias")]:
        if name in weights:
            table = weights[name]
            known = table[ordinary] if ordinary.any() else table
            weights[name] = _choose_rows(table, rows, known.mean(dim=0))
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
        word_counts=_choose_counts(old, rows.tolist(), ordinary.tolist()),
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
        raise InputError(
            f"The new vocabulary lacks {', '.join(missing)}; every vocabulary needs its special words."
        )
    if repeated := [repr(word) for word, count in Counter(words).items() if count > 1]:
        raise InputError(f"The new vocabulary lists words more than once: {list_some(repeated)}.")
    if broken := [repr(word) for word in words if "\n" in word]:
        raise InputError(
            f"The new vocabulary has words with a line break, but its file has one word per line: "
            f"{list_some(broken)}."
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


def derived_card(card: str | None, how: str) -> str | None:
    """Return the card of a model made from another by `how`: license and language hold, measurements do not."""
    if card is None:
        return None
    front = _FRONT_MATTER.match(card)
    title = re.search(r"^# (.+)$", card, re.MULTILINE)
    name = title[1].strip() if title else "a model"
    lines = [
        f"---\n{front[1]}---\n# From {name}\n" if front else f"# From {name}\n",
        f"Made from {name} by {how}. Its measurements are not those of {name}.",
    ]
    if licence := license_of(card):
        lines.append(f"The weights keep its licence, {licence}.")
    return "\n".join(lines) + "\n"


def license_of(card: str | None) -> str | None:
    """Return the license that the front matter of a card names."""
    front = _FRONT_MATTER.match(card or "")
    found = re.search(r"^license:\s*['\"]?([^'\"\n]+)", front[1], re.MULTILINE) if front else None
    return found[1].strip() if found else None
