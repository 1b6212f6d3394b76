"""Sentence similarity: the cosine of two sentences' mean vectors, layer by layer, against people's judgement."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from elmo.analysis.layer_choice import Array
from elmo.analysis.probe_results import AVERAGE, ENCODE, MIX, ProbeResult, ProbeRow, Score
from elmo.analysis.resampling import resample
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.tasks.examples import SentencePair
from elmo.tasks.metrics import score_numbers

METRICS = ("pearson", "spearman")
_MIX_STEPS = 200


@dataclass(frozen=True)
class _Pairs:
    """The mean vectors (N, L+1, 2D) of first and second sentences, and the scores (N,)."""

    first: Array
    second: Array
    gold: npt.NDArray[np.float64]


def probe_similarity(
    model: Elmo,
    train: Sequence[SentencePair] | None,
    test: Sequence[SentencePair],
    *,
    seeds: Sequence[int],
    advance: Callable[[int], None] = lambda num_words: None,
) -> ProbeResult:
    """Measure on the test pairs; the mix is learned on the training pairs, without which it is left out."""
    tested = _embed(model, test, advance)
    weightings = {f"layer {number}": np.eye(model.num_layers)[number] for number in range(model.num_layers)}
    weightings[AVERAGE] = np.full(model.num_layers, 1 / model.num_layers)
    rows = [ProbeRow(name, _score(tested, weights)) for name, weights in weightings.items()]
    if model.context is not None:
        rows.append(ProbeRow(ENCODE, _score(_encode(model, test), np.ones(1))))
    counts = {"train_pairs": len(train or ()), "test_pairs": len(test), "seeds": len(seeds) if train else 0}
    if not train:
        note = "The learned mix is left out, for it is learned on training pairs; give --train."
        return ProbeResult("similarity", "correlation", tuple(rows), None, counts, (note,))
    taught = _embed(model, train, advance)
    mixes = [_learn_mix(taught, model.num_layers, seed) for seed in seeds]
    by_seed = [score_numbers(tested.gold.tolist(), _cosines(tested, weights).tolist()) for weights in mixes]
    rows.append(ProbeRow(MIX, {name: Score.of_seeds([found[name] for found in by_seed]) for name in METRICS}))
    return ProbeResult("similarity", "correlation", tuple(rows), tuple(np.mean(mixes, axis=0).tolist()), counts)


def _embed(model: Elmo, pairs: Sequence[SentencePair], advance: Callable[[int], None]) -> _Pairs:
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


def _encode(model: Elmo, pairs: Sequence[SentencePair]) -> _Pairs:
    """Return the pairs with the sentence vectors of Elmo.encode in place of the layers, (N, 1, dimensions)."""
    first, second = ([pair.first for pair in pairs], [pair.second for pair in pairs])
    gold = np.asarray([pair.target for pair in pairs], dtype=np.float64)
    return _Pairs(model.encode(map(list, first))[:, None], model.encode(map(list, second))[:, None], gold)


def _score(pairs: _Pairs, weights: npt.NDArray[np.float64]) -> dict[str, Score]:
    return {
        name: resample(len(pairs.gold), partial(_correlate_one, pairs.gold, _cosines(pairs, weights), name))
        for name in METRICS
    }


def _correlate_one(
    gold: npt.NDArray[np.float64], cosines: npt.NDArray[np.float64], name: str, rows: npt.NDArray[np.int64]
) -> float:
    return score_numbers(gold[rows].tolist(), cosines[rows].tolist())[name]


def _cosines(pairs: _Pairs, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    first, second = (np.einsum("l,nld->nd", weights, each) for each in (pairs.first, pairs.second))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / np.maximum(lengths, np.finfo(np.float32).tiny))


def _learn_mix(pairs: _Pairs, num_layers: int, seed: int) -> npt.NDArray[np.float64]:
    """Learn the weights of the layers whose cosines correlate best; each seed sees a redrawn set of pairs."""
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
