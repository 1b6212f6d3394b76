"""Probes: labelled data and a model -> a score of each layer.

The linear probes (tagging, features, classification) train independent classifiers for each layer, the average and
a learned mix; each dimension is first scaled to mean 0 and standard deviation 1 over all training words. The senses
probe predicts the sense with the nearest mean vector in training; the similarity probe correlates the cosines of
pairs of sentences' mean vectors with human scores.
"""

import itertools
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.errors import InputError
from elmo.extras import require
from elmo.inference.context import normalize
from elmo.inference.layers import cosine
from elmo.model import Elmo
from elmo.progress import progress_bar
from elmo.tasks.examples import SenseSentence, SenseTarget, SentencePair, Words, rank_senses
from elmo.tasks.families.metrics import score_numbers
from elmo.tasks.fit import limit_threads
from elmo.tasks.readers import open_reader, read_examples
from elmo.tasks.readers.datasets import read_first_senses
from elmo.tasks.settings import PairTarget, ReadSettings

Array: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.float64]
HalfFloats: TypeAlias = npt.NDArray[np.float16]
Labelled: TypeAlias = tuple[HalfFloats, list[str]]  # vectors and their labels
Advance: TypeAlias = Callable[[int], None]  # called with the number of words embedded
ProbeKind: TypeAlias = Literal["tagging", "features", "classification", "senses", "similarity"]
AVERAGE, MIX, MEANING, ENCODE, MEAN = "average", "learned mix", "meaning", "encode", "mean"
DEFAULT_MAX_TRAIN_WORDS: dict[str, int] = {
    "tagging": 100_000, "features": 100_000, "classification": 200_000, "senses": 1_000_000,
}  # fmt: skip
_CORRELATIONS = ("pearson", "spearman")
_RESAMPLES = 200
_MIN_EXAMPLES = 100  # of a feature, if there are several features
_NUM_EPOCHS, _MIN_STEPS, _BATCH_SIZE = 8, 500, 256  # small data is repeated more often
_LEARNING_RATE, _WEIGHT_DECAY = 2e-3, 1e-2
_MIX_RATE = 10  # the few mix weights need larger steps


@dataclass(frozen=True)
class Score:
    """A score in percent. Its spread is a standard deviation: over seeds, or over resampled test examples."""

    mean: float
    spread: float | None  # None: nothing was repeated
    spread_of: Literal["seeds", "resampling"] = "seeds"

    @classmethod
    def of_seeds(cls, values: Sequence[float]) -> "Score":
        """Combine the scores of several seeds."""
        return cls(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None)

    @classmethod
    def of_examples(cls, measure: Callable[..., float], *columns: Floats) -> "Score":
        """Compute a score of test examples, given as columns of numbers, and its bootstrap standard error."""
        resampled = require("scipy.stats", "analysis", "A probe").bootstrap(
            columns, measure, paired=True, vectorized=False, n_resamples=_RESAMPLES, method="percentile",
            random_state=0,
        )  # fmt: skip
        return cls(float(measure(*columns)), float(resampled.standard_error), "resampling")


@dataclass(frozen=True)
class ProbeRow:
    """A row of the table: one kind of vectors, or a baseline, with its scores by name."""

    name: str
    scores: dict[str, Score]


@dataclass(frozen=True)
class ProbeResult:
    """The table of scores, and the sizes of the data behind it."""

    kind: str
    metric: str
    rows: tuple[ProbeRow, ...]
    mix_weights: tuple[float, ...] | None  # s_j of the learned mix, the mean over seeds
    counts: dict[str, int]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return asdict(self)


def name_rows(num_layers: int) -> list[str]:
    """Return the names of the vectors that every probe compares, in order."""
    return [*(f"layer {number}" for number in range(num_layers)), AVERAGE, MIX]


