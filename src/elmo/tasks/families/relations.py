"""Relations: two marked spans in a sentence -> how they are related. Words know how far each span is."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.errors import InputError
from elmo.tasks.encoder import Batcher
from elmo.tasks.examples import MarkedPair, Span, make_marked_pair
from elmo.tasks.families import Family, Labels, MakeEncoder, TaskNetwork
from elmo.tasks.families.classification import LabelPrediction, choose_labels
from elmo.tasks.metrics import score_relations
from elmo.tasks.networks import pool_max, pool_mean, span_mask
from elmo.tasks.settings import TaskSettings

MAX_DISTANCE = 30
POSITION_DIM = 10


class _RelationNetwork(TaskNetwork):
    """Words with their distances to both spans -> h -> the spans and the sentence, pooled -> scores."""

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> None:
        super().__init__(make_encoder, labels, settings)
        self.encoder = make_encoder(2 * POSITION_DIM)
        self._labels = labels["labels"]
        self._ids = {label: number for number, label in enumerate(self._labels)}
        self.distance = nn.Embedding(2 * MAX_DISTANCE + 1, POSITION_DIM)
        self.dropout = nn.Dropout(settings.network.dropout)
        self.hidden = nn.Linear(4 * self.encoder.output_dim, settings.network.dim)
        self.scores = nn.Linear(settings.network.dim, len(self._labels))

    def loss(self, examples: Sequence[MarkedPair], batcher: Batcher) -> Tensor:
        targets = torch.tensor([self._ids[example.label or ""] for example in examples])
        return F.cross_entropy(self._score(examples, batcher), targets)

    @torch.no_grad()
    def predict(self, examples: Sequence[MarkedPair], batcher: Batcher) -> list[LabelPrediction]:
        return choose_labels(self._labels, self._score(examples, batcher))

    def _score(self, examples: Sequence[MarkedPair], batcher: Batcher) -> Tensor:
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
    """Return (B, length): below MAX_DISTANCE before the span, equal to it inside, above it behind."""
    bounds, positions = torch.tensor(spans), torch.arange(length)
    before = (positions - bounds[:, :1]).clamp(-MAX_DISTANCE, 0)
    behind = (positions - bounds[:, 1:] + 1).clamp(0, MAX_DISTANCE)
    return before + behind + MAX_DISTANCE


class _Relations(Family):
    """The relation between two nominals."""

    name = "relations"
    network = _RelationNetwork
    main_metric = "macro_f1"

    def score(
        self, examples: Sequence[MarkedPair], predictions: Sequence[LabelPrediction], labels: Labels
    ) -> dict[str, float]:
        gold = [example.label or "" for example in examples]
        return score_relations(gold, [found.label for found in predictions])

    def from_python(self, item: Any) -> MarkedPair:
        if not isinstance(item, str):
            raise InputError(
                f"{item!r:.60} is not a text with marks, such as 'the <e1>arm</e1> of a <e2>chair</e2>'."
            )
        return make_marked_pair(item, None)


FAMILY = _Relations()
