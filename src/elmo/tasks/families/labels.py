"""Families that predict a label: for a text (classification), for two sentences, or for two marked spans.

A pair may have a score instead of a label, and a text may also have labels for its phrases.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.tasks.examples import (
    LabelledText,
    LabelPrediction,
    MarkedPair,
    ScorePrediction,
    SentencePair,
    Span,
    Words,
)
from elmo.tasks.families.blocks import (
    attend,
    batch_length,
    build_sequence_encoder,
    pool_max,
    pool_max_mean,
    pool_mean,
    pool_spans,
    span_mask,
)
from elmo.tasks.families.metrics import score_labels, score_numbers, score_relations
from elmo.tasks.families.network import Labels, MakeEncoder, TaskNetwork
from elmo.tasks.settings import TaskSettings

MAX_DISTANCE = 30
POSITION_DIM = 10


class _LabelNetwork(TaskNetwork):
    """The base class of networks whose `_score` returns a score for each label."""

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, *, extra_dim: int = 0) -> None:
        super().__init__(labels)
        self.encoder = make_encoder(extra_dim)
        self._labels: list[str] = labels.get("labels", [])

    def loss(self, examples: Sequence[Any]) -> Tensor:
        """Return the cross entropy of the labels."""
        return self._label_loss(self._score(examples), [example.label for example in examples])

    def predict_batch(self, examples: Sequence[Any]) -> Sequence[LabelPrediction | ScorePrediction]:
        return LabelPrediction.from_probabilities(self._labels, self._score(examples).softmax(dim=-1).tolist())

    def _score(self, examples: Sequence[Any]) -> Tensor:
        raise NotImplementedError

    def _label_loss(self, scores: Tensor, labels: Sequence[Any]) -> Tensor:
        ids = {label: number for number, label in enumerate(self._labels)}
        return F.cross_entropy(scores, torch.tensor([ids[label] for label in labels]))


class Classification(_LabelNetwork):
    """Sentiment, topic: h -> pooled over the words -> a score for each label.

    A phrase is pooled over its words in the encoded text, so its label needs no further encoding.
    """

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> None:
        super().__init__(make_encoder, labels)
        dim = self.encoder.output_dim
        self.hidden = nn.Linear(2 * dim, settings.network.dim)
        self.dropout = nn.Dropout(settings.network.dropout)
        self.scores = nn.Linear(settings.network.dim, len(self._labels))
        # Most phrases are short and neutral, unlike texts, so they have a separate output layer.
        self.phrase_scores = nn.Linear(settings.network.dim, len(self._labels)) if labels["has_phrases"] else None

    @staticmethod
    def learn_labels(examples: Sequence[LabelledText], settings: TaskSettings) -> Labels:
        """Return the labels of texts and phrases, and whether there are phrases."""
        labels = {example.label for example in examples if example.label is not None}
        labels |= {label for example in examples for _, label in example.phrases}
        return {"labels": sorted(labels), "has_phrases": any(example.phrases for example in examples)}

    def loss(self, examples: Sequence[LabelledText]) -> Tensor:
        """Return the loss of the texts, plus the mean loss of their phrases."""
        states, mask = self.encoder([example.words for example in examples])
        loss = self._label_loss(self._score_texts(states, mask), [example.label for example in examples])
        phrases = [
            (row, span, label)
            for row, example in enumerate(examples)
            for span, label in example.phrases
            if span != (0, len(example.words))
        ]
        if self.phrase_scores is not None and phrases:
            rows, spans, labels = zip(*phrases, strict=True)
            pooled = pool_spans(states, torch.tensor(rows), spans)
            loss = loss + self._label_loss(self.phrase_scores(self._hide(pooled)), labels)
        return loss

    def _score(self, examples: Sequence[LabelledText]) -> Tensor:
        return self._score_texts(*self.encoder([example.words for example in examples]))

    def _score_texts(self, states: Tensor, mask: Tensor) -> Tensor:
        scores: Tensor = self.scores(self._hide(pool_max_mean(states, mask)))
        return scores

    def _hide(self, pooled: Tensor) -> Tensor:
        hidden: Tensor = self.dropout(F.relu(self.hidden(pooled)))
        return hidden


class Pairs(_LabelNetwork):
    """Entailment, similarity: both sentences -> attention between them -> compared word by word -> pooled -> scores."""

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> None:
        super().__init__(make_encoder, labels)
        self._low, self._high = labels.get("low", 0.0), labels.get("high", 1.0)
        dim = settings.network.dim
        self.compare = nn.Linear(4 * self.encoder.output_dim, dim)
        self.compose = build_sequence_encoder(settings.network, dim)
        self.dropout = nn.Dropout(settings.network.dropout)
        self.hidden = nn.Linear(8 * dim, dim)
        self.scores = nn.Linear(dim, len(self._labels) or 1)

    @staticmethod
    def texts(example: SentencePair) -> tuple[Words, ...]:
        """Return both sentences."""
        return (example.first, example.second)

    @staticmethod
    def learn_labels(examples: Sequence[SentencePair], settings: TaskSettings) -> Labels:
        """Return the labels, or the range of the scores."""
        targets = [example.target for example in examples]
        if isinstance(targets[0], float):
            numbers = [float(target) for target in targets if target is not None]
            return {"low": min(numbers), "high": max(max(numbers), min(numbers) + 1e-6)}
        return {"labels": sorted({str(target) for target in targets})}

    def unknown_targets(self, example: SentencePair) -> list[str]:
        """Return the label if it did not occur in training; any score is known."""
        is_known = not self._labels or example.target is None or example.target in self._labels
        return [] if is_known else [str(example.target)]

    @property
    def metric(self) -> str:
        """Accuracy of labels, Pearson's correlation of scores."""
        return "accuracy" if self._labels else "pearson"

    def score(self, examples: Sequence[SentencePair], predictions: Sequence[Any]) -> dict[str, float]:
        """Return accuracy and F1 of labels, or correlations of scores."""
        targets: list[Any] = [example.target for example in examples]
        if self._labels:
            return score_labels(list(map(str, targets)), [prediction.label for prediction in predictions])
        return score_numbers(list(map(float, targets)), [prediction.score for prediction in predictions])

    def loss(self, examples: Sequence[SentencePair]) -> Tensor:
        """Return the cross entropy of labels, or the squared error on a scale from 0 to 1."""
        scores = self._score(examples)
        if self._labels:
            return self._label_loss(scores, [str(example.target) for example in examples])
        targets = torch.tensor([float(example.target or 0) for example in examples])
        return F.mse_loss(torch.sigmoid(scores[:, 0]), (targets - self._low) / (self._high - self._low))

    def predict_batch(self, examples: Sequence[SentencePair]) -> Sequence[LabelPrediction | ScorePrediction]:
        """Return the most probable label of each pair, or its score on the scale of the data."""
        if self._labels:
            return super().predict_batch(examples)
        fractions = torch.sigmoid(self._score(examples)[:, 0])
        return [ScorePrediction(number) for number in (self._low + fractions * (self._high - self._low)).tolist()]

    def _score(self, examples: Sequence[SentencePair]) -> Tensor:
        states, mask = self.encoder([example.first for example in examples] + [example.second for example in examples])
        half = len(examples)
        aligned = attend(states, states.roll(half, dims=0), mask.roll(half, dims=0))
        combined = torch.cat([states, aligned, states - aligned, states * aligned], dim=-1)
        composed = self.compose(self.dropout(F.relu(self.compare(combined))), mask)
        pooled = pool_max_mean(composed, mask)
        first, second = pooled[:half], pooled[half:]
        features = torch.cat([first, second, (first - second).abs(), first * second], dim=-1)
        scores: Tensor = self.scores(self.dropout(F.relu(self.hidden(self.dropout(features)))))
        return scores