def probe(
    model: Elmo,
    kind: ProbeKind,
    *,
    test: str,
    train: str | None = None,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    sense_index: str | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    max_train_words: int | None = None,
    show_progress_bar: bool = False,
) -> ProbeResult:
    """Measure each layer and their average on labelled data; the model itself is not trained.

    tagging: linear classifiers of words, also on a learned mix of the layers; `columns={"tag": "xpos"}` chooses
    another column. features: the same for each feature of CoNLL-U's FEATS, on the words that have it.
    classification: the same for the mean vectors of texts. senses: the nearest mean of a lemma's senses;
    `sense_index` is WordNet's index.sense, for lemmas that the training data lacks. similarity: correlation of
    cosines with scores, without training. The number of training words is limited to DEFAULT_MAX_TRAIN_WORDS unless
    another limit is given.
    """
    if kind not in get_args(ProbeKind):
        raise InputError(f"There is no probe {kind!r}; choose one of {', '.join(get_args(ProbeKind))}.")
    if sense_index is not None and kind != "senses":
        raise InputError("The index of senses is only for the senses probe; leave it out.")
    limit = max_train_words or DEFAULT_MAX_TRAIN_WORDS.get(kind)
    target: PairTarget = "score" if kind == "similarity" else "auto"
    read = ReadSettings(format, columns=dict(columns or {}), pair_target=target)
    read = read.with_tokenization(model.config.tokenization)
    with progress_bar(unit="words", num_bytes=None, shown=show_progress_bar) as report:
        advance = partial(report, 0)
        if kind == "similarity":
            return probe_similarity(model, read_examples(test, "pairs", read)[0], advance)
        if train is None:
            raise InputError(f"The probe {kind} needs training examples; name a file of them with --train.")
        if kind == "senses":
            return probe_senses(
                model, *(list(open_reader(path, "senses", read)) for path in (train, test)),
                max_train_words=limit, advance=advance,
                first_senses=None if sense_index is None else read_first_senses(sense_index),
            )  # fmt: skip
        return probe_linear(
            model, kind, *(read_sentences(path, kind, read) for path in (train, test)), seeds=seeds,
            max_train_words=limit, advance=advance,
        )  # fmt: skip


def _count_words(sentences: Iterable[Any]) -> int:
    return sum(len(sentence.words) for sentence in sentences)


def _embed(model: Elmo, sentences: Iterable[Words], advance: Advance) -> Iterator[Array]:
    """Yield the layers (L+1, T, 2D) of each sentence."""
    for layers in model.embed_iter(map(list, sentences), layers="all", read_ahead=256):
        advance(layers.shape[1])
        yield np.asarray(layers)


def _average_words(layers: Array) -> Array:
    """Return the mean (L+1, 2D) over the words of (L+1, T, 2D), zeros without words."""
    mean: Array = layers.sum(axis=1) / max(1, layers.shape[1])
    return mean


# --- sentence similarity


def probe_similarity(
    model: Elmo, pairs: Sequence[SentencePair], advance: Advance = lambda num_words: None
) -> ProbeResult:
    """Correlate the scores of pairs with the cosines of their mean vectors in each layer."""
    if len(pairs) < 3:
        raise InputError(f"There are {len(pairs)} pairs; a correlation needs at least 3.")
    if not all(isinstance(pair.target, float) for pair in pairs):
        raise InputError("These pairs have labels, not scores; similarity is measured against numbers.")
    gold = np.asarray([pair.target for pair in pairs], dtype=np.float64)
    sentences = [words for pair in pairs for words in (pair.first, pair.second)]
    means = np.stack([_average_words(layers) for layers in _embed(model, sentences, advance)])
    vectors = {f"layer {number}": means[:, number] for number in range(model.num_layers)}
    vectors[AVERAGE] = means.mean(axis=1)
    if model.context is not None:
        vectors[ENCODE] = model.encode(list(map(list, sentences)))
    rows = tuple(ProbeRow(name, _correlate(array, gold)) for name, array in vectors.items())
    return ProbeResult("similarity", "correlation", rows, None, {"test_pairs": len(pairs)})


