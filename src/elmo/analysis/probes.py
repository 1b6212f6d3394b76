"""Files of labelled data and a model -> what each layer knows: `probe`, its results, and the similarity probe.

The similarity probe compares the cosine of two sentences' mean vectors with people's scores. The probes that learn
classifiers are in linear_probe.py, word senses in sense_probe.py.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from elmo.analysis.layers import Array
from elmo.errors import ConfigError, InputError
from elmo.model import Elmo
from elmo.progress import progress_bar
from elmo.tasks.examples import SentencePair
from elmo.tasks.metrics import score_numbers
from elmo.tasks.readers import open_reader
from elmo.tasks.readers.datasets import read_first_senses
from elmo.tasks.settings import ReadSettings
from elmo.tasks.shared_inputs import read_examples

Floats: TypeAlias = npt.NDArray[np.float64]
ProbeKind: TypeAlias = Literal["tagging", "features", "classification", "senses", "similarity"]
AVERAGE, MIX, MEANING, ENCODE = "average", "learned mix", "meaning", "encode"
DEFAULT_MAX_TRAIN_WORDS: dict[str, int] = {
    "tagging": 100_000, "features": 100_000, "classification": 200_000, "senses": 1_000_000,
}  # fmt: skip
DEFAULT_MAX_TEST_WORDS = 50_000
_CORRELATIONS = ("pearson", "spearman")
_MIX_STEPS = 200
_RESAMPLES = 200


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
        try:
            from scipy.stats import bootstrap
        except ImportError as error:
            raise ConfigError("This needs SciPy: pip install 'modern-elmo[analysis]'.") from error
        found = bootstrap(
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
        return {
            "kind": self.kind,
            "metric": self.metric,
            "rows": [
                {"name": row.name, "scores": {name: asdict(score) for name, score in row.scores.items()}}
                for row in self.rows
            ],
            "mix_weights": self.mix_weights,
            "counts": self.counts,
            "notes": list(self.notes),
        }


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
    from elmo.analysis import linear_probe, sense_probe  # which return the results defined here

    _check(kind, train, sense_index, seeds, max_train_words, max_test_words)
    limit = max_train_words or DEFAULT_MAX_TRAIN_WORDS.get(kind)
    read = ReadSettings(format, dict(columns or {}), pair_target="score" if kind == "similarity" else "auto")
    with progress_bar(unit="words", num_bytes=None, shown=progress) as report:

        def advance(num_words: int) -> None:
            report(0, num_words)

        if kind == "similarity":
            taught = None if train is None else read_examples(train, "pairs", read)[0]
            tested = read_examples(test, "pairs", read)[0]
            return probe_similarity(model, taught, tested, seeds=seeds, advance=advance)
        assert train is not None
        if kind == "senses":
            return sense_probe.probe_senses(
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


@dataclass(frozen=True)
class _Pairs:
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
        rows.append(ProbeRow(ENCODE, _score(_encode(model, test, tested.gold), np.ones(1))))
    counts = {"train_pairs": len(train or ()), "test_pairs": len(test), "seeds": len(seeds) if train else 0}
    if not train:
        note = "The learned mix needs training pairs; give --train to see it."
        return ProbeResult("similarity", "correlation", tuple(rows), None, counts, (note,))
    taught = _embed(model, train, advance)
    mixes = [_learn_mix(taught, model.num_layers, seed) for seed in seeds]
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
    sentences = [words for pair in pairs for words in (pair.first, pair.second)]
    means = np.zeros((len(sentences), model.num_layers, model.dim), dtype=np.float32)
    arrays = model.embed_iter(map(list, sentences), layers="all", read_ahead=256)
    for number, array in enumerate(arrays):
        if array.shape[1]:
            means[number] = array.mean(axis=1)
        advance(array.shape[1])
    return _Pairs(means[0::2], means[1::2], np.asarray(gold, dtype=np.float64))


def _encode(model: Elmo, pairs: Sequence[SentencePair], gold: Floats) -> _Pairs:
    """Return the vectors of Elmo.encode as the only layer."""
    first = model.encode([list(pair.first) for pair in pairs])
    second = model.encode([list(pair.second) for pair in pairs])
    return _Pairs(first[:, None], second[:, None], gold)


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
