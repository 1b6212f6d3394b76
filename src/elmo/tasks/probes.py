"""Files of labelled data and a model -> what each layer knows: `probe`, its results, and two of the probes.

The similarity probe compares the cosine of two sentences' mean vectors with people's scores; the senses probe
predicts the sense whose mean vector in training is nearest. The probes that learn classifiers are in
linear_probe.py.
"""

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

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
ProbeKind: TypeAlias = Literal["tagging", "features", "classification", "senses", "similarity"]
AVERAGE, MIX, MEANING, ENCODE = "average", "learned mix", "meaning", "encode"
DEFAULT_MAX_TRAIN_WORDS: dict[str, int] = {
    "tagging": 100_000, "features": 100_000, "classification": 200_000, "senses": 1_000_000,
}  # fmt: skip
DEFAULT_MAX_TEST_WORDS = 50_000
_CORRELATIONS = ("pearson", "spearman")
_MIX_STEPS, _SENSE_STEPS = 200, 150
_RESAMPLES = 200
_EXAMPLES_KEPT, _EXAMPLES_USED = 5000, 1000  # to learn the mix of the senses probe from
_SHARPNESS = 10.0


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
        found = require("scipy.stats", "analysis", "A probe").bootstrap(
            columns, measure, paired=True, vectorized=False, n_resamples=_RESAMPLES, method="percentile",
            random_state=0,
        )  # fmt: skip
        return cls(float(measure(*columns)), float(found.standard_error), "resampling")


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
    """Measure each layer, the average and the learned mix on labelled data; the model itself is not trained.

    tagging: linear classifiers of words, with `columns={"tag": "xpos"}` for another column. features: the same for
    each feature of CoNLL-U's FEATS, among the words that have it. classification: the same for the mean vectors of
    texts. senses: the nearest mean of a lemma's senses; `sense_index` is WordNet's index.sense, for lemmas that
    the training data lacks. similarity: correlation of cosines with scores. The numbers of words are limited to
    DEFAULT_MAX_TRAIN_WORDS and DEFAULT_MAX_TEST_WORDS unless other limits are given.
    """
    from elmo.tasks import linear_probe  # which returns the results defined here

    _check(kind, train, sense_index, seeds, max_train_words, max_test_words)
    limit = max_train_words or DEFAULT_MAX_TRAIN_WORDS.get(kind)
    target: PairTarget = "score" if kind == "similarity" else "auto"
    read = ReadSettings(format, columns=dict(columns or {}), pair_target=target)
    read = read.with_tokenization(model.config.tokenization)
    with progress_bar(unit="words", num_bytes=None, shown=progress) as report:

        def advance(num_words: int) -> None:
            report(0, num_words)

        if kind == "similarity":
            train_pairs = None if train is None else read_examples(train, "pairs", read)[0]
            tested = read_examples(test, "pairs", read)[0]
            return probe_similarity(model, train_pairs, tested, seeds=seeds, advance=advance)
        assert train is not None
        if kind == "senses":
            return probe_senses(
                model, *(open_reader(path, "senses", read).reader for path in (train, test)), seeds=seeds,
                max_train_words=limit, advance=advance,
                first_senses=None if sense_index is None else read_first_senses(sense_index),
            )  # fmt: skip
        return linear_probe.probe_linear(
            model, kind, *(linear_probe.read_sentences(path, kind, read) for path in (train, test)), seeds=seeds,
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
    kinds = get_args(ProbeKind)
    if kind not in kinds:
        raise InputError(f"There is no probe {kind!r}; choose one of {', '.join(kinds)}.")
    if not seeds:
        raise InputError("A probe needs at least one seed.")
    if train is None and kind != "similarity":
        raise InputError(f"The probe {kind} learns from examples; name a file of them with --train.")
    if sense_index is not None and kind != "senses":
        raise InputError("The index of senses is for the probe senses; leave it out.")
    if kind == "similarity" and (max_train_words or max_test_words):
        raise InputError("The probe similarity reads all pairs; leave the limits of words out.")
    if kind == "senses" and max_test_words:
        raise InputError("The probe senses reads all words of the test file; leave their limit out.")


class _Pairs(NamedTuple):
    """Vectors (N, L+1, D) of first and second sentences, and the scores (N,)."""

    first: Array
    second: Array
    gold: Floats


def probe_similarity(
    model: Elmo,
    train: Sequence[SentencePair] | None,
    test: Sequence[SentencePair],
    *,
    seeds: Sequence[int],
    advance: Callable[[int], None] = lambda num_words: None,
) -> ProbeResult:
    """Measure on the test pairs; the mix is learned on the training pairs, and left out without them."""
    tested = _embed(model, test, advance)
    weightings = {f"layer {number}": np.eye(model.num_layers)[number] for number in range(model.num_layers)}
    weightings[AVERAGE] = np.full(model.num_layers, 1 / model.num_layers)
    rows = [ProbeRow(name, _score(tested, weights)) for name, weights in weightings.items()]
    if model.context is not None:
        encoded = model.encode(_sentences(test))[:, None]  # (2N, 1, dimensions): the only layer
        rows.append(ProbeRow(ENCODE, _score(_Pairs(encoded[0::2], encoded[1::2], tested.gold), np.ones(1))))
    counts = {"train_pairs": len(train or ()), "test_pairs": len(test), "seeds": len(seeds) if train else 0}
    if not train:
        note = "The learned mix needs training pairs; give --train to see it."
        return ProbeResult("similarity", "correlation", tuple(rows), None, counts, (note,))
    embedded = _embed(model, train, advance)
    mixes = [_learn_mix(embedded, model.num_layers, seed) for seed in seeds]
    by_seed = [score_numbers(tested.gold.tolist(), _cosines(tested, weights).tolist()) for weights in mixes]
    scores = {name: Score.of_seeds([found[name] for found in by_seed]) for name in _CORRELATIONS}
    rows.append(ProbeRow(MIX, scores))
    return ProbeResult("similarity", "correlation", tuple(rows), tuple(np.mean(mixes, axis=0).tolist()), counts)


def _embed(model: Elmo, pairs: Sequence[SentencePair], advance: Callable[[int], None]) -> _Pairs:
    """Return the mean vectors of the sentences in each layer."""
    if len(pairs) < 3:
        raise InputError(f"There are {len(pairs)} pairs; a correlation needs at least 3.")
    gold = [pair.target for pair in pairs]
    if not all(isinstance(target, float) for target in gold):
        raise InputError("These pairs have labels, not scores; similarity is measured against numbers.")
    means = np.zeros((2 * len(pairs), model.num_layers, model.dim), dtype=np.float32)
    arrays = model.embed_iter(_sentences(pairs), layers="all", read_ahead=256)
    for number, array in enumerate(arrays):
        if array.shape[1]:
            means[number] = array.mean(axis=1)
        advance(array.shape[1])
    return _Pairs(means[0::2], means[1::2], np.asarray(gold, dtype=np.float64))


def _sentences(pairs: Sequence[SentencePair]) -> list[list[str]]:
    return [list(words) for pair in pairs for words in (pair.first, pair.second)]


def _score(pairs: _Pairs, weights: Floats) -> dict[str, Score]:
    cosines = _cosines(pairs, weights)

    def measure(name: str) -> Callable[[Floats, Floats], float]:
        return lambda gold, found: score_numbers(gold.tolist(), found.tolist())[name]

    return {name: Score.of_examples(measure(name), pairs.gold, cosines) for name in _CORRELATIONS}


def _cosines(pairs: _Pairs, weights: Floats) -> Floats:
    first, second = (np.einsum("l,nld->nd", weights, each) for each in (pairs.first, pairs.second))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / np.maximum(lengths, np.finfo(np.float32).tiny))