def _correlate(vectors: Array, gold: Floats) -> dict[str, Score]:
    """Return the correlations of scores (N,) with the cosines of vectors (2N, D), in which pairs are adjacent."""
    cosines = np.asarray(cosine(vectors[0::2], vectors[1::2]))

    def measure(name: str) -> Callable[[Floats, Floats], float]:
        return lambda gold, cosines: score_numbers(gold.tolist(), cosines.tolist())[name]

    return {name: Score.of_examples(measure(name), gold, cosines) for name in _CORRELATIONS}


# --- word senses: the sense with the nearest mean vector in training, for each layer


class SenseMeans:
    """The sum of the vectors (R, D) of each sense in training; rows: the layers, their average, meaning if any."""

    def __init__(self) -> None:
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._sums: dict[tuple[str, str], list[Array]] = {}

    def add(self, target: SenseTarget, vectors: Sequence[Array]) -> None:
        """Add the vectors of a word to its senses."""
        entry = target.entry
        for key in target.keys or ():
            self.counts[entry][key] += 1
            sums = self._sums.setdefault((entry, key), [np.zeros_like(vector) for vector in vectors])
            for total, vector in zip(sums, vectors, strict=True):
                total += vector

    def candidates(self, entry: str) -> list[str]:
        """Return the senses of a lemma, most frequent first."""
        return rank_senses(self.counts.get(entry, Counter()))

    def nearest(self, entry: str, vectors: Sequence[Array]) -> list[str]:
        """Return the sense whose mean is nearest to each of a word's vectors."""
        keys, nearest = self.candidates(entry), []
        for number, vector in enumerate(vectors):
            sums = np.stack([self._sums[entry, key][number] for key in keys])
            nearest.append(keys[int((normalize(sums) @ vector).argmax())])
        return nearest


def probe_senses(
    model: Elmo,
    train: Sequence[SenseSentence],
    test: Sequence[SenseSentence],
    *,
    max_train_words: int | None = None,
    first_senses: Mapping[str, str] | None = None,
    advance: Advance = lambda num_words: None,
) -> ProbeResult:
    """Learn the senses of the training sentences and predict those of the test sentences."""
    if max_train_words is not None:
        ends = itertools.accumulate(len(sentence.words) for sentence in train)
        train = train[: 1 + sum(end < max_train_words for end in ends)]
    means = SenseMeans()
    for target, vectors in _embed_targets(model, train, advance):
        means.add(target, vectors)
    if not means.counts:
        raise InputError("The training data has no words with senses; choose another file.")
    correct, num_unknown = [], 0  # one row per target: the first sense, then each kind of vectors
    for target, vectors in _embed_targets(model, test, advance):
        entry = target.entry
        candidates = means.candidates(entry)
        first = (first_senses or {}).get(entry, candidates[0] if candidates else None)
        senses = means.nearest(entry, vectors) if candidates else [first] * len(vectors)
        correct.append([sense in (target.keys or ()) for sense in (first, *senses)])
        num_unknown += not candidates
    if not correct:
        raise InputError("The test data has no words with senses; choose another file.")
    note = "Lemmas that are not in the training data get WordNet's first sense."
    if first_senses is None:
        note = (
            "Lemmas that are not in the training data get no sense, and the first sense is the most frequent one "
            "in training; --sense-index gives WordNet's order."
        )
    names = ["first sense", *name_rows(model.num_layers)[:-1], MEANING]
    columns = 100.0 * np.asarray(correct).T
    scores = [Score.of_examples(lambda column: float(column.mean()), column) for column in columns]
    rows = tuple(ProbeRow(name, {"senses": score}) for name, score in zip(names, scores, strict=False))
    counts = {
        "train_words": _count_words(train),
        "train_targets": sum(len(sentence.targets) for sentence in train),
        "test_words": _count_words(test),
        "test_targets": len(correct),
        "test_targets_not_in_training": num_unknown,
    }
    return ProbeResult("senses", "F1", rows, None, counts, (note,))


