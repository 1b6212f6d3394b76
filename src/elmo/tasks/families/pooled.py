"""A linear classifier of whole texts, on the mean vector of a frozen biLM and on TF-IDF of words and word pairs.

Each of the two has a logistic regression; cross-validation chooses their regularization and the weights of their
sum, except with few examples, for which the choice would be random. Training takes seconds and uses every example,
so it suits long texts and small training sets, on which a recurrent network overfits.
"""

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.extras import require
from elmo.tasks.examples import LabelledText, LabelPrediction, Words
from elmo.tasks.families.blocks import NetworkInputs, WordList
from elmo.tasks.families.network import Labels, TaskNetwork

Array = npt.NDArray[np.float32]
Targets = npt.NDArray[np.int64]
MAX_NGRAMS = 30_000
STRENGTHS = (4.0, 16.0, 64.0, 256.0)  # C of logistic regression
MIN_TUNING_EXAMPLES, FIXED_STRENGTH = 200, 64.0  # with fewer examples, cross-validation is too noisy to choose by
LOSS_MARGIN = 1.05  # with few examples, factor by which TF-IDF must reduce the loss of vectors alone
SHARES = ((1.0, 0.0), (1.0, 1.0), (1.0, 0.5), (0.5, 1.0), (0.0, 1.0))  # of vectors and of TF-IDF
TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0)
SHRINKAGE = 200  # number of texts at which a variance weighs as much as the mean of its group
NUM_FOLDS, NUM_FOLDS_IF_MANY, MANY_EXAMPLES = 5, 3, 1000
_MAX_STEPS = 200


def choose_ngrams(texts: Sequence[Words]) -> WordList:
    """Return the most frequent words and word pairs, in lower case; of many texts, at least two must have them."""
    counts: Counter[str] = Counter()
    for words in texts:
        counts.update(set(_ngrams(words)))
    min_count = 2 if len(texts) >= 50 else 1
    ranked = sorted((-count, ngram) for ngram, count in counts.items() if count >= min_count)
    return WordList([ngram for _, ngram in ranked[:MAX_NGRAMS]])


def _ngrams(words: Words) -> Iterator[str]:
    lower = [word.lower() for word in words]
    yield from lower
    yield from map(" ".join, pairwise(lower))


