"""Files of labelled data and a model -> what each layer knows.

The linear probes (tagging, features, classification) train one classifier for each layer, the average and a
learned mix, without influence on each other; layers are first scaled to mean 0 and deviation 1 per dimension. The
senses probe predicts the sense whose mean vector in training is nearest; the similarity probe compares the
cosine of two sentences' mean vectors with people's scores.
"""

import itertools
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.errors import InputError
from elmo.extras import require
from elmo.model import Elmo
from elmo.progress import progress_bar
from elmo.tasks.examples import SenseSentence, SenseTarget, SentencePair, entry_of
from elmo.tasks.metrics import score_numbers
from elmo.tasks.readers import open_reader
from elmo.tasks.readers.datasets import read_first_senses
from elmo.tasks.settings import PairTarget, ReadSettings
from elmo.tasks.shared_inputs import read_examples

Array: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.float64]
Advance: TypeAlias = Callable[[int], None]  # gets the number of words that were embedded
ProbeKind: TypeAlias = Literal["tagging", "features", "classification", "senses", "similarity"]
AVERAGE, MIX, MEANING, ENCODE, MEAN = "average", "learned mix", "meaning", "encode", "mean"
DEFAULT_MAX_TRAIN_WORDS: dict[str, int] = {
    "tagging": 100_000, "features": 100_000, "classification": 200_000, "senses": 1_000_000,
}  # fmt: skip
DEFAULT_MAX_TEST_WORDS = 50_000
NO_LABEL = -1
_CORRELATIONS = ("pearson", "spearman")
_RESAMPLES = 200
_FEWEST_EXAMPLES = 100  # of a question, if there are several
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
        """Measure test examples, given as columns of numbers, and the bootstrap spread of that measure."""
        resampled = require("scipy.stats", "analysis", "A probe").bootstrap(
            columns, measure, paired=True, vectorized=False, n_resamples=_RESAMPLES, method="percentile",
            random_state=0,
        )  # fmt: skip
        return cls(float(measure(*columns)), float(resampled.standard_error), "resampling")


@dataclass(frozen=True)
class ProbeRow:
    """One kind of vectors, or a baseline; the score of each thing that was measured."""

    name: str
    scores: dict[str, Score]


@dataclass(frozen=True)
class ProbeResult:
    """The table of scores, and the amount of data it rests on."""

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
    max_test_words: int | None = None,
    progress: bool = False,
) -> ProbeResult:
    """Measure each layer and their average on labelled data; the model itself is not trained.

    tagging: linear classifiers of words, also of a learned mix of the layers; `columns={"tag": "xpos"}` chooses
    another column. features: the same for each feature of CoNLL-U's FEATS, among the words that have it.
    classification: the same for the mean vectors of texts. senses: the nearest mean of a lemma's senses;
    `sense_index` is WordNet's index.sense, for lemmas that the training data lacks. similarity: correlation of
    cosines with scores, without training. The numbers of words are limited to DEFAULT_MAX_TRAIN_WORDS and
    DEFAULT_MAX_TEST_WORDS unless other limits are given.
    """
    _check(kind, train, sense_index, seeds, max_train_words, max_test_words)
    limit = max_train_words or DEFAULT_MAX_TRAIN_WORDS.get(kind)
    target: PairTarget = "score" if kind == "similarity" else "auto"
    read = ReadSettings(format, columns=dict(columns or {}), pair_target=target)
    read = read.with_tokenization(model.config.tokenization)
    with progress_bar(unit="words", num_bytes=None, shown=progress) as report:

        def advance(num_words: int) -> None:
            report(0, num_words)

        if kind == "similarity":
            return probe_similarity(model, read_examples(test, "pairs", read)[0], advance)
        assert train is not None
        if kind == "senses":
            return probe_senses(
                model, *(open_reader(path, "senses", read).reader for path in (train, test)),
                max_train_words=limit, advance=advance,
                first_senses=None if sense_index is None else read_first_senses(sense_index),
            )  # fmt: skip
        return probe_linear(
            model, kind, *(read_sentences(path, kind, read) for path in (train, test)), seeds=seeds,
            max_train_words=limit, max_test_words=max_test_words or DEFAULT_MAX_TEST_WORDS, advance=advance,
        )  # fmt: skip