class Relations(_LabelNetwork):
    """Words with their distances to both spans -> h -> the spans and the sentence, pooled -> scores."""

    main_metric = "macro_f1"

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> None:
        super().__init__(make_encoder, labels, extra_dim=2 * POSITION_DIM)
        self.distance = nn.Embedding(2 * MAX_DISTANCE + 1, POSITION_DIM)
        self.dropout = nn.Dropout(settings.network.dropout)
        self.hidden = nn.Linear(4 * self.encoder.output_dim, settings.network.dim)
        self.scores = nn.Linear(settings.network.dim, len(self._labels))

    def score(self, examples: Sequence[MarkedPair], predictions: Sequence[LabelPrediction]) -> dict[str, float]:
        """Return F1 and accuracy as SemEval-2010 defines them."""
        gold = [example.label or "" for example in examples]
        return score_relations(gold, [prediction.label for prediction in predictions])

    def _score(self, examples: Sequence[MarkedPair]) -> Tensor:
        sentences = [example.words for example in examples]
        length = batch_length(sentences)
        sides = [[example.first for example in examples], [example.second for example in examples]]
        distances = [self.distance(_distances(spans, length)) for spans in sides]
        states, mask = self.encoder(sentences, torch.cat(distances, dim=-1))
        first, second = (pool_mean(states, span_mask(spans, length)) for spans in sides)
        enclosing = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(*sides, strict=True)]
        from_first_to_second = pool_max(states, span_mask(enclosing, length))
        pooled = torch.cat([first, second, from_first_to_second, pool_max(states, mask)], dim=-1)
        scores: Tensor = self.scores(self.dropout(F.relu(self.hidden(self.dropout(pooled)))))
        return scores


def _distances(spans: Sequence[Span], length: int) -> Tensor:
    """Return (B, length): values below MAX_DISTANCE before the span, MAX_DISTANCE inside, above it after the span."""
    bounds, positions = torch.tensor(spans), torch.arange(length)
    before = (positions - bounds[:, :1]).clamp(-MAX_DISTANCE, 0)
    after = (positions - bounds[:, 1:] + 1).clamp(0, MAX_DISTANCE)
    return before + after + MAX_DISTANCE
