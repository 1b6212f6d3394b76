"""Word senses by the nearest neighbour: each sense is the mean of its vectors in training, layer by layer.

A model with a context layer is measured by "meaning" too.

A lemma that training did not have gets its first sense: WordNet's where its index is given, else none.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from elmo.analysis.layer_choice import Array
from elmo.analysis.probe_results import MEANING, ProbeResult, ProbeRow, Score, name_rows
from elmo.analysis.resampling import resample_mean
from elmo.analysis.sense_memory import SenseMemory, learn_mix
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.tasks.examples import SenseSentence, SenseTarget, entry_of

_EXAMPLES_KEPT = 5000  # to learn the mix from


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
    """Learn the senses of the training sentences, from the first on, and tell those of the test sentences."""
    memory, examples, counts = SenseMemory(), list[tuple[SenseTarget, Array]](), Counter[str]()
    meanings = SenseMemory()  # one "layer" of other dimensions
    draw = np.random.default_rng(0)
    sentences = _count_words(_take_words(train, max_train_words), counts, "train_words", advance)
    for target, vector, meaning in _embed_targets(model, sentences):
        memory.add(target, vector)
        if meaning is not None:
            meanings.add(target, meaning)
        counts["train_targets"] += 1
        if len(examples) < _EXAMPLES_KEPT:
            examples.append((target, vector))
        elif (slot := int(draw.integers(counts["train_targets"]))) < _EXAMPLES_KEPT:
            examples[slot] = (target, vector)
    if not memory.senses:
        raise InputError("The training data has no words with senses; nothing can be remembered.")
    mixes = [learn_mix(memory, examples, model.num_layers, seed) for seed in seeds]
    same = np.full((1, model.num_layers), 1 / model.num_layers)
    weightings = np.concatenate((np.eye(model.num_layers), same, np.stack(mixes))).astype(np.float32)
    right = []  # of each target: by each weighting, and by the first sense alone
    for target, vector, meaning in _embed_targets(model, _count_words(test, counts, "test_words", advance)):
        answers = _answer(memory, target, vector, weightings, first_senses or {})
        if meaning is not None:
            answers += _answer(meanings, target, meaning, np.ones((1, 1), dtype=np.float32), first_senses or {})[
                :1
            ]
        right.append([answer in (target.keys or ()) for answer in answers])
        counts["test_targets"] += 1
        counts["test_targets_not_in_training"] += entry_of(target) not in memory.senses
    if not right:
        raise InputError("The test data has no words with senses; nothing can be measured.")
    counts["seeds"] = len(seeds)
    rows = _make_rows(100.0 * np.asarray(right), model.num_layers, len(seeds))
    return ProbeResult(
        "senses", "F1", rows, tuple(np.mean(mixes, axis=0).tolist()), dict(counts), _explain(first_senses)
    )


def _answer(
    memory: SenseMemory, target: SenseTarget, vector: Array, weightings: Array, first_senses: Mapping[str, str]
) -> list[str | None]:
    """Give the sense by each weighting, and at the end the first sense."""
    entry = entry_of(target)
    candidates = memory.candidates(entry)
    first = first_senses.get(entry, candidates[0] if candidates else None)
    if not candidates:
        return [first] * (len(weightings) + 1)
    return [*memory.nearest(entry, vector, weightings), first]


def _make_rows(right: npt.NDArray[np.float64], num_layers: int, num_seeds: int) -> tuple[ProbeRow, ...]:
    """(targets, L+2 weightings, seeds of the mix, first sense, meaning if there is a context layer) -> rows."""
    fixed = [resample_mean(right[:, column]) for column in range(num_layers + 1)]
    end = num_layers + 1 + num_seeds
    mix = Score.of_seeds(right[:, num_layers + 1 : end].mean(axis=0).tolist())
    first = ProbeRow("first sense", {"senses": resample_mean(right[:, end])})
    names = name_rows(num_layers)
    rows = [ProbeRow(name, {"senses": score}) for name, score in zip(names, [*fixed, mix], strict=True)]
    rows += [ProbeRow(MEANING, {"senses": resample_mean(column)}) for column in right.T[end + 1 :]]
    return (first, *rows)


def _explain(first_senses: Mapping[str, str] | None) -> tuple[str, ...]:
    if first_senses is not None:
        return ("Lemmas that are not in the training data get WordNet's first sense.",)
    return (
        "Lemmas that are not in the training data get no sense, and the first sense is the most frequent one in "
        "training; give WordNet's index.sense for its own order.",
    )


def _take_words(sentences: Iterable[SenseSentence], max_words: int | None) -> Iterator[SenseSentence]:
    num_words = 0
    for sentence in sentences:
        if max_words is not None and num_words >= max_words:
            return
        yield sentence
        num_words += len(sentence.words)


def _count_words(
    sentences: Iterable[SenseSentence], counts: Counter[str], name: str, advance: Callable[[int], None]
) -> Iterator[SenseSentence]:
    for sentence in sentences:
        yield sentence
        counts[name] += len(sentence.words)
        advance(len(sentence.words))


def _embed_targets(
    model: Elmo, sentences: Iterable[SenseSentence]
) -> Iterator[tuple[SenseTarget, Array, Array | None]]:
    """Yield each word that has a sense with its vectors (L+1, 2D), and (1, 2D + d) by meaning if that can be.

    Sentences without such a word are not read.
    """
    waiting: list[SenseSentence] = []

    def take() -> Iterator[list[str]]:
        for sentence in sentences:
            if sentence.targets:
                waiting.append(sentence)
                yield list(sentence.words)

    for array in model.embed_iter(take(), layers="all", read_ahead=256):
        sentence = waiting.pop(0)
        meanings = None if model.context is None else model.add_context([sentence.words], [array[-1]])[0]
        for target in sentence.targets:
            start, end = target.span
            meaning = None if meanings is None else meanings[start:end].mean(axis=0, keepdims=True)
            yield target, array[:, start:end].mean(axis=1), meaning
