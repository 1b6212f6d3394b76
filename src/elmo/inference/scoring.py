"""Compute the probabilities of words from the states of both directions; scores and perplexities of sentences.

A softmax stored in int8 or float16 is expanded to float32 block by block, never as a whole.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.weights import StoredWeights
from elmo.errors import InputError
from elmo.text.sentence_input import Sentence, read_sentence
from elmo.text.units import Tokenization
from elmo.text.vocabulary import Vocabulary

Array = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
BLOCK_BYTES = 32 * 2**20  # of logits; their exponentials need the same amount again
POSITIONS_AT_ONCE = 1024  # a larger number does not make reading the weights faster
ROWS_AT_ONCE = 4096  # rows of a softmax that are expanded to float32
_BYTES_PER_LOGIT = 4
_SCALE = ".scale"  # suffix of the name of an int8 matrix's scales, see checkpoint/weights.py
# The exponential of a larger loss is not a finite floating-point number.
_LARGEST_LOSS = 700.0
SENTENCES_AT_ONCE = 128


class Softmax:
    """The softmax of one direction: a weight row and a bias for each word of the vocabulary."""

    def __init__(self, weight: npt.NDArray[Any], bias: npt.ArrayLike, scales: npt.ArrayLike | None = None) -> None:
        """`weight` (V, D) is float32, float16, or int8 with the `scales` (V,) of its rows; `bias` is (V,)."""
        self.weight, self.scales = weight, None if scales is None else np.asarray(scales, dtype=np.float32)
        self.bias: Array = np.asarray(bias, dtype=np.float32)

    def rows(self, indices: slice | Ids) -> Array:
        """Return rows of the weight matrix as float32."""
        rows = self.weight[indices].astype(np.float32, copy=False)
        return rows if self.scales is None else rows * self.scales[indices][..., None]

    def log_probabilities(self, states: Array) -> Array:
        """Return the log probabilities (N, V) of all words, given states (N, D)."""
        scores = np.concatenate(list(self._blocks(states)), axis=1)
        scores -= scores.max(axis=1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return scores

    def score(self, states: Array, words: Ids) -> Array:
        """Return the log probability (N,) of the word (N,) that follows each state (N, D)."""
        parts = [
            self._score(states[start : start + POSITIONS_AT_ONCE], words[start : start + POSITIONS_AT_ONCE])
            for start in range(0, len(words), POSITIONS_AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)

    def cosines(self, word: int) -> Array:
        """Return the cosine (V,) of every centred row with the row of a word: high for words with similar use."""
        mean, lengths = self._centred
        query = (self.rows(slice(word, word + 1))[0] - mean) / lengths[word]
        products = np.concatenate([self.rows(block) @ query for block in self._row_blocks()])
        cosines: Array = (products - mean @ query) / lengths
        return cosines

    @cached_property
    def _centred(self) -> tuple[Array, Array]:
        """The mean (D,) of the rows, and the lengths (V,) of the centred rows."""
        mean = sum(self.rows(block).sum(axis=0, dtype=np.float64) for block in self._row_blocks()) / len(self.weight)
        centre = np.asarray(mean, dtype=np.float32)
        lengths = [np.linalg.norm(self.rows(block) - centre, axis=1) for block in self._row_blocks()]
        return centre, np.maximum(np.concatenate(lengths), np.finfo(np.float32).tiny)

    def _row_blocks(self) -> Iterator[slice]:
        return (slice(start, start + ROWS_AT_ONCE) for start in range(0, len(self.weight), ROWS_AT_ONCE))

    def _score(self, states: Array, words: Ids) -> Array:
        total = np.full(len(states), -np.inf, dtype=np.float32)
        for block in self._blocks(states):
            peak = block.max(axis=1)
            total = np.logaddexp(total, peak + np.log(np.exp(block - peak[:, None]).sum(axis=1)))
        targets = np.einsum("nd,nkd->nk", states, self.rows(words[:, None]))[:, 0] + self.bias[words]
        # Rounding may make the log probability of a certain word positive.
        scores: Array = np.minimum(targets - total, np.float32(0))
        return scores

    def _blocks(self, states: Array) -> Iterator[Array]:
        """Yield the logits (N, words) of consecutive ranges of words."""
        words_at_once = max(1, BLOCK_BYTES // (_BYTES_PER_LOGIT * max(1, len(states))))
        for start in range(0, len(self.weight), words_at_once):
            window = slice(start, start + words_at_once)
            logits = states @ self.weight[window].astype(np.float32, copy=False).T
            if self.scales is not None:
                logits *= self.scales[window]
            logits += self.bias[window]
            yield logits


Softmaxes = tuple[Softmax, Softmax]  # left to right and right to left, possibly the same object


def open_softmaxes(weights: Mapping[str, Any]) -> Softmaxes | None:
    """Return the softmaxes of a checkpoint in the type they are stored in, or None if it has none."""
    weights = weights.stored if isinstance(weights, StoredWeights) else weights
    if "softmax.weight" not in weights:
        return None
    left_to_right = _open(weights, "softmax")
    if "right_to_left_softmax.weight" not in weights:
        return left_to_right, left_to_right
    return left_to_right, _open(weights, "right_to_left_softmax")


def _open(weights: Mapping[str, Any], name: str) -> Softmax:
    matrix = f"{name}.weight"
    return Softmax(np.asarray(weights[matrix]), weights[f"{name}.bias"], weights.get(matrix + _SCALE))


@dataclass(frozen=True, eq=False)
class SentenceScore:
    """Natural log probabilities of a sentence's words and its two boundaries; unknown words are scored as <UNK>."""

    words: tuple[str, ...]
    left_to_right: Array  # (T,): of each word after the words before it
    right_to_left: Array  # (T,): of each word before the words after it
    end: float  # left to right: of the end of the sentence after its last word
    begin: float  # right to left: of the beginning of the sentence before its first word
    is_unknown: npt.NDArray[np.bool_]  # (T,): not in the vocabulary, so scored as <UNK>

    @property
    def num_unknown(self) -> int:
        """The number of words that are not in the vocabulary."""
        return int(self.is_unknown.sum())

    @property
    def left_to_right_loss(self) -> float:
        """The sum of the negative log probabilities of the words and the end: T + 1 predictions."""
        return -(float(self.left_to_right.sum(dtype=np.float64)) + self.end)

    @property
    def right_to_left_loss(self) -> float:
        """The sum of the negative log probabilities of the words and the beginning: T + 1 predictions."""
        return -(float(self.right_to_left.sum(dtype=np.float64)) + self.begin)

    @property
    def perplexity(self) -> float:
        """The exponential of the mean loss over the predictions of both directions, 2 · (T + 1) in all."""
        num_predictions = 2 * (len(self.words) + 1)
        return to_perplexity((self.left_to_right_loss + self.right_to_left_loss) / num_predictions)