def _check(
    kind: str,
    train: str | None,
    sense_index: str | None,
    seeds: Sequence[int],
    max_train_words: int | None,
    max_test_words: int | None,
) -> None:
    if kind not in get_args(ProbeKind):
        raise InputError(f"There is no probe {kind!r}; choose one of {', '.join(get_args(ProbeKind))}.")
    if not seeds:
        raise InputError("A probe needs at least one seed.")
    if train is None and kind != "similarity":
        raise InputError(f"The probe {kind} learns from examples; name a file of them with --train.")
    if sense_index is not None and kind != "senses":
        raise InputError("The index of senses is for the probe senses; leave it out.")
    if kind == "similarity" and (train or max_train_words or max_test_words):
        raise InputError("The probe similarity measures all pairs and learns nothing; leave --train and limits out.")
    if kind == "senses" and max_test_words:
        raise InputError("The probe senses reads all words of the test file; leave their limit out.")


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
    sentences = [list(words) for pair in pairs for words in (pair.first, pair.second)]
    means = np.zeros((len(sentences), model.num_layers, model.dim), dtype=np.float32)
    for number, array in enumerate(model.embed_iter(sentences, layers="all", read_ahead=256)):
        if array.shape[1]:
            means[number] = array.mean(axis=1)
        advance(array.shape[1])
    vectors = {f"layer {number}": means[:, number] for number in range(model.num_layers)}
    vectors[AVERAGE] = means.mean(axis=1)
    if model.context is not None:
        vectors[ENCODE] = model.encode(sentences)
    rows = tuple(ProbeRow(name, _correlate(array, gold)) for name, array in vectors.items())
    return ProbeResult("similarity", "correlation", rows, None, {"test_pairs": len(pairs)})


def _correlate(vectors: Array, gold: Floats) -> dict[str, Score]:
    """Return the correlations of scores (N,) with the cosines of vectors (2N, D), first and second by turns."""
    first, second = vectors[0::2], vectors[1::2]
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = (first * second).sum(axis=1) / np.maximum(lengths, np.finfo(np.float32).tiny)

    def measure(name: str) -> Callable[[Floats, Floats], float]:
        return lambda gold, cosines: score_numbers(gold.tolist(), cosines.tolist())[name]

    return {name: Score.of_examples(measure(name), gold, cosines) for name in _CORRELATIONS}


# --- word senses: the sense whose mean vector in training is nearest, layer by layer


@dataclass
class SenseMemory:
    """The sum of the vectors of each sense seen in training, layer by layer."""

    senses: dict[str, Counter[str]] = field(default_factory=dict)
    _sums: dict[tuple[str, str], Array] = field(default_factory=dict)

    def add(self, target: SenseTarget, vector: Array) -> None:
        """Add the vectors (L+1, 2D) of a word to its senses."""
        entry = entry_of(target)
        for key in target.keys or ():
            self.senses.setdefault(entry, Counter())[key] += 1
            if (entry, key) in self._sums:
                self._sums[entry, key] += vector
            else:
                self._sums[entry, key] = vector.copy()

    def candidates(self, entry: str) -> list[str]:
        """Return the senses of a lemma, the most frequent first."""
        counts = self.senses.get(entry, Counter())
        return sorted(counts, key=lambda key: (-counts[key], key))

    def means(self, entry: str) -> Array:
        """Return the mean vectors (senses, L+1, 2D) of a lemma's candidates."""
        counts = self.senses[entry]
        return np.stack([self._sums[entry, key] / counts[key] for key in self.candidates(entry)])

    def nearest(self, entry: str, vector: Array, weightings: Array) -> list[str]:
        """Return the sense nearest to a vector (L+1, 2D) by each weighting (W, L+1) of the layers."""
        keys = self.candidates(entry)
        if len(keys) == 1:
            return keys * len(weightings)
        mixed = np.einsum("wl,ld->wd", weightings, vector)
        means = np.einsum("wl,sld->wsd", weightings, self.means(entry))
        lengths = np.maximum(np.linalg.norm(means, axis=-1), np.finfo(np.float32).tiny)
        best = (np.einsum("wd,wsd->ws", mixed, means) / lengths).argmax(axis=1)
        return [keys[number] for number in best]


