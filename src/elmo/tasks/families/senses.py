"""Word senses: choose the sense of a word in its sentence from the senses of its lemma, as WordNet keys.

Only senses seen in training can be predicted; a lemma that is not in the training data gets WordNet's first sense if
its index was given. One vector is learned per sense; `elmo probe senses` uses the nearest mean instead.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo.tasks.examples import SensePrediction, SenseSentence, SenseTarget, rank_senses
from elmo.tasks.families.blocks import MASKED_SCORE, pool_mean, span_mask
from elmo.tasks.families.network import Labels, MakeEncoder, TaskNetwork
from elmo.tasks.settings import TaskSettings


class Senses(TaskNetwork):
    """The words of a target, pooled -> a score for each sense of its lemma."""

    main_metric = "f1"

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> None:
        super().__init__(labels)
        self.encoder = make_encoder(0)
        self._senses: dict[str, list[str]] = labels["senses"]
        self._first: dict[str, str] = labels.get("first_senses", {})
        pairs = [(entry, key) for entry, keys in self._senses.items() for key in keys]
        self._rows = {pair: row for row, pair in enumerate(pairs)}
        self.vectors = nn.Embedding(len(pairs), self.encoder.output_dim)
        self.bias = nn.Embedding(len(pairs), 1)
        nn.init.normal_(self.vectors.weight, std=0.01)
        nn.init.zeros_(self.bias.weight)

    @staticmethod
    def learn_labels(examples: Sequence[SenseSentence], settings: TaskSettings) -> Labels:
        """Return the senses of each lemma and part of speech, most frequent first."""
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for example in examples:
            for target in example.targets:
                counts[target.entry].update(target.keys or ())
        return {"senses": {entry: rank_senses(keys) for entry, keys in sorted(counts.items()) if keys}}

    def unknown_targets(self, example: SenseSentence) -> list[str]:
        """Return nothing: new senses are expected, and WordNet's first sense replaces them."""
        return []

    def score(self, examples: Sequence[SenseSentence], predictions: Sequence[SensePrediction]) -> dict[str, float]:
        """Return the percentages of correct senses, of correct first senses, and of targets with a known lemma."""
        correct = first_correct = known = total = 0
        for example, prediction in zip(examples, predictions, strict=True):
            for target, key in zip(example.targets, prediction.keys, strict=True):
                entry = target.entry
                first = self._senses[entry][0] if entry in self._senses else self._first.get(entry)
                total += 1
                known += first is not None
                correct += key in (target.keys or ())
                first_correct += first in (target.keys or ())
        total = max(1, total)
        return {"f1": 100 * correct / total, "first_sense": 100 * first_correct / total, "known": 100 * known / total}

    def loss(self, examples: Sequence[SenseSentence]) -> Tensor:
        """Return the mean of -log p of the correct senses, over targets that have a choice."""
        vectors, targets = self._pool(examples)
        ambiguous = [row for row, target in enumerate(targets) if len(self._senses.get(target.entry, ())) > 1]
        if not ambiguous:
            return torch.zeros(())
        scores = self._scores(vectors[ambiguous], [targets[row] for row in ambiguous])
        correct = torch.full_like(scores, MASKED_SCORE)
        for row, target in enumerate(targets[number] for number in ambiguous):
            for key in target.keys or ():
                correct[row, self._senses[target.entry].index(key)] = 0
        return -torch.logsumexp(torch.log_softmax(scores, dim=-1) + correct, dim=-1).mean()

    def predict_batch(self, examples: Sequence[SenseSentence]) -> list[SensePrediction]:
        """Return the best sense of each target; for a lemma not in the training data, WordNet's first, if known."""
        vectors, targets = self._pool(examples)
        keys = [self._first.get(target.entry) for target in targets]
        known = [row for row, target in enumerate(targets) if target.entry in self._senses]
        if known:
            best = self._scores(vectors[known], [targets[row] for row in known]).argmax(dim=-1).tolist()
            for row, number in zip(known, best, strict=True):
                keys[row] = self._senses[targets[row].entry][number]
        remaining = iter(keys)
        return [SensePrediction(tuple(next(remaining) for _ in example.targets)) for example in examples]

    def _pool(self, examples: Sequence[SenseSentence]) -> tuple[Tensor, list[SenseTarget]]:
        states, _ = self.encoder([example.words for example in examples])
        rows = [row for row, example in enumerate(examples) for _ in example.targets]
        targets = [target for example in examples for target in example.targets]
        inside = span_mask([target.span for target in targets], states.shape[1])
        return pool_mean(states[torch.tensor(rows, dtype=torch.int64)], inside), targets

    def _scores(self, vectors: Tensor, targets: Sequence[SenseTarget]) -> Tensor:
        """Return (N, largest number of senses), with MASKED_SCORE after the last sense of a lemma."""
        candidates = [[self._rows[t.entry, key] for key in self._senses[t.entry]] for t in targets]
        width = max(map(len, candidates))
        rows = torch.tensor([row + [0] * (width - len(row)) for row in candidates])
        valid = torch.tensor([[number < len(row) for number in range(width)] for row in candidates])
        scores: Tensor = (self.vectors(rows) @ vectors[..., None])[..., 0] + self.bias(rows)[..., 0]
        return scores.masked_fill(~valid, MASKED_SCORE)