def _learn_mix(pairs: _Pairs, num_layers: int, seed: int) -> Floats:
    """Learn the layer weights whose cosines correlate best; each seed sees a resampled set of pairs."""
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(pairs.gold), (len(pairs.gold),), generator=draw)
    first, second = (torch.from_numpy(each)[rows] for each in (pairs.first, pairs.second))
    gold = torch.from_numpy(pairs.gold)[rows].float()
    weights = torch.zeros(num_layers, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.1)
    for _ in range(_MIX_STEPS):
        shares = weights.softmax(dim=0)
        mixed = [torch.einsum("l,nld->nd", shares, each) for each in (first, second)]
        loss = -torch.corrcoef(torch.stack((F.cosine_similarity(mixed[0], mixed[1]), gold)))[0, 1]
        if not torch.isfinite(loss):
            break  # one side is constant
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return weights.detach().softmax(dim=0).double().numpy()


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
        found = self.senses.get(entry, Counter())
        return sorted(found, key=lambda key: (-found[key], key))

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
    seeds: Sequence[int],
    max_train_words: int | None = None,
    first_senses: Mapping[str, str] | None = None,
    advance: Callable[[int], None] = lambda num_words: None,
) -> ProbeResult:
    """Learn the senses of the training sentences and predict those of the test sentences."""
    memory, examples, counts = SenseMemory(), list[tuple[SenseTarget, Array]](), Counter[str]()
    meanings = SenseMemory()  # one "layer" of other dimensions
    draw = np.random.default_rng(0)

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
        if len(examples) < _EXAMPLES_KEPT:
            examples.append((target, vector))
        elif (slot := int(draw.integers(counts["train_targets"]))) < _EXAMPLES_KEPT:
            examples[slot] = (target, vector)
    if not memory.senses:
        raise InputError("The training data has no words with senses; choose another file.")
    mixes = [learn_mix(memory, examples, model.num_layers, seed) for seed in seeds]
    same = np.full((1, model.num_layers), 1 / model.num_layers)
    weightings = np.concatenate((np.eye(model.num_layers), same, np.stack(mixes))).astype(np.float32)
    right = []  # of each target: by each weighting, and by the first sense alone
    for target, vector, meaning in _embed_targets(model, count_words(test, "test_words", None)):
        answers = _answer(memory, target, vector, weightings, first_senses or {})
        if meaning is not None:
            answers.append(_answer(meanings, target, meaning, np.ones((1, 1), np.float32), first_senses or {})[0])
        right.append([answer in (target.keys or ()) for answer in answers])
        counts["test_targets"] += 1
        counts["test_targets_not_in_training"] += entry_of(target) not in memory.senses
    if not right:
        raise InputError("The test data has no words with senses; choose another file.")
    counts["seeds"] = len(seeds)
    note = "Lemmas that are not in the training data get WordNet's first sense."
    if first_senses is None:
        note = (
            "Lemmas that are not in the training data get no sense, and the first sense is the most frequent one "
            "in training; --sense-index gives WordNet's order."
        )
    rows = _make_rows(100.0 * np.asarray(right), model.num_layers, len(seeds))
    return ProbeResult("senses", "F1", rows, tuple(np.mean(mixes, axis=0).tolist()), dict(counts), (note,))