def probe_senses(
    model: Elmo,
    train: Iterable[SenseSentence],
    test: Iterable[SenseSentence],
    *,
    max_train_words: int | None = None,
    first_senses: Mapping[str, str] | None = None,
    advance: Advance = lambda num_words: None,
) -> ProbeResult:
    """Learn the senses of the training sentences and predict those of the test sentences."""
    memory, meanings, counts = (
        SenseMemory(),
        SenseMemory(),
        Counter[str](),
    )  # of meaning: one layer, other dimensions

    def count_words(sentences: Iterable[SenseSentence], name: str, limit: int | None) -> Iterator[SenseSentence]:
        for sentence in sentences:
            if limit is not None and counts[name] >= limit:
                return
            counts[name] += len(sentence.words)
            advance(len(sentence.words))
            yield sentence

    for target, vector, meaning in _embed_targets(model, count_words(train, "train_words", max_train_words)):
        memory.add(target, vector)
        if meaning is not None:
            meanings.add(target, meaning)
        counts["train_targets"] += 1
    if not memory.senses:
        raise InputError("The training data has no words with senses; choose another file.")
    same = np.full((1, model.num_layers), 1 / model.num_layers)
    weightings = np.concatenate((np.eye(model.num_layers), same)).astype(np.float32)
    right = []  # of each target: by the first sense alone, by each weighting, by meaning
    for target, vector, meaning in _embed_targets(model, count_words(test, "test_words", None)):
        answers = _answer(memory, target, vector, weightings, first_senses or {})
        if meaning is not None:
            answers.append(_answer(meanings, target, meaning, np.ones((1, 1), np.float32), first_senses or {})[1])
        right.append([answer in (target.keys or ()) for answer in answers])
        counts["test_targets"] += 1
        counts["test_targets_not_in_training"] += entry_of(target) not in memory.senses
    if not right:
        raise InputError("The test data has no words with senses; choose another file.")
    note = "Lemmas that are not in the training data get WordNet's first sense."
    if first_senses is None:
        note = (
            "Lemmas that are not in the training data get no sense, and the first sense is the most frequent one "
            "in training; --sense-index gives WordNet's order."
        )
    names = ["first sense", *name_rows(model.num_layers)[:-1], MEANING]
    scores = [
        Score.of_examples(lambda answers: float(answers.mean()), column) for column in 100.0 * np.asarray(right).T
    ]
    rows = tuple(ProbeRow(name, {"senses": score}) for name, score in zip(names, scores, strict=False))
    return ProbeResult("senses", "F1", rows, None, dict(counts), (note,))


def _answer(
    memory: SenseMemory, target: SenseTarget, vector: Array, weightings: Array, first_senses: Mapping[str, str]
) -> list[str | None]:
    """Return the first sense, then the sense by each weighting."""
    entry = entry_of(target)
    candidates = memory.candidates(entry)
    first = first_senses.get(entry, candidates[0] if candidates else None)
    return [first, *(memory.nearest(entry, vector, weightings) if candidates else [first] * len(weightings))]


def _embed_targets(
    model: Elmo, sentences: Iterable[SenseSentence]
) -> Iterator[tuple[SenseTarget, Array, Array | None]]:
    """Yield each word with a sense, its vectors (L+1, 2D), and (1, 2D + d) by meaning with a context layer.

    Sentences without such a word are not embedded.
    """
    embedded, wanted = itertools.tee(sentence for sentence in sentences if sentence.targets)
    arrays = model.embed_iter((list(sentence.words) for sentence in embedded), layers="all", read_ahead=256)
    for array, sentence in zip(arrays, wanted, strict=True):
        spans = [target.span for target in sentence.targets]
        vectors = np.stack([array[:, start:end].mean(axis=1) for start, end in spans])  # (targets, L+1, 2D)
        meanings: Iterable[Array | None] = itertools.repeat(None, len(spans))
        if model.context is not None:
            meanings = model.embed_spans([list(sentence.words)], [spans], layers="meaning")[0][:, None]
        yield from zip(sentence.targets, vectors, meanings, strict=True)


