"""Learning the vectors of a teacher: of words in their sentences, and of whole sentences.

The teacher's vectors come from a TeacherCache; no teacher runs while a model is trained.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.config import ModelConfig
from elmo.corpus.prepared import PreparedCorpus
from elmo.errors import ConfigError
from elmo.model import Elmo
from elmo.nn import draw_glorot
from elmo.nn.sentence_head import SentenceHead
from elmo.pretrain.distributed import Processes
from elmo.pretrain.objectives import (
    AuxiliaryLoss,
    AuxiliaryObjective,
    AuxiliaryTask,
    BatchLayout,
    BatchSource,
    Regression,
    SentenceBatch,
    StaticTable,
)
from elmo.pretrain.sentences import ContrastFinder, GroupOrder, SentenceObjective, build_head
from elmo.pretrain.settings import TeacherSettings
from elmo.pretrain.teacher import Teacher, TeacherCache, TeacherVectors, build_cache

VALIDATION_WORDS = 5_000  # few, because a teacher is slow
MIN_OTHERS = 2  # other occurrences of a word in a batch, for its relations to be learned
# Of the softmaxes over cosines. Ours is higher: larger differences of our cosines express the same preference.
TEACHER_TEMPERATURE, TEMPERATURE = 0.05, 0.1
AVERAGE = -1  # in place of the number of a layer
_NEVER = -1e9


class DistilledBatches(BatchSource):
    """Groups of neighbouring sentences with the teacher's vectors, in a new random order for each epoch."""

    def __init__(
        self,
        cache: TeacherCache,
        layout: BatchLayout,
        processes: Processes,
        settings: TeacherSettings,
        *,
        contrasts: ContrastFinder,
        seed: int,
    ) -> None:
        self._cache, self._layout, self._processes, self._own = cache, layout, processes, settings
        self._order = GroupOrder(len(cache), settings.batch_sentences, seed)
        self._contrasts = contrasts

    def draw(self, number: int) -> SentenceBatch:
        """Return a batch; every process keeps its share of the groups."""
        rows = self._order.rows(number, self._processes)
        cache, sentences = self._cache, [self._cache.sentence(row) for row in rows]
        batch = self._layout.arrange(
            sentences, predicts=self._own.predict, is_whole=[len(ids) < self._own.max_words for ids in sentences]
        )
        words = None
        if cache.words is not None:
            spans = [cache.words[cache.offsets[row] : cache.offsets[row + 1]] for row in rows]
            words = torch.from_numpy(np.concatenate(spans).astype(np.float32))
        return replace(
            batch,
            teacher_words=words,
            teacher_sentences=torch.from_numpy(cache.sentences[rows].astype(np.float32)),
            contrasts=self._contrasts.find(sentences),
        )


class HeldOut:
    """Validation sentences with the teacher's vectors, computed once."""

    def __init__(self, teacher: Teacher, max_words: int) -> None:
        self._teacher, self._max_words = teacher, max_words
        self._answer: tuple[list[list[str]], TeacherVectors] | None = None

    def answer(self, sentences: Sequence[Sequence[str]]) -> tuple[list[list[str]], TeacherVectors]:
        """Return every nth sentence, about VALIDATION_WORDS words in all, and the teacher's vectors."""
        if self._answer is None:
            truncated = [list(words[: self._max_words]) for words in sentences if words]
            step = max(1, round(sum(map(len, truncated)) / VALIDATION_WORDS))
            self._answer = truncated[::step], self._teacher.encode(truncated[::step])
        return self._answer


