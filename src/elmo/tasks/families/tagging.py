"""Tagging: one tag a word. Where tags mark spans, a CRF sees to it that they make sense together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.tasks.examples import TaggedSentence, Words
from elmo.tasks.families.family import GIVEN, Labels, MakeEncoder
from elmo.tasks.metrics import score_labels, score_spans, tag_spans
from elmo.tasks.networks.crf import Crf
from elmo.tasks.networks.encoder import Batcher
from elmo.tasks.settings import TaskSettings
from elmo.text.sentence_input import read_sentence
from elmo.text.tokenize import tokenize

_OUTSIDE, _PREFIXES = "O", tuple("BIMELSU")  # of IOB, IOB2, IOBES, BMES and BILOU
_IS_OPEN, _GOES_ON = ("B", "I", "M"), ("I", "M", "E", "L")


@dataclass(frozen=True)
class TagPrediction:
    """The words of a sentence and the tag of each; `spans` are those the tags mark: type, start, end."""

    words: Words
    tags: Words

    @property
    def spans(self) -> list[tuple[str, int, int]]:
        """Half-open ranges of words with their type."""
        return [(kind, first, last + 1) for kind, first, last in tag_spans(self.tags)]


class Tagging:
    """Part of speech, named entities, chunks."""

    name = "tagging"

    def texts(self, example: TaggedSentence) -> tuple[Words, ...]:
        """Give the sentence."""
        return (example.words,)

    def learn_labels(self, examples: Sequence[TaggedSentence], settings: TaskSettings) -> Labels:
        """Give the tags, whether they mark spans, by a strict scheme or not, and whether a CRF is on top."""
        tags = sorted({tag for example in examples for tag in example.tags or ()})
        marks_spans = are_span_tags(tags)
        crf = marks_spans if settings.network.crf == "auto" else settings.network.crf == "yes"
        strict = marks_spans and all(follows_scheme(example.tags or ()) for example in examples)
        return {"tags": tags, "marks_spans": marks_spans, "strict": strict, "crf": crf}

    def unknown_targets(self, example: TaggedSentence, labels: Labels) -> Iterable[str]:
        """Give the tags that were not learned."""
        return sorted(set(example.tags or ()).difference(labels["tags"]))

    def build(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> nn.Module:
        """Make the tagger."""
        return Tagger(make_encoder, labels)

    def metric(self, labels: Labels) -> str:
        """F1 of spans if the tags mark spans, else accuracy."""
        return "f1" if labels["marks_spans"] else "accuracy"

    def score(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[TagPrediction], labels: Labels
    ) -> dict[str, float]:
        """Give span scores where tags mark spans, and accuracy."""
        gold = [example.tags or () for example in examples]
        tags = [prediction.tags for prediction in predictions]
        accuracy = score_labels([tag for row in gold for tag in row], [tag for row in tags for tag in row])
        return {**score_spans(gold, tags), **accuracy} if labels["marks_spans"] else accuracy

    def from_python(self, item: Any) -> TaggedSentence:
        """Take a sentence: a string or a list of words."""
        return TaggedSentence(tuple(read_sentence(item, tokenize)), None, GIVEN)


class Tagger(nn.Module):
    """h -> a score for each tag, then a CRF or the best of each word."""

    def __init__(self, make_encoder: MakeEncoder, labels: Labels) -> None:
        super().__init__()
        self.encoder = make_encoder(0)
        self._tags = labels["tags"]
        self._ids = {tag: number for number, tag in enumerate(self._tags)}
        self.scores = nn.Linear(self.encoder.output_dim, len(self._tags))
        self.crf: Crf | None = None
        if labels["crf"]:
            self.crf = Crf(len(self._tags), *(_allowed(self._tags) if labels["strict"] else (None, None)))

    def loss(self, examples: Sequence[TaggedSentence], batcher: Batcher) -> Tensor:
        """Give the mean loss."""
        batch = batcher([example.words for example in examples])
        scores = self.scores(self.encoder(batch))
        tags = torch.zeros_like(batch.learned_ids)
        for row, example in enumerate(examples):
            ids = [self._ids[tag] for tag in example.tags or ()]
            tags[row, : len(ids)] = torch.tensor(ids, dtype=torch.int64)
        if self.crf is not None:
            return self.crf.loss(scores, tags, batch.mask)
        return F.cross_entropy(scores[batch.mask], tags[batch.mask])

    @torch.no_grad()
    def predict(self, examples: Sequence[TaggedSentence], batcher: Batcher) -> list[TagPrediction]:
        """Give the best tags."""
        batch = batcher([example.words for example in examples])
        scores = self.scores(self.encoder(batch))
        rows = scores.argmax(dim=-1).tolist() if self.crf is None else self.crf.decode(scores, batch.mask)
        return [
            TagPrediction(example.words, tuple(self._tags[tag] for tag in row[: len(example.words)]))
            for example, row in zip(examples, rows, strict=True)
        ]


def are_span_tags(tags: Sequence[str]) -> bool:
    """Tell tags such as B-person from plain ones."""
    prefixes = [tag.partition("-") for tag in tags if tag != _OUTSIDE]
    return bool(prefixes) and all(prefix in _PREFIXES and kind for prefix, _, kind in prefixes)


def follows_scheme(tags: Sequence[str]) -> bool:
    """Tell whether a sentence's tags begin every span with B- (or S-, U-), as IOB2, IOBES, BMES and BILOU do."""
    return all(may_follow(one, other) for one, other in zip((_OUTSIDE, *tags), tags, strict=False))


def may_follow(one: str, other: str) -> bool:
    """Tell whether a tag may follow another where every span begins with B- (or S-, U-)."""
    (before, _, kind), (prefix, _, other_kind) = one.partition("-"), other.partition("-")
    return prefix not in _GOES_ON or (before in _IS_OPEN and kind == other_kind)


def _allowed(tags: Sequence[str]) -> tuple[Tensor, Tensor]:
    pairs = torch.tensor([[may_follow(one, other) for other in tags] for one in tags])
    return pairs, torch.tensor([may_follow(_OUTSIDE, tag) for tag in tags])
