"""A linear classifier of whole texts: pooled vectors of a frozen biLM beside TF-IDF of words and word pairs.

Regularization, and which of the two kinds of features are used, are chosen by cross-validation. The fit takes
seconds and uses every example, so it suits long texts and few labels, where a recurrent network overfits.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.extras import require
from elmo.tasks.examples import LabelledText, LabelPrediction, Words
from elmo.tasks.families import Labels, TaskNetwork
from elmo.tasks.families.networks import Batcher, BilmShape, WordList

Array = npt.NDArray[np.float32]
MAX_NGRAMS = 30_000
MAX_LANDMARKS = 1500  # examples that span the space of the weights; all of them if they are fewer
STRENGTHS = (1.0, 4.0, 16.0, 64.0, 256.0)  # C of logistic regression
TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0)
SHRINKAGE = 200  # texts by which a variance weighs as much as the mean of its group
CLEARLY_WORSE = 1.05  # factor of the loss by which one block of features must be better than all together
NUM_FOLDS, NUM_FOLDS_OF_MANY, MANY = 5, 3, 1000
_TOLERANCE, _MAX_STEPS = 1e-4, 200


def choose_ngrams(texts: Sequence[Words]) -> WordList:
    """Return the words and word pairs of TF-IDF, in lower case: the most frequent, of many texts those in two."""
    counts: Counter[str] = Counter()
    for words in texts:
        counts.update(set(_ngrams(words)))
    min_count = 2 if len(texts) >= 50 else 1
    chosen = sorted((-count, ngram) for ngram, count in counts.items() if count >= min_count)
    return WordList([ngram for _, ngram in chosen[:MAX_NGRAMS]])


def _ngrams(words: Words) -> Iterator[str]:
    lower = [word.lower() for word in words]
    yield from lower
    yield from map(" ".join, pairwise(lower))


class PooledClassifier(TaskNetwork):
    """Mean and maximum of a text's word vectors (pooled_dim) and its TF-IDF (num_ngrams) -> scores of labels."""

    fits_directly = True
    center: Tensor
    scale: Tensor
    idf: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, labels: Labels, *, num_ngrams: int, bilm: BilmShape | None) -> None:
        super().__init__()
        self._labels: list[str] = labels["labels"]
        self._bilm = bilm
        pooled_dim = 0 if bilm is None else bilm.pooled_dim
        for name, shape in (
            ("center", (pooled_dim,)), ("scale", (pooled_dim,)), ("idf", (num_ngrams,)),
            ("weight", (pooled_dim + num_ngrams, len(self._labels))), ("bias", (len(self._labels),)),
        ):  # fmt: skip
            self.register_buffer(name, torch.zeros(shape))

    def fit_examples(self, examples: Sequence[LabelledText], batcher: Batcher, seed: int) -> list[LabelPrediction]:
        """Fit a classifier on vectors and one on TF-IDF, and add them up; return held-out predictions.

        The weighted sum of two linear classifiers is one too, and better than one on all features at once, because
        each has its own strength of regularization.
        """
        layers, counts = self._read(examples, batcher)
        self._learn_scales(layers, counts)
        pooled_dim = layers.shape[1]
        blocks = {
            (0, pooled_dim): self._standardize(layers),
            (pooled_dim, pooled_dim + counts.shape[1]): self._weigh(counts),
        }
        blocks = {columns: block for columns, block in blocks.items() if block.shape[1]}
        ids = {label: number for number, label in enumerate(self._labels)}
        targets = np.array([ids[str(example.label)] for example in examples])
        folds = _cut_folds(targets, seed)
        threads = require("threadpoolctl", "tasks", "This classifier")
        with threads.threadpool_limits(torch.get_num_threads(), user_api="blas"):
            fitted = {columns: _fit_block(block, targets, len(ids), folds, seed) for columns, block in blocks.items()}
        factors, probabilities = _weigh_blocks([block.held_out for block in fitted.values()], targets)
        self.bias.zero_()
        for factor, (columns, block) in zip(factors, fitted.items(), strict=True):
            self.weight[columns[0] : columns[1]] = torch.from_numpy(block.weight * np.float32(factor))
            self.bias += torch.from_numpy(block.bias * np.float32(factor))
        return self._to_predictions(probabilities)

    @torch.no_grad()
    def predict(self, examples: Sequence[LabelledText], batcher: Batcher) -> list[LabelPrediction]:
        """Return the most probable label of each text."""
        layers, counts = self._read(examples, batcher)
        weight, pooled_dim = self.weight.numpy(), self.center.shape[0]
        scores = self._standardize(layers) @ weight[:pooled_dim] + self._weigh(counts) @ weight[pooled_dim:]
        return self._to_predictions(_softmax(scores + self.bias.numpy()))

    def _to_predictions(self, rows: Array) -> list[LabelPrediction]:
        names = self._labels
        return [LabelPrediction(names[int(row.argmax())], dict(zip(names, row.tolist(), strict=True))) for row in rows]

    def _read(self, examples: Sequence[LabelledText], batcher: Batcher) -> tuple[Array, Any]:
        """Return pooled layers (N, pooled_dim) and logarithmic n-gram counts, sparse (N, num_ngrams)."""
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        layers = np.zeros((len(examples), self.center.shape[0]), dtype=np.float32)
        for number, example in enumerate(examples):
            if layers.shape[1]:
                layers[number] = batcher.layers_of(example.words)[0]
            numbers = Counter(batcher.words.learned.known_ids(_ngrams(example.words)))
            rows += [number] * len(numbers)
            columns += numbers.keys()
            values += [1 + math.log(count) for count in numbers.values()]
        shape = (len(examples), self.idf.shape[0])
        sparse = require("scipy.sparse", "tasks", "This classifier")
        return layers, sparse.csr_array((np.array(values, dtype=np.float32), (rows, columns)), shape=shape)

    def _learn_scales(self, layers: Array, counts: Any) -> None:
        """Standardize texts to a mean squared length of 1, as TF-IDF has it.

        The means of the layers, their maxima and the context vectors have equal shares of it.
        """
        if self._bilm is not None:
            self.center[:] = torch.from_numpy(layers.mean(axis=0))
            variance = layers.var(axis=0)
            is_used = variance > 1e-12
            groups = np.arange(layers.shape[1]) // self._bilm.num_values
            groups[np.arange(layers.shape[1]) % self._bilm.num_values >= self._bilm.num_layers * self._bilm.dim] = 2
            shares = np.bincount(groups[is_used], minlength=3)
            lengths = np.sqrt(np.maximum(1, shares) * (shares > 0).sum())[groups]
            # The variances of few texts are uncertain, so they are drawn towards the mean of their group.
            means = np.bincount(groups[is_used], weights=variance[is_used], minlength=3) / np.maximum(1, shares)
            weight = len(layers) / (len(layers) + SHRINKAGE)
            deviation = np.sqrt(weight * variance + (1 - weight) * means[groups])
            self.scale[:] = torch.from_numpy(is_used / np.where(is_used, deviation, 1) / lengths)
        num_texts = np.bincount(counts.indices, minlength=counts.shape[1])
        self.idf[:] = torch.from_numpy(np.log((1 + counts.shape[0]) / (1 + num_texts)) + 1)

    def _standardize(self, layers: Array) -> Array:
        standardized: Array = (layers - self.center.numpy()) * self.scale.numpy()
        return standardized

    def _weigh(self, counts: Any) -> Any:
        weighted = counts.multiply(self.idf.numpy()[None]).tocsr()
        lengths = np.sqrt(weighted.multiply(weighted).sum(axis=1))
        return weighted.multiply((1 / np.maximum(lengths, 1e-9))[:, None]).tocsr().astype(np.float32)