class WordDistillation(AuxiliaryObjective):
    """1 - cosine of mapped vectors of words with the teacher's, and the relations among a word's occurrences."""

    metrics = ("teacher_cosine",)

    def __init__(
        self,
        names: Sequence[str],
        *,
        num_layers: int,
        input_dim: int,
        output_dim: int,
        weight: float,
        relations: float = 0.0,
        held_out: HeldOut | None = None,
    ) -> None:
        """Build a linear map for each layer that `names` (top, each, average) ask for; num_layers counts the word
        vectors as one.
        """
        super().__init__()
        chosen = {"top": range(num_layers - 1, num_layers), "each": range(1, num_layers), "average": [AVERAGE]}
        self._layers = sorted({layer for name in names for layer in chosen[name]})
        self._weight, self._relations, self._held_out = weight, relations, held_out
        self.maps = nn.ModuleList(nn.Linear(input_dim, output_dim) for _ in self._layers)
        for linear in self.maps:
            draw_glorot(linear.weight)  # type: ignore[arg-type]
        self._regressions = [Regression() for _ in self.maps]

    def fit(self, layers: Tensor, batch: SentenceBatch) -> None:
        """Add the words that the teacher has a vector of."""
        assert batch.teacher_words is not None
        is_known = batch.teacher_words.any(dim=1)
        for regression, own in zip(self._regressions, self._choose(layers[:, is_known]), strict=True):
            regression.add(own, batch.teacher_words[is_known])

    def start(self) -> None:
        """Start from the regressions."""
        for linear, regression in zip(self.maps, self._regressions, strict=True):
            with torch.no_grad():
                weight, bias = regression.solve()
                linear.weight.copy_(weight)  # type: ignore[operator]
                linear.bias.copy_(bias)  # type: ignore[operator]
        self._regressions = [Regression() for _ in self.maps]

    def forward(self, layers: Tensor, batch: SentenceBatch) -> AuxiliaryLoss:
        """Return the loss, averaged over the words that the teacher has a vector of."""
        assert batch.teacher_words is not None
        is_known = batch.teacher_words.any(dim=1)
        known, vectors = layers[:, is_known], batch.teacher_words[is_known]
        cosines = self.compare(known, vectors)
        loss = self._weight * (1 - cosines).mean()
        if self._relations:
            words = batch.word_index[0].flatten()[batch.places[0]][is_known]
            loss = loss + self._relations * self.relate(known, vectors, words).mean()
        return AuxiliaryLoss(loss, {"teacher_cosine": (cosines.detach().sum(), len(cosines))})

    def validate(self, model: Elmo, sentences: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return the mean cosine with the teacher over about VALIDATION_WORDS words."""
        if self._held_out is None:
            return {}
        chosen, vectors = self._held_out.answer(sentences)
        layers = torch.from_numpy(np.concatenate(model.embed(chosen, layers="all"), axis=1))
        is_known = vectors.words.any(dim=1)
        device = next(self.parameters()).device
        with torch.no_grad():
            cosines = self.compare(layers[:, is_known].to(device), vectors.words[is_known].to(device))
        return {"teacher_cosine": float(cosines.mean())}

    def compare(self, layers: Tensor, vectors: Tensor) -> Tensor:
        """Layers (L+1, N, 2D) and the teacher's vectors (N, E) of length 1 -> the maps' mean cosine (N,)."""
        cosines = [
            (F.normalize(linear(layer), dim=-1) * vectors).sum(dim=-1)
            for linear, layer in zip(self.maps, self._choose(layers), strict=True)
        ]
        return torch.stack(cosines).mean(dim=0)

    def relate(self, layers: Tensor, vectors: Tensor, words: Tensor) -> Tensor:
        """Return the loss (N,) on the similarities of each word to its other occurrences, without a map.

        `words` (N,) says which are equal. A word with fewer than MIN_OTHERS other occurrences has the loss 0.
        """
        by_word = words.argsort(stable=True)
        counts = torch.unique_consecutive(words[by_word], return_counts=True)[1]
        # Each word apart: nearly all pairs of a batch are of two different words.
        groups = [places for places in torch.split(by_word, counts.tolist()) if len(places) > MIN_OTHERS]
        losses = layers.new_zeros(len(words))
        if not groups:
            return losses
        chosen, compared = self._choose(layers), []
        for places in groups:
            itself = torch.eye(len(places), dtype=torch.bool, device=words.device)
            compared.append(
                torch.stack([compare_relations(layer[places], vectors[places], ~itself) for layer in chosen]).mean(0)
            )
        return losses.index_copy(0, torch.cat(groups), torch.cat(compared))

    def _choose(self, layers: Tensor) -> list[Tensor]:
        """Return what learns, (N, 2D) each."""
        return [layers.mean(dim=0) if layer == AVERAGE else layers[layer] for layer in self._layers]


class SentenceDistillation(SentenceObjective):
    """1 - cosine of sentence vectors with the teacher's, and the KL divergence of the similarities in a batch."""

    metrics = ("sentence_cosine",)

    def __init__(
        self,
        head: SentenceHead,
        static: StaticTable,
        *,
        weight: float,
        contrast: float,
        held_out: HeldOut | None = None,
    ) -> None:
        """`contrast` is the weight of the margin on contrasts, see SentenceObjective.separate."""
        super().__init__(head, static)
        self._weight, self._contrast, self._held_out = weight, contrast, held_out

    def forward(self, layers: Tensor, batch: SentenceBatch) -> AuxiliaryLoss:
        """Return the loss, averaged over sentences."""
        assert batch.teacher_sentences is not None
        vectors = self.encode(layers, batch)
        cosines = (vectors * batch.teacher_sentences).sum(dim=1)
        loss = (1 - cosines).mean()
        if len(vectors) > 1:
            others = ~torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
            expected = _log_shares(batch.teacher_sentences, others, TEACHER_TEMPERATURE)
            predicted = _log_shares(vectors, others, TEACHER_TEMPERATURE)
            loss = loss + F.kl_div(predicted, expected, reduction="batchmean", log_target=True)
        if self._contrast:
            loss = loss + self._contrast * self.separate(vectors, batch)
        return AuxiliaryLoss(self._weight * loss, {"sentence_cosine": (cosines.detach().sum(), len(cosines))})

    def validate(self, model: Elmo, sentences: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return the mean cosine with the teacher over some sentences."""
        if self._held_out is None:
            return {}
        chosen, answer = self._held_out.answer(sentences)
        vectors = self.encode_words(model, chosen)
        return {"sentence_cosine": float((vectors * answer.sentences).sum(dim=1).mean())}


def build_distillation(
    settings: TeacherSettings,
    corpus: PreparedCorpus,
    config: ModelConfig,
    processes: Processes,
    start_from: Checkpoint | None,
    *,
    folder: Path,
    num_updates: int,
    seed: int,
) -> AuxiliaryTask:
    """Open the teacher's cache, after computing what is missing of it, and build what learns from it.

    The cache is in teacher.cache, or beside `folder`, that of the run.
    """
    first, last = round(settings.begin * num_updates), round(settings.end * num_updates)
    # Counted from 0; a batch is in each update whose number, counted from 1, is a multiple of `every`.
    updates = range(first + (-first - 1) % settings.every, last, settings.every)
    if not updates:
        raise ConfigError(
            f"teacher.every is {settings.every}, but distillation has only {last - first} of {num_updates} "
            "updates, so no batch would be distilled; lower teacher.every or train longer."
        )
    source = corpus if settings.corpus is None else PreparedCorpus.open(settings.corpus)
    if source.vocabulary != corpus.vocabulary:
        raise ConfigError(
            f"teacher.corpus {settings.corpus} has another vocabulary than {corpus.folder}; prepare it with "
            f"--vocabulary {corpus.folder}/vocabulary.txt."
        )
    teacher = Teacher(
        settings.model,
        precision=torch.bfloat16 if settings.precision == "bfloat16" else torch.float32,
        device=processes.device,
    )
    path = folder.with_name(f"{folder.name}-teacher") if settings.cache is None else Path(settings.cache)
    build = partial(
        build_cache,
        path,
        source,
        teacher,
        num_sentences=settings.num_sentences,
        max_words=settings.max_words,
        with_words=settings.words > 0,
        seed=seed,
    )
    if processes.is_first:
        build()
    processes.wait()
    cache = build()
    static = StaticTable(start_from)
    layout = BatchLayout(
        source,
        max_characters=config.characters.max_characters if config.characters else None,
        reads_words=config.words is not None,
        static=static,
    )
    held_out = HeldOut(teacher, settings.max_words)
    sizes = {"num_layers": config.encoder.num_layers + 1, "input_dim": config.vector_dim, "output_dim": cache.dim}
    objectives: dict[str, nn.Module] = {}
    if settings.words:
        objectives["words"] = WordDistillation(
            settings.heads, **sizes, weight=settings.words, relations=settings.relations, held_out=held_out
        )
    if settings.sentences:
        head = build_head(start_from, static_dim=static.dim, **sizes)
        objectives["sentences"] = SentenceDistillation(
            head, static, weight=settings.sentences, contrast=settings.contrast, held_out=held_out
        )
    contrasts = ContrastFinder(source, settings.negations)
    batches = DistilledBatches(cache, layout, processes, settings, contrasts=contrasts, seed=seed)
    return AuxiliaryTask(batches, nn.ModuleDict(objectives), updates)


def compare_relations(vectors: Tensor, teacher_vectors: Tensor, others: Tensor) -> Tensor:
    """Vectors (n, D), the teacher's (n, E) and which to compare (n, n) -> losses (n,).

    A loss is the KL divergence between the softmax of a vector's cosines with the others, ours and the teacher's.
    """
    expected = _log_shares(teacher_vectors, others, TEACHER_TEMPERATURE)
    predicted = _log_shares(vectors, others, TEMPERATURE)
    return F.kl_div(predicted, expected, reduction="none", log_target=True).sum(dim=-1)


def _log_shares(vectors: Tensor, others: Tensor, temperature: float) -> Tensor:
    unit = F.normalize(vectors, dim=-1)
    return (unit @ unit.mT / temperature).masked_fill(~others, _NEVER).log_softmax(dim=-1)
