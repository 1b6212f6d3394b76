"""Classification: one label per text, and per phrase inside it where the training data has them.

A phrase is pooled over its words after the whole text was encoded, so its label costs no further reading.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.tasks.encoder import Batcher
from elmo.tasks.examples import LabelledText, Span
from elmo.tasks.families import Family, Labels, MakeEncoder, TaskNetwork
from elmo.tasks.metrics import score_labels
from elmo.tasks.networks import AttentionPooling, pool_ranges, span_mask
from elmo.tasks.settings import TaskSettings
from elmo.text.sentence_input import read_sentence
from elmo.text.tokenize import tokenize


@dataclass(frozen=True)
class LabelPrediction:
    """The most probable label, and the probability of each."""

    label: str
    probabilities: dict[str, float]


def choose_labels(labels: Sequence[str], scores: Tensor) -> list[LabelPrediction]:
    """Return a prediction for each row of scores (N, labels)."""
    return [
        LabelPrediction(labels[max(range(len(row)), key=row.__getitem__)], dict(zip(labels, row, strict=True)))
        for row in torch.softmax(scores, dim=-1).tolist()
    ]


class _Classifier(TaskNetwork):
    """h -> pooled over the words -> a score for each label."""

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> None:
        super().__init__(make_encoder, labels, settings)
        self.encoder = make_encoder(0)
        self._labels = labels["labels"]
        self._ids = {label: number for number, label in enumerate(self._labels)}
        dim = self.encoder.output_dim
        self.attention = AttentionPooling(dim) if settings.network.pooling == "attention" else None
        self.hidden = nn.Linear(dim if self.attention is not None else 2 * dim, settings.network.dim)
        self.dropout = nn.Dropout(settings.network.dropout)
        self.scores = nn.Linear(settings.network.dim, len(self._labels))
        # Most phrases are short and neutral, unlike texts; scores of their own leave those of texts alone.
        has_phrases = settings.network.phrases and labels["has_phrases"]
        self.phrase_scores = nn.Linear(settings.network.dim, len(self._labels)) if has_phrases else None

    def loss(self, examples: Sequence[LabelledText], batcher: Batcher) -> Tensor:
        """Return the loss of the texts, plus the mean loss of their phrases."""
        states = self.encoder(batcher([example.words for example in examples]))
        wholes = [(row, (0, len(example.words)), example.label) for row, example in enumerate(examples)]
        loss = self._span_loss(states, wholes, self.scores)
        phrases = [
            (row, span, label)
            for row, example in enumerate(examples)
            for span, label in example.phrases
            if span != (0, len(example.words))
        ]
        if self.phrase_scores is not None and phrases:
            loss = loss + self._span_loss(states, phrases, self.phrase_scores)
        return loss

    @torch.no_grad()
    def predict(self, examples: Sequence[LabelledText], batcher: Batcher) -> list[LabelPrediction]:
        states = self.encoder(batcher([example.words for example in examples]))
        wholes = [(row, (0, len(example.words))) for row, example in enumerate(examples)]
        return choose_labels(self._labels, self.scores(self._pool(states, wholes)))

    def _span_loss(
        self, states: Tensor, spans: Sequence[tuple[int, Span, str | None]], scores: nn.Linear
    ) -> Tensor:
        targets = torch.tensor([self._ids[label] for _, _, label in spans if label is not None])
        return F.cross_entropy(scores(self._pool(states, [(row, span) for row, span, _ in spans])), targets)

    def _pool(self, states: Tensor, spans: Sequence[tuple[int, Span]]) -> Tensor:
        """Return the features (N, dim) of each span of a row."""
        rows, ranges = torch.tensor([row for row, _ in spans]), [span for _, span in spans]
        if self.attention is not None:
            pooled = self.attention(states[rows], span_mask(ranges, states.shape[1]))
        else:
            pooled = pool_ranges(states, rows, ranges)
        hidden: Tensor = self.dropout(F.relu(self.hidden(pooled)))
        return hidden


class _Classification(Family):
    """Sentiment, topic."""

    name = "classification"
    network = _Classifier
    main_metric = "accuracy"

    def learn_labels(self, examples: Sequence[LabelledText], settings: TaskSettings) -> Labels:
        labels = {example.label for example in examples if example.label is not None}
        if settings.network.phrases:
            labels |= {label for example in examples for _, label in example.phrases}
        return {"labels": sorted(labels), "has_phrases": any(example.phrases for example in examples)}

    def score(
        self, examples: Sequence[LabelledText], predictions: Sequence[LabelPrediction], labels: Labels
    ) -> dict[str, float]:
        return score_labels([example.label or "" for example in examples], [found.label for found in predictions])

    def from_python(self, item: Any) -> LabelledText:
        return LabelledText(tuple(read_sentence(item, tokenize)), None)


FAMILY = _Classification()
