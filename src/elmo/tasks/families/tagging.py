"""Tagging: one tag per word. If the tags mark spans, a CRF keeps the sequence consistent."""

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.tasks.examples import TaggedSentence, TagPrediction
from elmo.tasks.families.metrics import SEGMENTATION, score_tags
from elmo.tasks.families.network import Labels, MakeEncoder, TaskNetwork
from elmo.tasks.settings import TaskSettings

_OUTSIDE, _PREFIXES = "O", tuple("BIMELSU")  # of IOB, IOB2, IOBES, BMES and BILOU
_OPEN, _CONTINUING = ("B", "I", "M"), ("I", "M", "E", "L")
_FORBIDDEN = -1e4


class Tagging(TaskNetwork):
    """Part of speech, named entities, chunks: h -> a score for each tag, then a CRF or the best tag per word."""

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> None:
        super().__init__(labels)
        self.encoder = make_encoder(0)
        self._tags = labels["tags"]
        self._ids = {tag: number for number, tag in enumerate(self._tags)}
        self.scores = nn.Linear(self.encoder.output_dim, len(self._tags))
        self.crf = Crf(len(self._tags), _allowed(self._tags) if labels["strict"] else None) if labels["crf"] else None

    @staticmethod
    def learn_labels(examples: Sequence[TaggedSentence], settings: TaskSettings) -> Labels:
        """Return the tags, whether they mark spans, whether all spans begin with B-, and whether to use a CRF."""
        tags = sorted({tag for example in examples for tag in example.tags or ()})
        pieces = [tag.partition("-") for tag in tags if tag != _OUTSIDE]
        has_types = bool(pieces) and all(prefix in _PREFIXES and span_type for prefix, _, span_type in pieces)
        marks_spans = has_types or {"B", "E", "S"} <= set(tags) <= SEGMENTATION
        strict = marks_spans and all(_follows_scheme(example.tags or ()) for example in examples)
        return {
            "tags": tags,
            "marks_spans": marks_spans,
            "strict": strict,
            "crf": marks_spans and settings.network.crf == "auto",
        }

    def unknown_targets(self, example: TaggedSentence) -> list[str]:
        """Return the tags that did not occur in training."""
        return sorted(set(example.tags or ()).difference(self._tags))

    @property
    def metric(self) -> str:
        """F1 of spans if the tags mark spans, else accuracy."""
        return "f1" if self.labels["marks_spans"] else "accuracy"

    def score(self, examples: Sequence[TaggedSentence], predictions: Sequence[TagPrediction]) -> dict[str, float]:
        """Return the scores of tags and of the spans that they mark."""
        gold = [example.tags or () for example in examples]
        tags = [prediction.tags for prediction in predictions]
        return score_tags(gold, tags, marks_spans=self.labels["marks_spans"])

    def loss(self, examples: Sequence[TaggedSentence]) -> Tensor:
        """Return the negative log-likelihood of the sequences under the CRF, or the cross entropy of the tags."""
        scores, mask = self._score(examples)
        tags = torch.zeros(mask.shape, dtype=torch.int64)
        for row, example in enumerate(examples):
            ids = [self._ids[tag] for tag in example.tags or ()]
            tags[row, : len(ids)] = torch.tensor(ids, dtype=torch.int64)
        if self.crf is not None:
            return self.crf.loss(scores, tags, mask)
        return F.cross_entropy(scores[mask], tags[mask])

    def predict_batch(self, examples: Sequence[TaggedSentence]) -> list[TagPrediction]:
        """Return the best sequence of tags of each sentence."""
        scores, mask = self._score(examples)
        rows = scores.argmax(dim=-1).tolist() if self.crf is None else self.crf.decode(scores, mask)
        return [
            TagPrediction(example.words, tuple(self._tags[tag] for tag in row[: len(example.words)]))
            for example, row in zip(examples, rows, strict=True)
        ]

    def _score(self, examples: Sequence[TaggedSentence]) -> tuple[Tensor, Tensor]:
        """Return the scores (B, T, K) of the tags, and the mask (B, T)."""
        states, mask = self.encoder([example.words for example in examples])
        return self.scores(states), mask


class Crf(nn.Module):
    """A linear-chain conditional random field: learned scores of tag pairs, of the first and of the last tag."""

    def __init__(self, num_tags: int, allowed: Tensor | None = None) -> None:
        """`allowed` (K + 1, K) is False for tags that decoding excludes: first at the start, then after each tag."""
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.first = nn.Parameter(torch.zeros(num_tags))
        self.last = nn.Parameter(torch.zeros(num_tags))
        self._penalties: Tensor
        penalties = torch.zeros(num_tags + 1, num_tags) if allowed is None else (~allowed) * _FORBIDDEN
        self.register_buffer("_penalties", penalties.float(), persistent=False)

    def loss(self, scores: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the mean of -log p(tags) over sentences: scores (B, T, K), tags (B, T), mask (B, T)."""
        # Training data may violate the scheme, so forbidden transitions are only excluded in decoding.
        valid = mask.to(scores.dtype)
        emissions = (scores.gather(2, tags[..., None])[..., 0] * valid).sum(dim=1)
        steps = self.transitions[tags[:, :-1], tags[:, 1:]] * valid[:, 1:]
        ends = tags.gather(1, (mask.sum(dim=1) - 1).clamp(min=0)[:, None])[:, 0]
        gold = emissions + steps.sum(dim=1) + self.first[tags[:, 0]] + self.last[ends]
        total = self.first + scores[:, 0]
        for step in range(1, scores.shape[1]):
            new = torch.logsumexp(total[:, :, None] + self.transitions, dim=1) + scores[:, step]
            total = torch.where(mask[:, step, None], new, total)
        normalizer = torch.logsumexp(total + self.last, dim=1)
        has_words = mask.any(dim=1)
        return ((normalizer - gold) * has_words).sum() / has_words.sum().clamp(min=1)

    @torch.no_grad()
    def decode(self, scores: Tensor, mask: Tensor) -> list[list[int]]:
        """Return the best sequence of tags of each sentence."""
        transitions = self.transitions + self._penalties[1:]
        total = self.first + self._penalties[0] + scores[:, 0]
        pointers = []
        for step in range(1, scores.shape[1]):
            best, pointer = (total[:, :, None] + transitions).max(dim=1)
            total = torch.where(mask[:, step, None], best + scores[:, step], total)
            pointers.append(pointer)
        lengths = mask.sum(dim=1).tolist()
        last_tags = (total + self.last).argmax(dim=1).tolist()
        sequences = []
        for row, (length, tag) in enumerate(zip(lengths, last_tags, strict=True)):
            path = [tag][:length]
            for pointer in reversed(pointers[: max(0, length - 1)]):
                tag = int(pointer[row, tag])
                path.append(tag)
            sequences.append(path[::-1])
        return sequences


def _follows_scheme(tags: Sequence[str]) -> bool:
    """Return whether every span begins with B- (or S-, U-), as in IOB2, IOBES, BMES and BILOU."""
    return all(itertools.starmap(_may_follow, itertools.pairwise((_OUTSIDE, *tags))))


def _may_follow(previous: str, tag: str) -> bool:
    (previous_prefix, _, previous_type), (prefix, _, span_type) = previous.partition("-"), tag.partition("-")
    return prefix not in _CONTINUING or (previous_prefix in _OPEN and previous_type == span_type)


def _allowed(tags: Sequence[str]) -> Tensor:
    """Return (K + 1, K): whether each tag may come first, then whether it may follow each tag."""
    return torch.tensor([[_may_follow(previous, tag) for tag in tags] for previous in (_OUTSIDE, *tags)])