@dataclass(frozen=True)
class _FittedBlock:
    """A linear classifier on one block of features."""

    weight: Array  # (D, K)
    bias: Array  # (K,)
    held_out: Array  # (N, K) scores of each example by a classifier that had not seen it


def _fit_block(
    block: Any, targets: npt.NDArray[np.int64], num_labels: int, folds: npt.NDArray[np.int64], seed: int
) -> _FittedBlock:
    """Choose the strength of regularization by cross-validation, and fit on all examples.

    A linear classifier's weights are a sum of the examples' features, so it is fitted in the space that these
    span, which has as many dimensions as examples and not as features.
    """
    chosen = np.sort(np.random.default_rng(seed).permutation(len(targets))[:MAX_LANDMARKS])
    landmarks = block[chosen]
    landmarks = landmarks.toarray() if hasattr(landmarks, "toarray") else landmarks
    products = block @ landmarks.T
    values, vectors = np.linalg.eigh(products[chosen].astype(np.float64))
    kept = values > 1e-6 * max(float(values.max()), 1e-12)
    basis = (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)
    features = products @ basis
    best: tuple[float, float, Array] | None = None
    for strength in STRENGTHS:
        scores = np.zeros((len(targets), num_labels), dtype=np.float32)
        for fold in range(folds.max() + 1):
            held_out = folds == fold
            weight, bias = _fit_logistic(features[~held_out], targets[~held_out], num_labels, strength)
            scores[held_out] = features[held_out] @ weight + bias
        loss = _log_loss(_softmax(scores), targets)
        if best is None or loss < best[0]:
            best = loss, strength, scores
    assert best is not None
    weight, bias = _fit_logistic(features, targets, num_labels, best[1])
    return _FittedBlock(np.asarray(landmarks.T @ (basis @ weight), dtype=np.float32), bias, best[2])