def _embed_targets(
    model: Elmo, sentences: Sequence[SenseSentence], advance: Advance = lambda num_words: None
) -> Iterator[tuple[SenseTarget, list[Array]]]:
    """Yield each target and its vectors: one per layer, their average and, if the model has one, its meaning."""
    sentences = [sentence for sentence in sentences if sentence.targets]
    arrays = _embed(model, (sentence.words for sentence in sentences), advance)
    for sentence, array in zip(sentences, arrays, strict=True):
        spans = [target.span for target in sentence.targets]
        meanings = []
        if model.context is not None:
            meanings = [model.embed_spans([list(sentence.words)], [spans], layers="meaning")[0]]
        for number, (target, (start, end)) in enumerate(zip(sentence.targets, spans, strict=True)):
            layers = array[:, start:end].mean(axis=1)
            yield target, [*layers, layers.mean(axis=0), *(meaning[number] for meaning in meanings)]


# --- linear classifiers of words or texts


@dataclass(frozen=True)
class LabelledSentence:
    """A sentence and the labels of its words, or of the whole text, by feature, as in {"Number": "Sing"}."""

    words: tuple[str, ...]
    labels: tuple[dict[str, str], ...]  # of each word, or one dict for the whole text


class LinearScores(NamedTuple):
    """Accuracy in percent (L+3,) of each layer, the average and the mix; and the weights of the mix."""

    accuracy: Floats
    mix_weights: list[float]


