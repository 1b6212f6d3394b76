"""Relations: two marked spans in a sentence -> how they are related. Words know how far each span is."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.errors import InputError
from elmo.tasks.examples import MarkedPair, Span, Words
from elmo.tasks.families.classification import LabelPrediction, choose_labels
from elmo.tasks.families.family import GIVEN, Labels, MakeEncoder
from elmo.tasks.metrics import score_relations
from elmo.tasks.networks.encoder import Batcher
from elmo.tasks.networks.pooling import pool_max, pool_mean, span_mask
from elmo.tasks.readers.semeval import read_marked
from elmo.tasks.settings import TaskSettings

MAX_DISTANCE = 30
POSITION_DIM = 10


class Relations:
    """The relation between two nominals."""

    name = "relations"

    def texts(self, example: MarkedPair) -> tuple[Words, ...]:
        """Give the sentence."""
        return (example.words,)

    def learn_labels(self, examples: Sequence[MarkedPair], settings: TaskSettings) -> Labels:
        """Give the relations."""
        return {"labels": sorted({example.label for example in examples if example.label is not None})}

    def unknown_targets(self, example: MarkedPair, labels: Labels) -> Iterable[str]:
        """Give the relation if it was not learned."""
        return [example.label] if example.label is not None and example.label not in labels["labels"] else []

    def build(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> nn.Module:
        """Make the network."""
        return RelationNetwork(make_encoder, labels, settings)

    def metric(self, labels: Labels) -> str:
        """F1 averaged over relations, as SemEval-2010 has it."""
        return "macro_f1"

    def score(
        self, examples: Sequence[MarkedPair], predictions: Sequence[LabelPrediction], labels: Labels
    ) -> dict[str, float]:
        """Give macro F1 without "Other", and accuracy."""
        return score_relations(
            [example.label or "" for example in examples], [found.label for found in predictions]
        )

    def from_python(self, item: Any) -> MarkedPair:
        """Take a text with <e1>…</e1> and <e2>…</e2>."""
        if not isinstance(item, str):
            raise InputError(
                f"{item!r:.60} is not a text with marks, such as 'the <e1>arm</e1> of a <e2>chair</e2>'."
            )
        words, first, second = read_marked(item, "the input")
        return MarkedPair(words, first, second, None, GIVEN)


class RelationNetwork(nn.Module):
    """Words with their distances to both spans -> h -> the spans and the sentence, pooled -> scores."""

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> None:
        super().__init__()
        self.encoder = make_encoder(2 * POSITION_DIM)
        self._labels = labels["labels"]
        self._ids = {label: number for number, label in enumerate(self._labels)}
        self.distance = nn.Embedding(2 * MAX_DISTANCE + 1, POSITION_DIM)
        self.dropout = nn.Dropout(settings.network.dropout)
        self.hidden = nn.Linear(4 * self.encoder.output_dim, settings.network.dim)
        self.scores = nn.Linear(settings.network.dim, len(self._labels))

    def loss(self, examples: Sequence[MarkedPair], batcher: Batcher) -> Tensor:
        """Give the cross entropy of the relations."""
        targets = torch.tensor([self._ids[example.label or ""] for example in examples])
        return F.cross_entropy(self._read(examples, batcher), targets)

    @torch.no_grad()
    def predict(self, examples: Sequence[MarkedPair], batcher: Batcher) -> list[LabelPrediction]:
        """Give the most probable relation of each pair."""
        return choose_labels(self._labels, self._read(examples, batcher))

    def _read(self, examples: Sequence[MarkedPair], batcher: Batcher) -> Tensor:
        batch = batcher([example.words for example in examples])
        length = batch.mask.shape[1]
        sides = [[example.first for example in examples], [example.second for example in examples]]
        distances = [self.distance(_distances(spans, length)) for spans in sides]
        states = self.encoder(batch, torch.cat(distances, dim=-1))
        one, two = (pool_mean(states, span_mask(spans, length)) for spans in sides)
        outer = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(*sides, strict=True)]
        from_one_to_two = pool_max(states, span_mask(outer, length))
        pooled = torch.cat([one, two, from_one_to_two, pool_max(states, batch.mask)], dim=-1)
        scores: Tensor = self.scores(self.dropout(F.relu(self.hidden(self.dropout(pooled)))))
        return scores


def _distances(spans: Sequence[Span], length: int) -> Tensor:
    """(B, length): words before the span below MAX_DISTANCE, inside it equal, behind it above."""
    bounds = torch.tensor(spans)
    positions = torch.arange(length)
    before = (positions - bounds[:, :1]).clamp(-MAX_DISTANCE, 0)
    behind = (positions - bounds[:, 1:] + 1).clamp(0, MAX_DISTANCE)
    return before + behind + MAX_DISTANCE