@dataclass(frozen=True)
class Evaluation:
    """The result of evaluate_text: mean losses with the full softmax, in nats, and the counts."""

    left_to_right_loss: float
    right_to_left_loss: float
    num_sentences: int
    num_words: int
    num_unknown: int

    @property
    def left_to_right_perplexity(self) -> float:
        """The exponential of the left-to-right loss."""
        return to_perplexity(self.left_to_right_loss)

    @property
    def right_to_left_perplexity(self) -> float:
        """The exponential of the right-to-left loss."""
        return to_perplexity(self.right_to_left_loss)

    @property
    def perplexity(self) -> float:
        """The exponential of the mean of both losses."""
        return to_perplexity((self.left_to_right_loss + self.right_to_left_loss) / 2)

    @property
    def num_predictions(self) -> int:
        """The number of predictions per direction: every word, and one boundary per sentence."""
        return self.num_words + self.num_sentences

    @property
    def unknown_rate(self) -> float:
        """The share of words that are not in the vocabulary, 0 to 1."""
        return self.num_unknown / self.num_words


def to_perplexity(loss: float) -> float:
    """Return the exponential of a mean loss, or infinity if it is out of range."""
    return math.exp(loss) if loss < _LARGEST_LOSS else math.inf


def require_softmax(softmaxes: Softmaxes | None, vocabulary: Vocabulary | None) -> tuple[Softmaxes, Vocabulary]:
    """Return the softmaxes and the vocabulary; raise InputError if the model does not have them."""
    if softmaxes is None:
        raise InputError(
            "This model has no softmax, so it returns vectors but cannot predict words; use a model trained with "
            "`elmo train`, or open the TensorFlow checkpoint it was exported from (format 'tensorflow')."
        )
    if vocabulary is None:
        raise InputError(
            "This model has no vocabulary, so the words that its softmax predicts are unknown; add the vocabulary "
            "file that it was trained with to its folder."
        )
    if missing := vocabulary.missing_special_words():
        raise InputError(
            f"The vocabulary of this model lacks {', '.join(missing)}, which predictions require; add the vocabulary "
            "file that it was trained with to its folder."
        )
    return softmaxes, vocabulary