# --- linear classifiers of words or texts


@dataclass(frozen=True)
class LabelledSentence:
    """A sentence and, for each of its words (or for the whole text), the answers to named questions."""

    words: tuple[str, ...]
    answers: tuple[dict[str, str], ...]  # one for each word, or one for the whole text


class LabelledVectors(NamedTuple):
    """Vectors (N, L+1, D) and the labels (N, H) of H questions, NO_LABEL where a question does not apply."""

    vectors: npt.NDArray[np.float16]
    labels: npt.NDArray[np.int64]


class LinearScores(NamedTuple):
    """Accuracy in percent (L+3, H) of each layer, the average and the mix; and the weights of the mix."""

    accuracy: Floats
    mix_weights: tuple[float, ...]


class LinearProbe(nn.Module):
    """(B, L+1, D) -> (B, L+3, C): the class scores of each kind of vectors."""

    def __init__(self, vectors: Tensor, num_classes: int) -> None:
        """Build a probe for the scale of the training vectors (N, L+1, D)."""
        super().__init__()
        num_layers, dim = vectors.shape[1:]
        sums, squares = _moments(vectors)
        self.register_buffer("mean", sums)
        self.register_buffer("scale", 1 / squares.clamp_min(1e-12).sqrt())
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


def train_linear_probe(
    train: LabelledVectors, test: LabelledVectors, class_counts: list[int], seed: int
) -> LinearScores:
    """Train on one set and measure on the other; `class_counts` has the number of classes of each question."""
    draw = torch.Generator().manual_seed(seed)
    vectors, labels = torch.from_numpy(train.vectors), torch.from_numpy(train.labels)
    probe = LinearProbe(vectors, sum(class_counts))
    classifiers = {"params": [probe.weight, probe.bias], "weight_decay": _WEIGHT_DECAY}
    mix = {"params": [probe.mix], "lr": _MIX_RATE * _LEARNING_RATE, "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([classifiers, mix], lr=_LEARNING_RATE)
    num_batches = -(-len(vectors) // _BATCH_SIZE)
    num_epochs = max(_NUM_EPOCHS, -(-_MIN_STEPS // num_batches))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_epochs * num_batches)
    for _ in range(num_epochs):
        for rows in torch.split(torch.randperm(len(vectors), generator=draw), _BATCH_SIZE):
            loss = _loss(probe(vectors[rows].float()), labels[rows], class_counts)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    weights = tuple(probe.mix.detach().softmax(dim=0).tolist())
    return LinearScores(_measure(probe, test, class_counts), weights)


def _loss(scores: Tensor, labels: Tensor, class_counts: list[int]) -> Tensor:
    """Return the sum over the kinds of vectors of the mean over the words that have a label."""
    total = scores.new_zeros(())
    for question, part in enumerate(torch.split(scores, class_counts, dim=-1)):
        asked = labels[:, question] != NO_LABEL
        if asked.any():
            right = labels[asked, question]
            for kind in range(part.shape[1]):
                total = total + F.cross_entropy(part[asked, kind], right)
    return total


@torch.no_grad()
def _measure(probe: LinearProbe, test: LabelledVectors, class_counts: list[int]) -> Floats:
    num_kinds = probe.weight.shape[0]
    right, asked = np.zeros((num_kinds, len(class_counts))), np.zeros(len(class_counts))
    for start in range(0, len(test.vectors), _BATCH_SIZE):
        rows = slice(start, start + _BATCH_SIZE)
        scores = probe(torch.from_numpy(test.vectors[rows]).float())
        for question, part in enumerate(torch.split(scores, class_counts, dim=-1)):
            labels = torch.from_numpy(test.labels[rows, question])
            is_asked = labels != NO_LABEL
            is_right = (part.argmax(dim=-1) == labels[:, None]) & is_asked[:, None]
            right[:, question] += is_right.sum(dim=0).numpy()
            asked[question] += is_asked.sum().item()
    return np.asarray(100 * right / np.maximum(asked, 1))


def _moments(vectors: Tensor, rows_at_once: int = 4096) -> tuple[Tensor, Tensor]:
    """Return mean and variance (L+2, D) of each layer and of the average."""
    sums = squares = torch.zeros(())
    for part in torch.split(vectors, rows_at_once):
        wide = part.double()
        wide = torch.cat((wide, wide.mean(dim=1, keepdim=True)), dim=1)
        sums, squares = sums + wide.sum(dim=0), squares + wide.square().sum(dim=0)
    mean = sums / len(vectors)
    return mean.float(), (squares / len(vectors) - mean.square()).float()


def read_features(tags: Sequence[str]) -> tuple[dict[str, str], ...]:
    """Return each feature of a word, as in Number=Sing|Person=3, as an answer."""
    features = []
    for tag in tags:
        pairs = [] if tag in ("_", "") else [pair.partition("=") for pair in tag.split("|")]
        if not all(equals for _, equals, _ in pairs):
            raise InputError(
                f"{tag!r:.60} is not a list of features such as Number=Sing|Person=3; name their column with "
                "--column tag=NAME."
            )
        features.append({name: value for name, _, value in pairs})
    return tuple(features)


def read_sentences(path: str, kind: str, read: ReadSettings) -> list[LabelledSentence]:
    """Read the examples of one kind of probe: tagging, features or classification."""
    if kind == "classification":
        examples, _ = read_examples(path, "classification", read)
        return [LabelledSentence(sentence.words, ({"label": sentence.label},)) for sentence in examples]
    if kind == "features" and "tag" not in read.columns:
        read = replace(read, columns={**read.columns, "tag": "feats"})
    examples = [sentence for sentence in read_examples(path, "tagging", read)[0] if sentence.words]
    if kind == "features":
        return [LabelledSentence(sentence.words, read_features(sentence.tags)) for sentence in examples]
    return [LabelledSentence(sentence.words, tuple({"tag": tag} for tag in sentence.tags)) for sentence in examples]


def probe_linear(
    model: Elmo,
    kind: str,
    train: Sequence[LabelledSentence],
    test: Sequence[LabelledSentence],
    *,
    seeds: Sequence[int],
    max_train_words: int | None,
    max_test_words: int | None,
    advance: Callable[[int], None] = lambda num_words: None,
) -> ProbeResult:
    """Train and measure. Each seed samples its own training sentences from longer data; the test set is fixed."""
    drawn = [draw_sentences(train, max_train_words, seed) for seed in seeds]
    tested = draw_sentences(test, max_test_words, 0)
    wanted = sorted(set().union(*drawn))
    questions = _choose_questions([train[number] for number in wanted], [test[number] for number in tested])
    if not questions:
        raise InputError(
            "There is nothing to classify: no label has two values in the training data and one in the test data."
        )
    train_rows = _embed(model, train, wanted, questions, advance)
    test_vectors = _stack(_embed(model, test, tested, questions, advance).values())
    class_counts = [len(classes) for classes in questions.values()]
    by_seed = [
        train_linear_probe(_stack(train_rows[number] for number in numbers), test_vectors, class_counts, seed)
        for seed, numbers in zip(seeds, drawn, strict=True)
    ]
    rows = [
        ProbeRow(name, _name_scores(questions, [scores.accuracy[number] for scores in by_seed]))
        for number, name in enumerate(name_rows(model.num_layers))
    ]
    majority = _majority(questions, [train[number] for number in drawn[0]], [test[number] for number in tested])
    rows.insert(0, ProbeRow("most frequent", _name_scores(questions, [majority])))
    weights = np.mean([scores.mix_weights for scores in by_seed], axis=0).tolist()
    counts_used = {
        "train_words": sum(len(train[number].words) for number in drawn[0]),
        "train_words_in_data": sum(len(sentence.words) for sentence in train),
        "test_words": sum(len(test[number].words) for number in tested),
        "test_words_in_data": sum(len(sentence.words) for sentence in test),
        "seeds": len(seeds),
    }
    return ProbeResult(kind, "accuracy", tuple(rows), tuple(weights), counts_used)


def draw_sentences(sentences: Sequence[LabelledSentence], max_words: int | None, seed: int) -> list[int]:
    """Return the numbers of random sentences with about `max_words` words together, in order."""
    order = list(range(len(sentences)))
    if max_words is None or sum(len(sentence.words) for sentence in sentences) <= max_words:
        return order
    random.Random(seed).shuffle(order)
    chosen: list[int] = []
    num_words = 0
    for number in order:
        if chosen and num_words + len(sentences[number].words) > max_words:
            break
        chosen.append(number)
        num_words += len(sentences[number].words)
    return sorted(chosen)


def _choose_questions(train: Sequence[LabelledSentence], test: Sequence[LabelledSentence]) -> dict[str, dict[str, int]]:
    """Return the questions that can be probed, each with the numbers of its classes."""
    counts, tested = _count_answers(train), _count_answers(test)
    fewest = _FEWEST_EXAMPLES if len(counts) > 1 else 2
    return {
        name: {answer: number for number, answer in enumerate(sorted(answers))}
        for name, answers in sorted(counts.items())
        if len(answers) > 1 and answers.total() >= fewest and name in tested
    }


def _count_answers(sentences: Sequence[LabelledSentence]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for sentence in sentences:
        for answers in sentence.answers:
            for name, answer in answers.items():
                counts.setdefault(name, Counter())[answer] += 1
    return counts


def _embed(
    model: Elmo,
    sentences: Sequence[LabelledSentence],
    numbers: Sequence[int],
    questions: dict[str, dict[str, int]],
    advance: Callable[[int], None],
) -> dict[int, LabelledVectors]:
    """Return the vectors of each sentence's words, or of the whole text if it has one answer."""
    embedded = {}
    arrays = model.embed_iter((list(sentences[number].words) for number in numbers), layers="all", read_ahead=256)
    for number, array in zip(numbers, arrays, strict=True):
        sentence = sentences[number]
        vectors = array.transpose(1, 0, 2)  # (T, L+1, 2D)
        if len(sentence.answers) != len(sentence.words):
            # The mean; that of a text without words is zero.
            vectors = vectors.sum(axis=0, keepdims=True) / max(1, len(vectors))
        labels = np.full((len(vectors), len(questions)), NO_LABEL, dtype=np.int64)
        for row, answers in enumerate(sentence.answers):
            for column, (name, classes) in enumerate(questions.items()):
                # An answer that training did not have counts, and cannot be right.
                if name in answers:
                    labels[row, column] = classes.get(answers[name], len(classes))
        embedded[number] = LabelledVectors(vectors.astype(np.float16), labels)
        advance(len(sentence.words))
    return embedded


def _stack(parts: Iterable[LabelledVectors]) -> LabelledVectors:
    return LabelledVectors(*map(np.concatenate, zip(*parts, strict=True)))


def _majority(
    questions: dict[str, dict[str, int]], train: Sequence[LabelledSentence], test: Sequence[LabelledSentence]
) -> Floats:
    """Return the accuracy of the most frequent answer to each question."""
    counts, tested = _count_answers(train), _count_answers(test)
    best = {name: counts[name].most_common(1)[0][0] for name in questions}
    return np.asarray([100 * tested[name][best[name]] / tested[name].total() for name in questions])


def _name_scores(questions: dict[str, dict[str, int]], by_seed: Sequence[Floats]) -> dict[str, Score]:
    scores = {
        name: Score.of_seeds([float(values[column]) for values in by_seed]) for column, name in enumerate(questions)
    }
    if len(questions) > 1:
        scores = {MEAN: Score.of_seeds([float(values.mean()) for values in by_seed]), **scores}
    return scores
