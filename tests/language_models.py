"""Tiny random language models, and their probabilities computed independently."""

from dataclasses import replace

import numpy as np

from elmo import Elmo
from elmo.config import ModelConfig, SoftmaxConfig, WordConfig
from elmo.inference.layers import choose_layers
from tests.conftest import TINY_CONFIG

# The special words are not the first ones, so that no test passes by their usual numbers.
VOCABULARY = ("the", "bank", "<UNK>", "I", "went", "<S>", "to", ".", "</S>", "river", "money")
SPECIAL = ("<S>", "</S>", "<UNK>")


def language_config(num_words: int = len(VOCABULARY)) -> ModelConfig:
    return replace(TINY_CONFIG, softmax=SoftmaxConfig(num_words))


def make_language_model(vocabulary=VOCABULARY, *, reads_words=False, state="zero", seed=3) -> Elmo:
    config = language_config(len(vocabulary))
    if reads_words:
        config = replace(config, characters=None, words=WordConfig(len(vocabulary), 5))
    checkpoint = Elmo.from_config(config, vocabulary=vocabulary, seed=seed).checkpoint()
    weights = dict(checkpoint.weights)
    # A new model finds all words about equally likely; these weights make them differ.
    weights["softmax.weight"] = weights["softmax.weight"] * 20
    weights["softmax.bias"] = np.linspace(-2, 2, len(vocabulary), dtype=np.float32)
    return Elmo(replace(checkpoint, weights=weights), state=state)


def expected_log_probabilities(model: Elmo, words) -> tuple[np.ndarray, np.ndarray]:
    """(T+1, V) of each direction: after each position but the last, before each position but the first."""
    batch = model._indexer.batch([list(words)])
    states = model._runtime.embed(batch, choose_layers("top", model.num_layers))[:, 0].astype(np.float64)
    dim = model.dim // 2
    weights = model.checkpoint().weights
    weight, bias = (weights[f"softmax.{name}"].astype(np.float64) for name in ("weight", "bias"))

    def log_softmax(rows):
        logits = rows @ weight.T + bias
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    return log_softmax(states[:-1, :dim]), log_softmax(states[1:, dim:])


def expected_targets(words, vocabulary=VOCABULARY) -> list[int]:
    known = [word if word in vocabulary and word not in SPECIAL else "<UNK>" for word in words]
    return [vocabulary.index(word) for word in known]
