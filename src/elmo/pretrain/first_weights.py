"""Frequencies of words in a prepared corpus: stored with the model, and what a new softmax may start from."""

import numpy as np
import torch

from elmo.corpus.prepared import PreparedCorpus
from elmo.nn.bilm import BiLM
from elmo.text.vocabulary import Vocabulary


def count_vocabulary(corpus: PreparedCorpus) -> tuple[int, ...]:
    """Return how often each word of the vocabulary stands in the corpus; a boundary once per sentence."""
    counts = np.bincount(corpus.targets[1:], weights=corpus.word_counts[1:], minlength=len(corpus.vocabulary))
    counts[Vocabulary(corpus.vocabulary).boundaries()] = corpus.num_sentences
    return tuple(counts.astype(np.int64).tolist())


def set_frequency_bias(bilm: BiLM, corpus: PreparedCorpus) -> None:
    """Start the bias of each word at the log of its share of the corpus, so that no update is spent on that.

    AdamW moves a weight by about its learning rate, so that a bias of -10 would take thousands of updates.
    """
    counts = np.array(count_vocabulary(corpus), dtype=np.float64)
    bias = torch.from_numpy(np.log((counts + 1) / (counts + 1).sum()))
    assert bilm.softmaxes is not None
    with torch.no_grad():
        for softmax in bilm.softmaxes:
            softmax.bias.copy_(bias)
