"""What objectives on sentence vectors share: the head, the order of groups, and pairs that must stay apart."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.components import SentenceHead as SentenceComponent
from elmo.config import SentenceConfig
from elmo.corpus.prepared import PreparedCorpus
from elmo.model import Elmo
from elmo.nn.sentence_head import SentenceHead
from elmo.pretrain.distributed import Processes
from elmo.pretrain.objectives import AuxiliaryObjective, Regression, SentenceBatch, StaticTable
from elmo.pretrain.stream import Ids
from elmo.pretrain.teacher import GROUP

MARGIN = 0.8  # cosine above which a sentence and its contrast are pushed apart


class SentenceObjective(AuxiliaryObjective):
    """An objective that trains a sentence head, which becomes part of the model."""

    def __init__(self, head: SentenceHead, static: StaticTable) -> None:
        super().__init__()
        self.head, self._static = head, static
        self._regression = Regression()

    def fit(self, layers: Tensor, batch: SentenceBatch) -> None:
        """Add the sentences of a batch that a teacher has vectors of."""
        if batch.teacher_sentences is not None and not self.head.is_trained:
            features = self.head.features(layers, batch.static, batch.weights, batch.lengths)
            self._regression.add(features, batch.teacher_sentences)

    def start(self) -> None:
        """Start from the regression, unless the head is that of the model that training starts from."""
        if not self.head.is_trained and not self._regression.is_empty:
            with torch.no_grad():
                weight, bias = self._regression.solve()
                self.head.projection.copy_(weight)
                self.head.bias.copy_(bias)
        self._regression = Regression()

    def encode(self, layers: Tensor, batch: SentenceBatch) -> Tensor:
        """Return the vectors (S, E) of the sentences of a batch."""
        vectors: Tensor = self.head(layers, batch.static, batch.weights, batch.lengths)
        return vectors

    def encode_words(self, model: Elmo, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return the vectors (S, E) of sentences of words, by a model with the layers that the head expects."""
        layers = torch.from_numpy(np.concatenate(model.embed(sentences, layers="all"), axis=1))
        static, weights = self._static.look_up_words([word for words in sentences for word in words])
        lengths = torch.tensor([len(words) for words in sentences])
        device = self.head.bias.device
        with torch.no_grad():
            vectors: Tensor = self.head(layers.to(device), static.to(device), weights.to(device), lengths.to(device))
        return vectors.cpu()

    def separate(self, vectors: Tensor, batch: SentenceBatch) -> Tensor:
        """Return the mean of max(0, cosine - MARGIN) over the contrasts of a batch."""
        if batch.contrasts is None or not len(batch.contrasts):
            return vectors.sum() * 0
        first, second = vectors[batch.contrasts[:, 0]], vectors[batch.contrasts[:, 1]]
        return torch.relu((first * second).sum(dim=1) - MARGIN).mean()

    def complete(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return the model with the sentence head, and the context layer that has the head's static vectors."""
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.head.state_dict().items()}
        dim, num_heads = len(arrays["bias"]), len(arrays["queries"])
        component = SentenceComponent(SentenceConfig(dim, num_heads), arrays)
        return replace(checkpoint, context=self._static.layer, sentence=component)


class GroupOrder:
    """Which groups of GROUP neighbouring sentences a batch has, in a new random order for each epoch."""

    def __init__(self, num_sentences: int, batch_sentences: int, seed: int) -> None:
        self._num_sentences, self._seed = num_sentences, seed
        self._num_groups = -(-num_sentences // GROUP)
        self._per_batch = max(1, batch_sentences // GROUP)
        self._orders: dict[int, Ids] = {}

    def rows(self, number: int, processes: Processes) -> list[int]:
        """Return the sentences of a batch that are this process's."""
        first = number * self._per_batch
        groups = []
        for place in range(first, first + self._per_batch):
            epoch, index = divmod(place, self._num_groups)
            if epoch not in self._orders:
                self._orders = {epoch: np.random.default_rng([self._seed, epoch]).permutation(self._num_groups)}
            groups.append(int(self._orders[epoch][index]))
        groups = groups[processes.rank :: processes.count] or groups[:1]
        rows = [row for group in groups for row in range(group * GROUP, (group + 1) * GROUP)]
        return [row for row in rows if row < self._num_sentences]


class ContrastFinder:
    """Finds sentences that differ in the order of their words or by a negation, not in case alone."""

    def __init__(self, corpus: PreparedCorpus, negations: Iterable[str]) -> None:
        """`negations` are words in lower case."""
        words = [word.lower() for word in corpus.words(np.arange(corpus.num_distinct_words + 1))]
        numbers: dict[str, int] = {}
        self._folded = np.array([numbers.setdefault(word, len(numbers)) for word in words], dtype=np.int64)
        self._negations = np.array([numbers[word] for word in negations if word in numbers], dtype=np.int64)

    def find(self, sentences: Sequence[Ids]) -> Tensor:
        """Return pairs (P, 2) of sentences of word ids."""
        by_words: dict[bytes, list[tuple[int, bytes]]] = {}
        pairs = []
        for number, ids in enumerate(sentences):
            folded = self._folded[ids]
            bag = np.sort(folded[~np.isin(folded, self._negations)]).tobytes()
            for other, content in by_words.setdefault(bag, []):
                if content != folded.tobytes():
                    pairs.append((other, number))
            by_words[bag].append((number, folded.tobytes()))
        return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2)


def build_head(
    start_from: Checkpoint | None, *, num_layers: int, input_dim: int, static_dim: int, output_dim: int
) -> SentenceHead:
    """Build a sentence head, with the weights of the model that training starts from if they fit."""
    head = SentenceHead(num_layers=num_layers, input_dim=input_dim, static_dim=static_dim, output_dim=output_dim)
    initial = None if start_from is None else start_from.sentence
    if initial is not None:
        arrays = {name: torch.from_numpy(np.array(array)) for name, array in initial.arrays.items()}
        shapes = {name: tensor.shape for name, tensor in head.state_dict().items()}
        if {name: array.shape for name, array in arrays.items()} == shapes:
            head.load_state_dict(arrays)
            head.is_trained = True
    return head