def _answer(
    memory: SenseMemory, target: SenseTarget, vector: Array, weightings: Array, first_senses: Mapping[str, str]
) -> list[str | None]:
    """Return the sense by each weighting, then the first sense."""
    entry = entry_of(target)
    candidates = memory.candidates(entry)
    first = first_senses.get(entry, candidates[0] if candidates else None)
    if not candidates:
        return [first] * (len(weightings) + 1)
    return [*memory.nearest(entry, vector, weightings), first]


def _make_rows(right: Floats, num_layers: int, num_seeds: int) -> tuple[ProbeRow, ...]:
    """(targets, L+2 weightings, seeds of the mix, first sense, meaning if there is a context layer) -> rows."""

    def score(column: Floats) -> Score:
        return Score.of_examples(lambda examples: float(examples.mean()), column)

    columns, end = right.T, num_layers + 1 + num_seeds
    scores = [score(columns[end]), *map(score, columns[: num_layers + 1])]
    scores.append(Score.of_seeds(columns[num_layers + 1 : end].mean(axis=1).tolist()))
    scores += map(score, columns[end + 1 :])
    names = ["first sense", *name_rows(num_layers), MEANING]
    return tuple(ProbeRow(name, {"senses": found}) for name, found in zip(names, scores, strict=False))


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


def learn_mix(
    memory: SenseMemory, examples: Sequence[tuple[SenseTarget, Array]], num_layers: int, seed: int
) -> Array:
    """Learn the layer weights that bring training examples nearest to their own sense.

    An example is left out of the mean of its sense, else it would be nearest to itself.
    """
    usable = [(target, vector) for target, vector in examples if _can_teach(memory, target)]
    order = np.random.default_rng(seed).permutation(len(usable))[:_EXAMPLES_USED]
    cases = [_make_case(memory, *usable[number]) for number in order]
    weights = torch.zeros(num_layers, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.05)
    for step in range(_SENSE_STEPS if cases else 0):
        batch = cases[step * 100 % len(cases) :][:100]
        losses = [_case_loss(weights.softmax(dim=0), *case) for case in batch]
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return weights.detach().softmax(dim=0).numpy()


def _can_teach(memory: SenseMemory, target: SenseTarget) -> bool:
    """Return whether a word has several senses, and its own sense another example."""
    counts = memory.senses[entry_of(target)]
    return len(counts) > 1 and target.keys is not None and counts[target.keys[0]] > 1


def _make_case(memory: SenseMemory, target: SenseTarget, vector: Array) -> tuple[torch.Tensor, torch.Tensor, int]:
    entry, key = entry_of(target), (target.keys or ("",))[0]
    means, right = memory.means(entry), memory.candidates(entry).index(key)
    count = memory.senses[entry][key]
    means[right] = (means[right] * count - vector) / (count - 1)
    return torch.from_numpy(vector), torch.from_numpy(means), right


def _case_loss(weights: torch.Tensor, vector: torch.Tensor, means: torch.Tensor, right: int) -> torch.Tensor:
    mixed = torch.einsum("l,ld->d", weights, vector)
    cosines = F.cosine_similarity(torch.einsum("l,sld->sd", weights, means), mixed[None], dim=-1)
    return -F.log_softmax(_SHARPNESS * cosines, dim=0)[right]
