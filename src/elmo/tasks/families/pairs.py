"""Sentence pairs: a label (entailment) or a number (similarity). Each sentence attends to the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.errors import InputError
from elmo.tasks.encoder import Batcher
from elmo.tasks.examples import SentencePair, Words
from elmo.tasks.families import Family, Labels, MakeEncoder, TaskNetwork
from elmo.tasks.families.classification import LabelPrediction, choose_labels
from elmo.tasks.metrics import score_labels, score_numbers
from elmo.tasks.networks import attend, build_sequence_encoder, pool_max, pool_mean
from elmo.tasks.settings import TaskSettings
from elmo.text.sentence_input import read_sentence
from elmo.text.tokenize import tokenize


@dataclass(frozen=True)
class ScorePrediction:
    """A number on the scale of the training data."""

    score: float


class _PairNetwork(TaskNetwork):
    """Both sentences -> attention between them -> compared word by word -> pooled -> scores."""

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> None:
        super().__init__(make_encoder, labels, settings)
        self.encoder = make_encoder(0)
        self._labels: list[str] | None = labels.get("labels")
        self._ids = {label: number for number, label in enumerate(self._labels or ())}
        self._low, self._high = labels.get("low", 0.0), labels.get("high", 1.0)
        dim = settings.network.dim
        self.compare = nn.Linear(4 * self.encoder.output_dim, dim)
        self.compose = build_sequence_encoder(settings.network, dim)
        self.dropout = nn.Dropout(settings.network.dropout)
        self.hidden = nn.Linear(8 * dim, dim)
        self.scores = nn.Linear(dim, len(self._labels) if self._labels else 1)

    def loss(self, examples: Sequence[SentencePair], batcher: Batcher) -> Tensor:
        """Return the cross entropy of labels, or the squared error on a scale from 0 to 1."""
        scores = self._score(examples, batcher)
        if self._labels is not None:
            return F.cross_entropy(scores, torch.tensor([self._ids[str(example.target)] for example in examples]))
        targets = torch.tensor([float(example.target or 0) for example in examples])
        return F.mse_loss(torch.sigmoid(scores[:, 0]), (targets - self._low) / (self._high - self._low))

    @torch.no_grad()
    def predict(
        self, examples: Sequence[SentencePair], batcher: Batcher
    ) -> Sequence[LabelPrediction | ScorePrediction]:
        scores = self._score(examples, batcher)
        if self._labels is not None:
            return choose_labels(self._labels, scores)
        numbers = self._low + torch.sigmoid(scores[:, 0]) * (self._high - self._low)
        return [ScorePrediction(number) for number in numbers.tolist()]

    def _score(self, examples: Sequence[SentencePair], batcher: Batcher) -> Tensor:
        batch = batcher([example.first for example in examples] + [example.second for example in examples])
        states = self.encoder(batch)
        half = len(examples)
        other = torch.cat([states[half:], states[:half]])
        other_mask = torch.cat([batch.mask[half:], batch.mask[:half]])
        aligned = attend(states, other, other_mask)
        together = torch.cat([states, aligned, states - aligned, states * aligned], dim=-1)
        composed = self.compose(self.dropout(F.relu(self.compare(together))), batch.mask)
        pooled = torch.cat([pool_max(composed, batch.mask), pool_mean(composed, batch.mask)], dim=-1)
        one, two = pooled[:half], pooled[half:]
        features = torch.cat([one, two, (one - two).abs(), one * two], dim=-1)
        scores: Tensor = self.scores(self.dropout(F.relu(self.hidden(self.dropout(features)))))
        return scores


class _Pairs(Family):
    """Textual entailment and semantic similarity."""

    name = "pairs"
    network = _PairNetwork

    def texts(self, example: SentencePair) -> tuple[Words, ...]:
        return (example.first, example.second)

    def learn_labels(self, examples: Sequence[SentencePair], settings: TaskSettings) -> Labels:
        """Return the labels, or the ends of the scale."""
        targets = [example.target for example in examples]
        if isinstance(targets[0], float):
            numbers = [float(target) for target in targets if target is not None]
            return {"low": min(numbers), "high": max(max(numbers), min(numbers) + 1e-6)}
        return {"labels": sorted({str(target) for target in targets})}

    def unknown_targets(self, example: SentencePair, labels: Labels) -> list[str]:
        is_known = "labels" not in labels or example.target is None or example.target in labels["labels"]
        return [] if is_known else [str(example.target)]

    def metric(self, labels: Labels) -> str:
        return "accuracy" if "labels" in labels else "pearson"

    def score(
        self,
        examples: Sequence[SentencePair],
        predictions: Sequence[LabelPrediction | ScorePrediction],
        labels: Labels,
    ) -> dict[str, float]:
        if "labels" in labels:
            found = [prediction.label for prediction in predictions if isinstance(prediction, LabelPrediction)]
            return score_labels([str(example.target) for example in examples], found)
        numbers = [prediction.score for prediction in predictions if isinstance(prediction, ScorePrediction)]
        return score_numbers([float(example.target or 0) for example in examples], numbers)

    def from_python(self, item: Any) -> SentencePair:
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise InputError(f"{item!r:.60} is not a pair of sentences, such as ('A man runs', 'Someone moves').")
        first, second = (tuple(read_sentence(sentence, tokenize)) for sentence in item)
        return SentencePair(first, second, None)


FAMILY = _Pairs()