class PooledClassifier(TaskNetwork):
    """The mean of a text's word vectors (num_values) and its TF-IDF (num_ngrams) -> scores of labels."""

    center: Tensor
    scale: Tensor
    idf: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, labels: Labels, inputs: NetworkInputs) -> None:
        super().__init__(labels)
        self._labels: list[str] = labels["labels"]
        self._inputs = inputs
        dim = 0 if inputs.bilm is None else inputs.bilm.num_values
        num_ngrams = len(inputs.words.learned.words)
        for name, shape in (
            ("center", (dim,)), ("scale", (dim,)), ("idf", (num_ngrams,)),
            ("weight", (dim + num_ngrams, len(self._labels))), ("bias", (len(self._labels),)),
        ):  # fmt: skip
            self.register_buffer(name, torch.zeros(shape))

    def fit_examples(self, examples: Sequence[LabelledText], seed: int) -> list[LabelPrediction]:
        """Fit a classifier on vectors and one on TF-IDF, and add their weights; return held-out predictions.

        A weighted sum of two linear classifiers is also linear, and better than one classifier on all features,
        because each of them has its own regularization strength.
        """
        vectors, counts = self._read(examples)
        self._learn_scales(vectors, counts)
        ids = {label: number for number, label in enumerate(self._labels)}
        targets = np.array([ids[str(example.label)] for example in examples])
        folds = _assign_folds(targets, seed)
        threads = require("threadpoolctl", "tasks", "This classifier")
        limits = threads.threadpool_limits(torch.get_num_threads(), user_api="blas")
        with limits, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that reaches _MAX_STEPS is good enough
            blocks = [self._standardize(vectors), self._apply_idf(counts)]
            fitted = [_fit_block(block, targets, len(ids), folds) for block in blocks]
        factors, probabilities = _weigh_blocks([held_out for _, _, held_out in fitted], targets)
        weights = [factor * weight for factor, (weight, _, _) in zip(factors, fitted, strict=True)]
        self.weight[:] = torch.from_numpy(np.concatenate(weights))
        self.bias[:] = torch.from_numpy(
            sum(factor * bias for factor, (_, bias, _) in zip(factors, fitted, strict=True))
        )
        return LabelPrediction.from_probabilities(self._labels, probabilities.tolist())

    def predict_batch(self, examples: Sequence[LabelledText]) -> list[LabelPrediction]:
        """Return the most probable label of each text."""
        vectors, counts = self._read(examples)
        weight, dim = self.weight.numpy(), self.center.shape[0]
        scores = self._standardize(vectors) @ weight[:dim] + self._apply_idf(counts) @ weight[dim:]
        return LabelPrediction.from_probabilities(self._labels, _softmax(scores + self.bias.numpy()).tolist())

    def _read(self, examples: Sequence[LabelledText]) -> tuple[Array, Any]:
        """Return mean vectors (N, num_values) and logarithmic n-gram counts, sparse (N, num_ngrams)."""
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        vectors = np.zeros((len(examples), self.center.shape[0]), dtype=np.float32)
        for number, example in enumerate(examples):
            if self._inputs.read_layers is not None:
                vectors[number] = self._inputs.read_layers(example.words)[0]
            numbers = Counter(self._inputs.words.learned.known_indices(_ngrams(example.words)))
            rows += [number] * len(numbers)
            columns += numbers.keys()
            values += [1 + math.log(count) for count in numbers.values()]
        shape = (len(examples), self.idf.shape[0])
        sparse = require("scipy.sparse", "tasks", "This classifier")
        return vectors, sparse.csr_array((np.array(values, dtype=np.float32), (rows, columns)), shape=shape)

    def _learn_scales(self, vectors: Array, counts: Any) -> None:
        """Learn scales that give vectors a mean squared norm of 1, like TF-IDF; context vectors account for half."""
        if (bilm := self._inputs.bilm) is not None:
            self.center[:] = torch.from_numpy(vectors.mean(axis=0))
            layers_dim = bilm.num_layers * bilm.dim
            variances = [group for group in np.split(vectors.var(axis=0), [layers_dim]) if group.any()]
            # The variances of few texts are uncertain, so they are shrunk towards the mean of their group.
            weight = len(vectors) / (len(vectors) + SHRINKAGE)
            shrunk = [weight * group + (1 - weight) * group.mean() for group in variances]
            scales = [1 / np.sqrt(group * len(group) * len(shrunk)) for group in shrunk]
            self.scale[: sum(map(len, scales))] = torch.from_numpy(np.concatenate([*scales, np.zeros(0)]))
        num_texts = np.bincount(counts.indices, minlength=counts.shape[1])
        self.idf[:] = torch.from_numpy(np.log((1 + counts.shape[0]) / (1 + num_texts)) + 1)

    def _standardize(self, vectors: Array) -> Array:
        standardized: Array = (vectors - self.center.numpy()) * self.scale.numpy()
        return standardized

    def _apply_idf(self, counts: Any) -> Any:
        if not counts.shape[1]:
            return counts
        return require("sklearn.preprocessing", "tasks", "This classifier").normalize(counts * self.idf.numpy())