def score_sentences(
    softmaxes: Softmaxes,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    states: tuple[Array, Array],
) -> list[SentenceScore]:
    """Score the tokens of a batch's sentences; `states` (B, T-1, D) of both directions predict them."""
    begin, end = vocabulary.boundaries().tolist()
    (unknown,) = vocabulary.encode([vocabulary.unknown]).tolist()
    ids = [vocabulary.encode(words).tolist() for words in sentences]
    left = _score_direction(softmaxes[0], states[0], [[*row, end] for row in ids])
    right = _score_direction(softmaxes[1], states[1], [[begin, *row] for row in ids])
    return [
        SentenceScore(
            words=tuple(words),
            left_to_right=left_to_right[:-1].copy(),
            right_to_left=right_to_left[1:].copy(),
            end=float(left_to_right[-1]),
            begin=float(right_to_left[0]),
            is_unknown=np.array(row, dtype=np.int64) == unknown,
        )
        for words, row, left_to_right, right_to_left in zip(sentences, ids, left, right, strict=True)
    ]


def _score_direction(softmax: Softmax, states: Array, targets: list[list[int]]) -> list[Array]:
    """Return the log probabilities of each row's target words, one array per row, given states (B, T-1, D)."""
    lengths = np.array([len(row) for row in targets])
    is_target = np.arange(states.shape[1]) < lengths[:, None]
    words = np.array([word for row in targets for word in row], dtype=np.int64)
    return np.split(softmax.score(states[is_target], words), np.cumsum(lengths)[:-1])


class _Model(Protocol):  # the part of Elmo that evaluate_text uses
    @property
    def state(self) -> Literal["zero", "carry"]: ...
    @property
    def tokenization(self) -> Tokenization: ...
    def score(self, sentences: Iterable[Sentence]) -> list[SentenceScore]: ...


def evaluate_text(model: _Model, sentences: Iterable[Sentence], *, split_on_spaces: bool = False) -> Evaluation:
    """Return the perplexity over all sentences; sentences without words are left out.

    With state="carry", sentences are run one after another, as in the original evaluation.
    """
    if isinstance(sentences, str) or not isinstance(sentences, Iterable):
        raise InputError("evaluate_text takes an iterable of sentences; for one sentence use score.")
    # The sentences of a batch start from the same state, so a carried state needs batches of one sentence.
    at_once = 1 if model.state == "carry" else SENTENCES_AT_ONCE
    left_to_right = right_to_left = 0.0
    num_sentences = num_words = num_unknown = 0
    tokenizer = model.tokenization.tokenizer(on_spaces=split_on_spaces)
    tokenized = (read_sentence(sentence, tokenizer, position=number) for number, sentence in enumerate(sentences))
    remaining = (words for words in tokenized if words)
    while window := list(itertools.islice(remaining, at_once)):
        for score in model.score(window):
            left_to_right += score.left_to_right_loss
            right_to_left += score.right_to_left_loss
            num_sentences += 1
            num_words += len(score.words)
            num_unknown += score.num_unknown
    if not num_words:
        raise InputError("The text has no words, so there is nothing to evaluate; check the file.")
    num_predictions = num_words + num_sentences
    return Evaluation(
        left_to_right / num_predictions, right_to_left / num_predictions, num_sentences, num_words, num_unknown
    )
