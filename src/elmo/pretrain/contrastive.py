"""Sentence vectors without a teacher: a sentence is close to a damaged copy of it and to its neighbour.

Each batch has neighbouring sentences, a shortened copy of each, and copies with a negation inserted or removed,
which must stay apart. Copies also differ by dropout on the vectors of words, as in SimCSE (Gao et al., 2021).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.config import ModelConfig
from elmo.corpus.prepared import MARK, PreparedCorpus
from elmo.model import Elmo
from elmo.nn.sentence_head import SentenceHead
from elmo.pretrain.distributed import Processes
from elmo.pretrain.objectives import (
    AuxiliaryLoss,
    AuxiliaryTask,
    BatchLayout,
    BatchSource,
    SentenceBatch,
    StaticTable,
)
from elmo.pretrain.sentences import ContrastFinder, SentenceObjective, build_head
from elmo.pretrain.settings import ContrastiveSettings
from elmo.pretrain.stream import Ids

MIN_WORDS = 5
_DRAW = 2  # separates these random numbers from those of the windows
_NEVER = -1e9


class ContrastiveBatches(BatchSource):
    """Pairs of neighbouring sentences of a corpus, each with a damaged copy."""

    def __init__(
        self,
        corpus: PreparedCorpus,
        layout: BatchLayout,
        processes: Processes,
        settings: ContrastiveSettings,
        *,
        contrasts: ContrastFinder,
        seed: int,
    ) -> None:
        self._corpus, self._blocks, self._layout = corpus, corpus.blocks(), layout
        self._processes, self._own, self._contrasts, self._seed = processes, settings, contrasts, seed

    def draw(self, number: int) -> SentenceBatch:
        """Return a batch: first the sentences, then one copy of each, then negated ones."""
        random = np.random.default_rng([self._seed, _DRAW, number, self._processes.rank])
        size = max(2, self._own.batch_sentences // 2 // self._processes.count)
        sentences: list[Ids] = []
        neighbors: list[tuple[int, int]] = []
        while len(sentences) < size:
            shard, start, stop = self._blocks[random.integers(len(self._blocks))]
            ids = self._corpus.read_block(int(shard), int(start), int(stop)).astype(np.int64)
            marks = np.append(np.flatnonzero(ids == MARK), len(ids))
            first = int(random.integers(len(marks) - 1))
            pair = [
                ids[at + 1 : end] for at, end in zip(marks[first : first + 2], marks[first + 1 :], strict=False)
            ]
            pair = [self._shorten(sentence, random) for sentence in pair if len(sentence) >= MIN_WORDS]
            if len(pair) == 2:
                neighbors.append((len(sentences), len(sentences) + 1))
            sentences += pair
        copies = [_damage(sentence, random) for sentence in sentences]
        variants = [self._contrasts.negate(sentence, random) for sentence in sentences]
        negated = [sentence for sentence in variants if sentence is not None][: size // 4]
        everything = [*sentences, *copies, *negated]
        batch = self._layout.arrange(everything, predicts=True, is_whole=[False] * len(everything))
        copied = [(number, number + len(sentences)) for number in range(len(sentences))]
        return replace(
            batch,
            positives=torch.tensor(copied),
            neighbors=torch.tensor(neighbors, dtype=torch.long).reshape(-1, 2),
            contrasts=self._contrasts.find(everything),
        )

    def _shorten(self, sentence: Ids, random: np.random.Generator) -> Ids:
        """Return a piece of a long sentence, of a random length: short texts are in the majority elsewhere."""
        longest = int(random.integers(MIN_WORDS, self._own.max_words + 1))
        start = int(random.integers(max(1, len(sentence) - longest + 1)))
        return sentence[start : start + longest]


def _damage(sentence: Ids, random: np.random.Generator) -> Ids:
    """Return a copy without some words, or without its beginning or end."""
    if random.random() < 0.5:
        keep = random.random(len(sentence)) > 0.15
        return sentence[keep] if keep.sum() >= 2 else sentence
    size = max(MIN_WORDS - 1, round(len(sentence) * random.uniform(0.6, 1)))
    start = int(random.integers(max(1, len(sentence) - size + 1)))
    return sentence[start : start + size]


class ContrastiveSentences(SentenceObjective):
    """The softmax loss of finding the copy of a sentence, or its neighbour, among all sentences of a batch."""

    metrics = ("contrastive_accuracy",)

    def __init__(self, head: SentenceHead, static: StaticTable, settings: ContrastiveSettings) -> None:
        super().__init__(head, static)
        self._own = settings

    def forward(self, layers: Tensor, batch: SentenceBatch) -> AuxiliaryLoss:
        """Return the loss, averaged over pairs."""
        assert batch.positives is not None and batch.neighbors is not None and batch.contrasts is not None
        own = self._own
        layers = F.dropout(layers, own.dropout, training=self.training)
        static = F.dropout(batch.static, own.dropout, training=self.training)
        vectors = self.encode(layers, replace(batch, static=static))
        cosines = vectors @ vectors.t() / own.temperature
        cosines = cosines.masked_fill(torch.eye(len(vectors), dtype=torch.bool, device=vectors.device), _NEVER)
        loss, accuracy = _find(cosines, batch.positives, batch.neighbors)
        if len(batch.neighbors):
            loss = loss + own.neighbors * _find(cosines, batch.neighbors, batch.positives)[0]
        loss = loss + own.contrast * self.separate(vectors, batch)
        num_pairs = len(batch.positives)
        return AuxiliaryLoss(own.weight * loss, {"contrastive_accuracy": (accuracy * num_pairs, num_pairs)})

    def validate(self, model: Elmo, sentences: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return how often a sentence of the text is closest to a copy without every sixth word."""
        chosen = [list(words)[: self._own.max_words] for words in sentences if len(words) >= MIN_WORDS][:500]
        if not chosen:
            return {}
        copies = [[word for place, word in enumerate(words) if place % 6 != 3] for words in chosen]
        cosines = self.encode_words(model, chosen) @ self.encode_words(model, copies).t()
        is_right = cosines.argmax(dim=1) == torch.arange(len(chosen))
        return {"contrastive_accuracy": float(is_right.float().mean())}