def _fit_block(block: Any, targets: Targets, num_labels: int, folds: Targets) -> tuple[Array, Array, Array]:
    """Return weights (D, K) and bias (K,) for features (N, D), and held-out scores (N, K) of the examples."""
    num_texts, dim = block.shape
    if not dim:
        return (
            np.zeros((0, num_labels), np.float32),
            np.zeros(num_labels, np.float32),
            np.zeros((num_texts, num_labels), np.float32),
        )
    rotation = None
    if isinstance(block, np.ndarray) and num_texts < dim:  # the weights are sums of the examples' features
        rotated, lengths, rotation = np.linalg.svd(block, full_matrices=False)
        block = rotated * lengths
    candidates = []
    for strength in STRENGTHS if num_texts >= MIN_TUNING_EXAMPLES else (FIXED_STRENGTH,):
        scores = np.zeros((num_texts, num_labels), dtype=np.float32)
        for fold in range(folds.max() + 1):
            held_out = folds == fold
            weight, bias = _fit_logistic(block[~held_out], targets[~held_out], num_labels, strength)
            scores[held_out] = block[held_out] @ weight + bias
        candidates.append((_log_loss(_softmax(scores), targets), strength, scores))
    _, strength, scores = min(candidates, key=itemgetter(0))
    weight, bias = _fit_logistic(block, targets, num_labels, strength)
    return weight if rotation is None else rotation.T @ weight, bias, scores


def _fit_logistic(features: Any, targets: Targets, num_labels: int, strength: float) -> tuple[Array, Array]:
    """Return the weights (D, K) and the bias (K,) of logistic regression; labels that are absent score low."""
    weight, bias = np.zeros((features.shape[1], num_labels), np.float32), np.full(num_labels, -5, np.float32)
    present = np.unique(targets)
    bias[present] = 0
    if len(present) > 1:
        linear = require("sklearn.linear_model", "tasks", "This classifier")
        fitted = linear.LogisticRegression(C=strength, max_iter=_MAX_STEPS).fit(features, targets)
        signs = np.array([[-0.5], [0.5]]) if len(present) == 2 else np.ones((1, 1))  # two labels have one vector
        weight[:, present] = (fitted.coef_ * signs).T
        bias[present] = fitted.intercept_ * signs.ravel()
    return weight, bias


def _weigh_blocks(held_out: Sequence[Array], targets: Targets) -> tuple[Sequence[np.float32], Array]:
    """Return the factors by which the scores of vectors and TF-IDF are added up, and the resulting probabilities."""

    def add_up(factors: Sequence[np.float32]) -> Array:
        return _softmax(factors[0] * held_out[0] + factors[1] * held_out[1])

    losses: list[tuple[float, list[np.float32]]] = []
    shares = SHARES if all(scores.any() for scores in held_out) else ((1.0, 1.0),)
    for number, pair in enumerate(shares):
        for temperature in TEMPERATURES:
            factors = [
                np.float32(share / temperature / max(float(scores.std()), 1e-6))
                for share, scores in zip(pair, held_out, strict=True)
            ]
            is_doubtful = number > 0 and len(targets) < MIN_TUNING_EXAMPLES
            losses.append((_log_loss(add_up(factors), targets) * (LOSS_MARGIN if is_doubtful else 1), factors))
    _, factors = min(losses, key=itemgetter(0))
    return factors, add_up(factors)


def _log_loss(probabilities: Array, targets: Targets) -> float:
    return float(-np.log(np.maximum(probabilities[np.arange(len(targets)), targets], 1e-9)).mean())


def _assign_folds(targets: Targets, seed: int) -> Targets:
    """Return the fold of each example; every label is spread over all folds."""
    num_folds = min(len(targets), NUM_FOLDS if len(targets) <= MANY_EXAMPLES else NUM_FOLDS_IF_MANY)
    order = np.random.default_rng(seed).permutation(len(targets))
    by_label = order[np.argsort(targets[order], kind="stable")]
    folds = np.empty(len(targets), dtype=np.int64)
    folds[by_label] = np.arange(len(targets)) % num_folds
    return folds


def _softmax(scores: Array) -> Array:
    exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: Array = exponents / exponents.sum(axis=1, keepdims=True)
    return probabilities
