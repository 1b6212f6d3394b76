"""States that predict and the words that came -> log probabilities, over all words of the vocabulary.

All logits of a text would not fit: 4,000 positions by 800,000 words are 13 GB. They are made block by block.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.errors import InputError
from elmo.nn.bilm import BiLM
from elmo.nn.softmax import WordSoftmax
from elmo.text.vocabulary import Vocabulary

BLOCK_BYTES = 32 * 2**20  # of logits; taking their exponentials needs as much again
# More positions at once do not read the weights faster.
POSITIONS_AT_ONCE = 1024
_BYTES_PER_LOGIT = 4


def require_softmax(
    bilm: BiLM, vocabulary: Vocabulary | None
) -> tuple[tuple[WordSoftmax, WordSoftmax], Vocabulary]:
    """Give what a model predicts words with, left to right and right to left, or say what it lacks."""
    if bilm.softmaxes is None:
        raise InputError(
            "This model has no softmax, so it gives vectors but predicts no words; use one trained here with "
            "`elmo train`, or open the TensorFlow checkpoint it was exported from (format 'tensorflow')."
        )
    if vocabulary is None:
        raise InputError(
            "This model has no vocabulary, so it cannot say which words its softmax predicts; put the vocabulary "
            "file it was trained with beside its other files, as training here or the TensorFlow checkpoint does."
        )
    if missing := vocabulary.missing_special_words():
        raise InputError(
            f"The vocabulary of this model lacks {', '.join(missing)}, which predicting sentences needs; put the "
            "vocabulary file it was trained with beside its other files."
        )
    return bilm.softmaxes, vocabulary


def score_words(softmax: WordSoftmax, states: Tensor, words: Tensor) -> Tensor:
    """(N, D) states and the ids (N,) of the words that came -> their log probabilities (N,)."""
    parts = [
        _score_block(softmax, states[start : start + POSITIONS_AT_ONCE], words[start : start + POSITIONS_AT_ONCE])
        for start in range(0, len(words), POSITIONS_AT_ONCE)
    ]
    return torch.cat(parts)


def _score_block(softmax: WordSoftmax, states: Tensor, words: Tensor) -> Tensor:
    words_at_once = max(1, BLOCK_BYTES // (_BYTES_PER_LOGIT * len(states)))
    total = states.new_full((len(states),), -torch.inf)
    for start in range(0, len(softmax.weight), words_at_once):
        window = slice(start, start + words_at_once)
        logits = F.linear(states, softmax.weight[window], softmax.bias[window])
        total = torch.logaddexp(total, logits.logsumexp(dim=1))
    chosen = (states * softmax.weight[words]).sum(dim=1) + softmax.bias[words]
    # Rounding may carry a sure word past 0.
    return (chosen - total).clamp(max=0.0)