def _find(cosines: Tensor, pairs: Tensor, ignored: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of finding the second of each pair (P, 2) from the first among all; `ignored` pairs are left
    out.
    """
    first, second = pairs[:, 0], pairs[:, 1]
    hidden = torch.zeros_like(cosines, dtype=torch.bool)
    hidden[ignored[:, 0], ignored[:, 1]] = hidden[ignored[:, 1], ignored[:, 0]] = True
    rows = cosines.masked_fill(hidden, _NEVER)[first]
    return F.cross_entropy(rows, second), (rows.argmax(dim=1) == second).float().mean().detach()


def build_contrastive(
    settings: ContrastiveSettings,
    corpus: PreparedCorpus,
    config: ModelConfig,
    processes: Processes,
    start_from: Checkpoint | None,
    *,
    num_updates: int,
    seed: int,
) -> AuxiliaryTask:
    """Build the batches and the head of sentence vectors without a teacher."""
    static = StaticTable(start_from)
    layout = BatchLayout(
        corpus,
        max_characters=config.characters.max_characters if config.characters else None,
        reads_words=config.words is not None,
        static=static,
    )
    head = build_head(
        start_from,
        num_layers=config.encoder.num_layers + 1,
        input_dim=config.vector_dim,
        static_dim=static.dim,
        output_dim=settings.dim,
    )
    contrasts = ContrastFinder(corpus, settings.negations)
    batches = ContrastiveBatches(corpus, layout, processes, settings, contrasts=contrasts, seed=seed)
    objectives = nn.ModuleDict({"sentences": ContrastiveSentences(head, static, settings)})
    return AuxiliaryTask(batches, objectives, range(settings.every - 1, num_updates, settings.every))