def _weigh_blocks(held_out: Sequence[Array], targets: npt.NDArray[np.int64]) -> tuple[tuple[float, ...], Array]:
    """Return the factors by which the scores of blocks are added up, and the probabilities that result.

    All blocks get an equal share, unless one of them alone is clearly better; the temperature is fitted.
    """
    scales = [1 / max(float(scores.std()), 1e-6) for scores in held_out]
    shares = [(1.0,) * len(held_out)]
    if len(held_out) > 1:
        shares += [tuple(float(at == number) for at in range(len(held_out))) for number in range(len(held_out))]
    best: tuple[float, tuple[float, ...], Array] | None = None
    for number, share in enumerate(shares):
        for temperature in TEMPERATURES:
            factors = tuple(part * scale / temperature for part, scale in zip(share, scales, strict=True))
            scores = sum(np.float32(factor) * block for factor, block in zip(factors, held_out, strict=True))
            probabilities = _softmax(np.asarray(scores))
            loss = _log_loss(probabilities, targets) * (1 if number == 0 else CLEARLY_WORSE)
            if best is None or loss < best[0]:
                best = loss, factors, probabilities
    assert best is not None
    return best[1], best[2]


def _log_loss(probabilities: Array, targets: npt.NDArray[np.int64]) -> float:
    return float(-np.log(np.maximum(probabilities[np.arange(len(targets)), targets], 1e-9)).mean())


def _fit_logistic(
    features: Array, targets: npt.NDArray[np.int64], num_labels: int, strength: float
) -> tuple[Array, Array]:
    """Return the weights (R, K) and the bias (K,) of multinomial logistic regression with an L2 penalty."""
    dim = features.shape[1]
    right = np.eye(num_labels, dtype=np.float32)[targets]

    def loss_and_gradient(values: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        table = values.reshape(dim + 1, num_labels).astype(np.float32)
        scores = features @ table[:dim] + table[dim]
        probabilities = _softmax(scores)
        loss = -np.log(np.maximum((probabilities * right).sum(axis=1), 1e-30)).sum()
        error = probabilities - right
        gradient = np.concatenate([strength * (features.T @ error) + table[:dim], strength * error.sum(0)[None]])
        total = strength * float(loss) + 0.5 * float((values[: dim * num_labels] ** 2).sum())
        return total / len(targets), gradient.ravel().astype(np.float64) / len(targets)

    found = require("scipy.optimize", "tasks", "This classifier").minimize(
        loss_and_gradient, np.zeros((dim + 1) * num_labels), jac=True, method="L-BFGS-B",
        options={"maxiter": _MAX_STEPS, "gtol": _TOLERANCE},
    )  # fmt: skip
    table = found.x.reshape(dim + 1, num_labels).astype(np.float32)
    return table[:dim], table[dim]


def _cut_folds(targets: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.int64]:
    """Return the fold of each example; every label is spread over all folds."""
    num_folds = min(len(targets), NUM_FOLDS if len(targets) <= MANY else NUM_FOLDS_OF_MANY)
    order = np.random.default_rng(seed).permutation(len(targets))
    by_label = order[np.argsort(targets[order], kind="stable")]
    folds = np.empty(len(targets), dtype=np.int64)
    folds[by_label] = np.arange(len(targets)) % num_folds
    return folds


def _softmax(scores: Array) -> Array:
    exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Array = exponents / exponents.sum(axis=1, keepdims=True)
    return shares
