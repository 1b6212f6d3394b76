"""Distillation: the model learns to predict a teacher's vectors of words in context and of sentences.

The teacher's vectors come from a TeacherCache; the teacher does not run during training.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.components import SentenceHead as SentenceComponent
from elmo.config import ModelConfig, SentenceConfig
from elmo.corpus.prepared import PreparedCorpus
from elmo.errors import ConfigError
from elmo.inference.context import StaticTable as ContextTable
from elmo.model import Elmo
from elmo.nn.sentence_head import SentenceHead
from elmo.pretrain.auxiliary import AuxiliaryObjective, SentenceBatch, TeacherTargets, pack_sentences
from elmo.pretrain.distributed import Processes
from elmo.pretrain.settings import TeacherSettings
from elmo.pretrain.stream import Ids, TokenReader, to_device
from elmo.pretrain.teacher import GROUP, Teacher, build_cache

VALIDATION_WORDS = 5_000  # few, because a teacher is slow
MARGIN = 0.8  # cosine above which a sentence and its contrast are pushed apart
TEMPERATURE = 0.05  # of the softmax over similarities
SIMILAR_GROUPS = 16  # less than a batch, so that a batch has several topics
FITTED_BATCHES = 48  # batches of the regression that initializes the linear maps
_RIDGE = 1e-3  # of the mean square of the features


class Distillation(AuxiliaryObjective):
    """Learns the vectors of a teacher: of words, of sentences, or both, from one forward pass.

    A batch has groups of neighboring sentences with the teacher's vectors, in a new order for each epoch. `metrics` are
    the names of the mean cosines with the teacher's vectors.
    """

    def __init__(
        self,
        settings: TeacherSettings,
        corpus: PreparedCorpus,
        config: ModelConfig,
        processes: Processes,
        start_from: Checkpoint | None,
        *,
        folder: Path,
        num_updates: int,
        seed: int,
    ) -> None:
        """Open the teacher and its cache, in teacher.cache or beside the run's `folder`; compute what is missing."""
        super().__init__()
        self._first_update = min(round(settings.begin * num_updates), num_updates - 1)
        self._source = corpus if settings.corpus is None else PreparedCorpus.open(settings.corpus)
        if self._source.vocabulary != corpus.vocabulary:
            raise ConfigError(
                f"teacher.corpus {settings.corpus} has another vocabulary than {corpus.folder}; prepare it with "
                f"--vocabulary {corpus.folder}/vocabulary.txt."
            )
        precision = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
        self._teacher = Teacher(settings.model, precision=precision, device=processes.device)
        path = folder.with_name(f"{folder.name}-teacher") if settings.cache is None else Path(settings.cache)
        build = partial(build_cache, path, self._source, self._teacher, settings, seed=seed)
        if processes.is_first:
            build()
        processes.wait()
        self.cache = build()
        self._settings, self._processes, self._seed = settings, processes, seed
        self._tokens = TokenReader(self._source, config)
        self._static = StaticTable(start_from)
        self._contrasts = ContrastFinder(self._source, settings.negations)
        self._find_order = lru_cache(maxsize=1)(self._order_epoch)
        self._held_out: tuple[list[list[str]], TeacherTargets] | None = None
        self._objectives: list[WordDistillation | SentenceDistillation] = []
        if settings.words:
            self.words = WordDistillation(config.vector_dim, self.cache.dim, weight=settings.words)
            self._objectives.append(self.words)
        if settings.sentences:
            head = build_head(
                start_from,
                num_layers=config.encoder.num_layers + 1,
                input_dim=config.vector_dim,
                static_dim=self._static.dim,
                output_dim=self.cache.dim,
            )
            self.sentences = SentenceDistillation(head, weight=settings.sentences, contrast=settings.contrast)
            self._objectives.append(self.sentences)
        self.metrics = tuple(objective.metric for objective in self._objectives)

    def batches(self, *, num_updates: int) -> Iterator[SentenceBatch | None]:
        """Yield the batch of each update after the first `num_updates`; None before distillation begins."""
        for update in itertools.count(num_updates):
            index = update - self._first_update
            yield self.draw(index) if index >= 0 else None

    @torch.no_grad()
    def initialize(self, encode: Callable[[SentenceBatch], Tensor]) -> None:
        """Initialize the linear maps by ridge regression: random ones would first degrade the network.

        `encode` returns the layers of a batch, as `forward` takes them.
        """
        regressions = [(objective, Regression()) for objective in self._objectives if not objective.is_trained]
        for index in range(FITTED_BATCHES):
            batch = to_device(self.draw(index), self._processes.device)
            layers = encode(batch)
            for objective, regression in regressions:
                regression.add(*objective.examples(layers, batch.targets))
        for objective, regression in regressions:
            regression.solve(*objective.linear_map())
        self._processes.broadcast(self.parameters())

    def forward(self, layers: Tensor, targets: TeacherTargets) -> tuple[Tensor, Tensor]:
        """Return the weighted loss of a batch, and the sum and the number of the cosines of each objective (M, 2).

        `layers` (L+1, N, 2D) are those of the words of the batch.
        """
        results = [objective(layers, targets) for objective in self._objectives]
        totals = [torch.stack([cosines.detach().sum(), cosines.new_tensor(len(cosines))]) for _, cosines in results]
        return torch.stack([loss for loss, _ in results]).sum(), torch.stack(totals).double()

    def draw(self, index: int) -> SentenceBatch:
        """Return a batch, which depends only on the seed and its index; every process draws its own groups."""
        rows, cache = self.rows(index), self.cache
        sentences = [cache.sentence(row) for row in rows]
        words = None
        if cache.words is not None:
            vectors = [cache.words[cache.offsets[row] : cache.offsets[row + 1]] for row in rows]
            words = torch.from_numpy(np.concatenate(vectors).astype(np.float32))
        targets = self._make_targets(
            [self._source.words(ids) for ids in sentences],
            words,
            torch.from_numpy(cache.sentences[rows].astype(np.float32)),
            self._contrasts.find(sentences),
        )
        return pack_sentences(self._tokens, sentences, targets)

    def rows(self, index: int) -> list[int]:
        """Return the sentences of the cache that are in a batch of this process."""
        num_groups, per_batch = -(-len(self.cache) // GROUP), max(1, self._settings.batch_sentences // GROUP)
        groups = []
        for position in range(index * per_batch, (index + 1) * per_batch):
            epoch, position_in_epoch = divmod(position, num_groups)
            groups.append(int(self._find_order(epoch)[position_in_epoch]))
        groups = groups[self._processes.rank :: self._processes.count] or groups[:1]
        rows = [row for group in groups for row in range(group * GROUP, (group + 1) * GROUP)]
        return [row for row in rows if row < len(self.cache)]

    def _order_epoch(self, epoch: int) -> Ids:
        rng = np.random.default_rng([self._seed, epoch])
        return order_groups(self.cache.sentences[::GROUP].astype(np.float32), rng)

    def _make_targets(
        self, sentences: Sequence[Sequence[str]], words: Tensor | None, vectors: Tensor, contrasts: Tensor
    ) -> TeacherTargets:
        static, weights = self._static.look_up_words([word for sentence in sentences for word in sentence])
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        return TeacherTargets(lengths, static, weights, words, vectors, contrasts)

    def validate(self, checkpoint: Checkpoint, sentences: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return the mean cosines with the teacher over every nth sentence, about VALIDATION_WORDS words in all."""
        if self._held_out is None:
            truncated = [list(words[: self._settings.max_words]) for words in sentences]
            chosen = truncated[:: max(1, round(sum(map(len, truncated)) / VALIDATION_WORDS))]
            vectors = self._teacher.encode(chosen)
            no_contrasts = torch.empty(0, 2, dtype=torch.long)
            self._held_out = chosen, self._make_targets(chosen, vectors.words, vectors.sentences, no_contrasts)
        chosen, targets = self._held_out
        device = self._processes.device
        model = Elmo(checkpoint, device=str(device))
        layers = torch.from_numpy(np.concatenate(model.embed(chosen, layers="all"), axis=1)).to(device)
        with torch.no_grad():
            cosines = [objective(layers, to_device(targets, device))[1] for objective in self._objectives]
        return {name: float(values.mean()) for name, values in zip(self.metrics, cosines, strict=True)}

    def add_to(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return the model with the sentence head, if one is trained, and the context layer whose vectors it uses."""
        if not self._settings.sentences:
            return checkpoint
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.sentences.head.state_dict().items()}
        config = SentenceConfig(len(arrays["bias"]), len(arrays["queries"]))
        return replace(checkpoint, context=self._static.layer, sentence=SentenceComponent(config, arrays))


def order_groups(vectors: npt.NDArray[np.float32], rng: np.random.Generator) -> Ids:
    """Return a random order of groups in which runs of SIMILAR_GROUPS groups have similar sentences.

    `vectors` (G, E) are those of the first sentences of the groups. Groups are repeatedly halved by their projection on
    the difference of two random ones. The similarities in a batch then differ enough to be worth learning.
    """
    pending, runs = [rng.permutation(len(vectors))], []
    while pending:
        groups = pending.pop()
        if len(groups) <= SIMILAR_GROUPS:
            runs.append(groups)
            continue
        first, second = vectors[rng.choice(groups, 2, replace=False)]
        ranked = groups[np.argsort(vectors[groups] @ (first - second), kind="stable")]
        pending += [ranked[: len(groups) // 2], ranked[len(groups) // 2 :]]
    return np.concatenate([runs[run] for run in rng.permutation(len(runs))])


class StaticTable:
    """Static vectors and weights of words from a context layer; without one, vectors of length 0 and equal weights."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.layer = layer = None if checkpoint is None else checkpoint.context
        self.dim = 0 if layer is None else layer.config.dim
        # Vectors of words outside the table are not estimated here.
        self._table = None if layer is None else ContextTable(layer, lambda words: np.empty((0, 0), np.float32))

    def look_up_words(self, words: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the vectors (N, d), 0 for words outside the table, and the weights (N,)."""
        if self._table is None:
            return torch.zeros(len(words), 0), torch.ones(len(words))
        vectors, weights = self._table.look_up(words, estimates=False)
        return torch.from_numpy(vectors), torch.from_numpy(weights)


class WordDistillation(nn.Module):
    """The loss on word vectors: 1 - cosine of the top layer, after a linear map, with the teacher's."""

    metric = "teacher_cosine"
    is_trained = False  # whether the linear map has the weights of a model

    def __init__(self, input_dim: int, output_dim: int, *, weight: float) -> None:
        super().__init__()
        self._weight = weight
        self.linear = nn.Linear(input_dim, output_dim)
        nn.init.xavier_uniform_(self.linear.weight)

    def linear_map(self) -> tuple[Tensor, Tensor]:
        """Return the weight and the bias."""
        return self.linear.weight, self.linear.bias

    def examples(self, layers: Tensor, targets: TeacherTargets) -> tuple[Tensor, Tensor]:
        """Return the top-layer vectors and the teacher's vectors of the words for which it has one."""
        assert targets.words is not None
        is_known = targets.words.any(dim=1)
        return layers[-1, is_known], targets.words[is_known]

    def forward(self, layers: Tensor, targets: TeacherTargets) -> tuple[Tensor, Tensor]:
        """Return the mean loss over the words for which the teacher has a vector, and their cosines."""
        top, expected = self.examples(layers, targets)
        cosines = (F.normalize(self.linear(top), dim=-1) * expected).sum(dim=-1)
        return self._weight * (1 - cosines).mean(), cosines


class SentenceDistillation(nn.Module):
    """The loss on sentence vectors, computed by a sentence head, which becomes part of the model.

    It is 1 - cosine with the teacher's vectors, plus the KL divergence of the similarities in a batch, plus a margin
    between contrasts.
    """

    metric = "sentence_cosine"

    def __init__(self, head: SentenceHead, *, weight: float, contrast: float) -> None:
        super().__init__()
        self.head, self.is_trained = head, head.is_trained
        self._weight, self._contrast = weight, contrast

    def linear_map(self) -> tuple[Tensor, Tensor]:
        """Return the weight and the bias of the head."""
        return self.head.projection, self.head.bias

    def examples(self, layers: Tensor, targets: TeacherTargets) -> tuple[Tensor, Tensor]:
        """Return the pooled features of the sentences, and the teacher's vectors."""
        return self.head.features(layers, targets.static, targets.weights, targets.lengths), targets.sentences

    def forward(self, layers: Tensor, targets: TeacherTargets) -> tuple[Tensor, Tensor]:
        """Return the mean loss over the sentences, and their cosines."""
        vectors = self.head(layers, targets.static, targets.weights, targets.lengths)
        cosines = (vectors * targets.sentences).sum(dim=1)
        loss = (1 - cosines).mean() + F.kl_div(
            _log_similarities(vectors), _log_similarities(targets.sentences), reduction="batchmean", log_target=True
        )
        if self._contrast and len(targets.contrasts):
            first, second = vectors[targets.contrasts.t()]
            loss = loss + self._contrast * torch.relu((first * second).sum(dim=1) - MARGIN).mean()
        return self._weight * loss, cosines


def _log_similarities(vectors: Tensor) -> Tensor:
    """Return the log softmax of the similarities of each vector to the others."""
    unit = F.normalize(vectors, dim=-1)
    itself = torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    return (unit @ unit.mT / TEMPERATURE).masked_fill(itself, -1e9).log_softmax(dim=-1)


class Regression:
    """Ridge regression over batches of examples."""

    def __init__(self) -> None:
        self._products = self._moments = torch.zeros((), dtype=torch.float64)

    def add(self, features: Tensor, targets: Tensor) -> None:
        """Add features (N, F) with their targets (N, E)."""
        inputs = F.pad(features, (0, 1), value=1.0).double()
        self._products = inputs.t() @ inputs + self._products
        self._moments = inputs.t() @ targets.double() + self._moments

    def solve(self, weight: Tensor, bias: Tensor) -> None:
        """Write the solution to a weight (E, F) and a bias (E,)."""
        ridge = _RIDGE * self._products.diagonal().mean()
        identity = torch.eye(len(self._products), dtype=torch.float64, device=self._products.device)
        solution = torch.linalg.solve(self._products + ridge * identity, self._moments).float()
        weight.copy_(solution[:-1].t())
        bias.copy_(solution[-1])


class ContrastFinder:
    """Finds pairs of sentences that differ in word order or by a negation, not only in case."""

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
        for index, ids in enumerate(sentences):
            folded = self._folded[ids]
            bag = np.sort(folded[~np.isin(folded, self._negations)]).tobytes()
            for other, content in by_words.setdefault(bag, []):
                if content != folded.tobytes():
                    pairs.append((other, index))
            by_words[bag].append((index, folded.tobytes()))
        return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2)


def build_head(
    start_from: Checkpoint | None, *, num_layers: int, input_dim: int, static_dim: int, output_dim: int
) -> SentenceHead:
    """Build a sentence head with the weights of the initial model, if their shapes fit, or random weights."""
    head = SentenceHead(num_layers=num_layers, input_dim=input_dim, static_dim=static_dim, output_dim=output_dim)
    if start_from is not None and start_from.sentence is not None:
        arrays = {name: torch.from_numpy(np.array(array)) for name, array in start_from.sentence.arrays.items()}
        shapes = {name: tensor.shape for name, tensor in head.state_dict().items()}
        if {name: array.shape for name, array in arrays.items()} == shapes:
            head.load_state_dict(arrays)
            head.is_trained = True
    return head