class LinearProbe(nn.Module):
    """A linear classifier for each kind of vectors: (B, L+1, D) -> class scores (B, L+3, C)."""

    def __init__(self, vectors: Tensor, num_classes: int) -> None:
        """Build a probe that scales its inputs by the statistics of the vectors (M, L+1, D)."""
        super().__init__()
        num_layers, dim = vectors.shape[1:]
        # One layer at a time: all layers in float32 would take twice the memory of the vectors.
        layers = (vectors[:, layer].float() for layer in range(num_layers))
        kinds = itertools.chain(layers, [vectors.mean(dim=1, dtype=torch.float32)])
        deviations, means = zip(*(torch.std_mean(kind, dim=0, correction=0) for kind in kinds), strict=True)
        self.register_buffer("mean", torch.stack(means))
        self.register_buffer("scale", 1 / torch.stack(deviations).clamp_min(1e-6))
        self.mix = nn.Parameter(torch.zeros(num_layers))
        self.weight = nn.Parameter(torch.zeros(num_layers + 2, dim, num_classes))
        self.bias = nn.Parameter(torch.zeros(num_layers + 2, num_classes))

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the scores of all classes."""
        raw = torch.cat((vectors, vectors.mean(dim=1, keepdim=True)), dim=1)  # (B, L+2, D)
        scaled = (raw - self.mean) * self.scale  # type: ignore[operator]
        mixed = torch.einsum("l,bld->bd", self.mix.softmax(dim=0), scaled[:, :-1])
        inputs = torch.cat((scaled, mixed[:, None]), dim=1)
        return torch.einsum("brd,rdc->brc", inputs, self.weight) + self.bias


def train_linear_probe(train: Labelled, test: Labelled, seed: int, all_vectors: HalfFloats) -> LinearScores:
    """Train on vectors (N, L+1, D) and labels (N,), and evaluate on test vectors and labels.

    Vectors are scaled by the mean and standard deviation of `all_vectors` (M, L+1, D). The few distinct words with a
    feature such as Polarity hardly differ in some dimensions, which their own standard deviation would inflate.
    """
    generator = torch.Generator().manual_seed(seed)
    ids = {label: number for number, label in enumerate(sorted(set(train[1])))}
    vectors, labels = torch.from_numpy(train[0]), torch.tensor([ids[label] for label in train[1]])
    probe = LinearProbe(torch.from_numpy(all_vectors), len(ids))
    classifiers = {"params": [probe.weight, probe.bias], "weight_decay": _WEIGHT_DECAY}
    mix = {"params": [probe.mix], "lr": _MIX_RATE * _LEARNING_RATE, "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([classifiers, mix], lr=_LEARNING_RATE)
    num_batches = -(-len(vectors) // _BATCH_SIZE)
    num_epochs = max(_NUM_EPOCHS, -(-_MIN_STEPS // num_batches))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_epochs * num_batches)
    for _ in range(num_epochs):
        for rows in torch.split(torch.randperm(len(vectors), generator=generator), _BATCH_SIZE):
            scores = probe(vectors[rows].float())  # the sum of the losses keeps the kinds of vectors independent
            num_kinds = scores.shape[1]
            loss = num_kinds * F.cross_entropy(scores.flatten(0, 1), labels[rows].repeat_interleave(num_kinds))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    # A label that is not in the training data cannot be predicted; it counts as an error.
    gold = torch.tensor([ids.get(label, -1) for label in test[1]])
    with torch.no_grad():
        predicted = [
            probe(batch.float()).argmax(dim=-1) for batch in torch.split(torch.from_numpy(test[0]), _BATCH_SIZE)
        ]
    accuracy = 100 * (torch.cat(predicted) == gold[:, None]).double().mean(dim=0)
    return LinearScores(accuracy.numpy(), probe.mix.detach().softmax(dim=0).tolist())


def read_features(tags: Sequence[str]) -> tuple[dict[str, str], ...]:
    """Parse the features of each word, as in Number=Sing|Person=3, into labels by feature."""
    labels = []
    for tag in tags:
        pairs = [] if tag in ("_", "") else [pair.partition("=") for pair in tag.split("|")]
        if not all(equals for _, equals, _ in pairs):
            raise InputError(
                f"{tag!r:.60} is not a list of features such as Number=Sing|Person=3; name their column with "
                "--column tag=NAME."
            )
        labels.append({name: value for name, _, value in pairs})
    return tuple(labels)


def read_sentences(path: str, kind: str, read: ReadSettings) -> list[LabelledSentence]:
    """Read the examples of one kind of probe: tagging, features or classification."""
    if kind == "classification":
        texts, _ = read_examples(path, "classification", read)
        return [LabelledSentence(text.words, ({"label": text.label},)) for text in texts]
    if kind == "features":
        read = replace(read, columns={"tag": "feats", **read.columns})
    sentences = [sentence for sentence in read_examples(path, "tagging", read)[0] if sentence.words]
    if kind == "features":
        return [LabelledSentence(sentence.words, read_features(sentence.tags)) for sentence in sentences]
    return [LabelledSentence(sentence.words, tuple({"tag": tag} for tag in sentence.tags)) for sentence in sentences]


def probe_linear(
    model: Elmo,
    kind: str,
    train: Sequence[LabelledSentence],
    test: Sequence[LabelledSentence],
    *,
    seeds: Sequence[int],
    max_train_words: int | None,
    advance: Advance = lambda num_words: None,
) -> ProbeResult:
    """Train linear probes and evaluate them. If there is too much training data, each seed samples other sentences."""
    samples = [draw_sentences(train, max_train_words, seed) for seed in seeds]
    used = sorted(set().union(*samples))
    features = _choose_features([train[number] for number in used], test)
    if not features:
        raise InputError(
            "There is nothing to classify: no label has two values in the training data and one in the test data."
        )
    vectors = dict(zip(used, _embed_labelled(model, [train[number] for number in used], advance), strict=True))
    test_vectors = np.concatenate([*_embed_labelled(model, test, advance)])
    scores: dict[str, list[LinearScores]] = {}
    majority: dict[str, float] = {}
    for seed, numbers in zip(seeds, samples, strict=True):
        sentences = [train[number] for number in numbers]
        all_vectors = np.concatenate([vectors[number] for number in numbers])
        for feature in features:
            train_set, test_set = _select(feature, sentences, all_vectors), _select(feature, test, test_vectors)
            ((frequent, _),) = Counter(train_set[1]).most_common(1)
            majority.setdefault(feature, 100 * test_set[1].count(frequent) / len(test_set[1]))
            with limit_threads(1):  # as for task networks
                scores.setdefault(feature, []).append(train_linear_probe(train_set, test_set, seed, all_vectors))
    rows = [ProbeRow("most frequent", _name_scores({name: [accuracy] for name, accuracy in majority.items()}))]
    for number, name in enumerate(name_rows(model.num_layers)):
        by_feature = {feature: [float(run.accuracy[number]) for run in runs] for feature, runs in scores.items()}
        rows.append(ProbeRow(name, _name_scores(by_feature)))
    weights = np.mean([run.mix_weights for runs in scores.values() for run in runs], axis=0).tolist()
    counts = {
        "train_words": _count_words(train[number] for number in samples[0]),
        "train_words_in_data": _count_words(train),
        "test_words": _count_words(test),
        "seeds": len(seeds),
    }
    return ProbeResult(kind, "accuracy", tuple(rows), tuple(weights), counts)


def draw_sentences(sentences: Sequence[LabelledSentence], max_words: int | None, seed: int) -> list[int]:
    """Return the sorted indices of random sentences with about `max_words` words in total."""
    order = list(range(len(sentences)))
    if max_words is None or _count_words(sentences) <= max_words:
        return order
    random.Random(seed).shuffle(order)
    ends = itertools.accumulate(len(sentences[number].words) for number in order)
    return sorted(order[: max(1, sum(end <= max_words for end in ends))])


def _choose_features(train: Sequence[LabelledSentence], test: Sequence[LabelledSentence]) -> list[str]:
    """Return the features that have enough labels in both sets."""
    counts: dict[str, Counter[str]] = {}
    for name, label in _list_labels(train):
        counts.setdefault(name, Counter())[label] += 1
    tested = {name for name, _ in _list_labels(test)}
    min_count = _MIN_EXAMPLES if len(counts) > 1 else 2
    return sorted(
        name for name, labels in counts.items() if len(labels) > 1 and labels.total() >= min_count and name in tested
    )


def _list_labels(sentences: Sequence[LabelledSentence]) -> Iterator[tuple[str, str]]:
    return (pair for sentence in sentences for labels in sentence.labels for pair in labels.items())


def _embed_labelled(model: Elmo, sentences: Sequence[LabelledSentence], advance: Advance) -> Iterator[HalfFloats]:
    """Yield the vectors (T, L+1, 2D) of each sentence's words, or the mean (1, L+1, 2D) of a whole text."""
    arrays = _embed(model, (sentence.words for sentence in sentences), advance)
    for sentence, layers in zip(sentences, arrays, strict=True):
        has_words = len(sentence.labels) == len(sentence.words)
        vectors = layers.transpose(1, 0, 2) if has_words else _average_words(layers)[None]
        yield vectors.astype(np.float16)


def _select(feature: str, sentences: Sequence[LabelledSentence], vectors: HalfFloats) -> Labelled:
    """Return the vectors (N, L+1, D) that have a label of a feature, and the labels."""
    labels = [labels.get(feature) for sentence in sentences for labels in sentence.labels]
    has_label = np.array([label is not None for label in labels])
    return vectors[has_label], [label for label in labels if label is not None]


def _name_scores(by_feature: Mapping[str, Sequence[float]]) -> dict[str, Score]:
    scores = {name: Score.of_seeds(values) for name, values in by_feature.items()}
    if len(scores) > 1:
        means = [statistics.mean(values) for values in zip(*by_feature.values(), strict=True)]
        scores = {MEAN: Score.of_seeds(means), **scores}
    return scores
