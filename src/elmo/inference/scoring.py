"""Packed batches -> how well the language model foresaw each word, from its left and from its right."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.inference.runtime import PredictingStates, Runtime
from elmo.inference.word_probabilities import require_softmax, score_words
from elmo.nn.softmax import WordSoftmax
from elmo.text.batch import CharBatch
from elmo.text.vocabulary import Vocabulary

LogProbabilities = npt.NDArray[np.float32]
# The exponential of more than this is no floating-point number.
_LARGEST_LOSS = 700.0


@dataclass(frozen=True, eq=False)
class SentenceScore:
    """Natural log probabilities of a sentence's words and of its two boundaries; unknown words as <UNK>."""

    words: tuple[str, ...]
    left_to_right: LogProbabilities  # (T,): of each word after the words before it
    right_to_left: LogProbabilities  # (T,): of each word before the words after it
    end: float  # left to right, of the sentence's end after its last word
    begin: float  # right to left, of the sentence's begin before its first word
    is_unknown: npt.NDArray[np.bool_]  # (T,): not in the vocabulary, so scored as <UNK>

    @property
    def num_unknown(self) -> int:
        """How many words are not in the vocabulary."""
        return int(self.is_unknown.sum())

    @property
    def left_to_right_loss(self) -> float:
        """The sum of the negative log probabilities of the words and the end: T + 1 predictions."""
        return -(float(self.left_to_right.sum(dtype=np.float64)) + self.end)

    @property
    def right_to_left_loss(self) -> float:
        """The sum of the negative log probabilities of the words and the begin: T + 1 predictions."""
        return -(float(self.right_to_left.sum(dtype=np.float64)) + self.begin)

    @property
    def perplexity(self) -> float:
        """exp of the mean loss over both directions' predictions: each word twice, the end and the begin once."""
        num_predictions = 2 * (len(self.words) + 1)
        return to_perplexity((self.left_to_right_loss + self.right_to_left_loss) / num_predictions)


def to_perplexity(loss: float) -> float:
    """Give the exponential of a mean loss, infinite where it is out of range."""
    return math.exp(loss) if loss < _LARGEST_LOSS else math.inf


def score_batches(
    runtime: Runtime,
    vocabulary: Vocabulary | None,
    sentences: Sequence[Sequence[str]],
    batches: Iterable[CharBatch],
) -> list[SentenceScore]:
    """Score sentences that were packed into `batches`; the scores come in the order of the sentences."""
    softmaxes, vocabulary = require_softmax(runtime.bilm, vocabulary)
    scores: list[SentenceScore | None] = [None] * len(sentences)
    for batch in batches:
        rows = [sentences[number] for number in batch.order]
        states = runtime.predict(batch)
        for number, score in zip(batch.order, _score_rows(softmaxes, vocabulary, rows, states), strict=True):
            scores[number] = score
    return cast(list[SentenceScore], scores)


@torch.inference_mode()
def _score_rows(
    softmaxes: tuple[WordSoftmax, WordSoftmax],
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    states: PredictingStates,
) -> list[SentenceScore]:
    begin, end = vocabulary.boundaries().tolist()
    (unknown,) = vocabulary.encode([vocabulary.unknown]).tolist()
    ids = [vocabulary.encode(words).tolist() for words in sentences]
    ahead = _score_direction(softmaxes[0], states[0], [[*row, end] for row in ids])
    back = _score_direction(softmaxes[1], states[1], [[begin, *row] for row in ids])
    return [
        SentenceScore(
            words=tuple(words),
            left_to_right=left_to_right[:-1].copy(),
            right_to_left=right_to_left[1:].copy(),
            end=float(left_to_right[-1]),
            begin=float(right_to_left[0]),
            is_unknown=np.array(row, dtype=np.int64) == unknown,
        )
        for words, row, left_to_right, right_to_left in zip(sentences, ids, ahead, back, strict=True)
    ]


def _score_direction(softmax: WordSoftmax, states: Tensor, targets: list[list[int]]) -> list[LogProbabilities]:
    """(B, T-1, D) and the words each row should predict -> their log probabilities, an array a row."""
    lengths = torch.tensor([len(row) for row in targets])
    real = torch.arange(states.shape[1]) < lengths[:, None]
    words = torch.tensor([word for row in targets for word in row], device=states.device)
    scored = score_words(softmax, states[real.to(states.device)], words).float().cpu().numpy()
    return np.split(scored, lengths.cumsum(0)[:-1].tolist())
