"""The senses probe: a word gets the sense whose mean vector in training is nearest, layer by layer.

Models with a context layer are measured by "meaning" too. A lemma that the training data lacks gets its first
sense in WordNet if the index is given, else none.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F

from elmo.analysis.layers import Array
from elmo.analysis.probes import MEANING, Floats, ProbeResult, ProbeRow, Score, name_rows
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.tasks.examples import SenseSentence, SenseTarget, entry_of

_EXAMPLES_KEPT = 5000  # to learn the mix from
_MIX_EXAMPLES = 1000
_MIX_STEPS = 150
_SHARPNESS = 10.0


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
        raise InputError("The training data has no words with senses; choose another file.")
    mixes = [learn_mix(memory, examples, model.num_layers, seed) for seed in seeds]
    same = np.full((1, model.num_layers), 1 / model.num_layers)
    weightings = np.concatenate((np.eye(model.num_layers), same, np.stack(mixes))).astype(np.float32)
    right = []  # of each target: by each weighting, and by the first sense alone
    for target, vector, meaning in _embed_targets(model, _count_words(test, counts, "test_words", advance)):
        answers = _answer(memory, target, vector, weightings, first_senses or {})
        if meaning is not None:
            answers.append(_answer(meanings, target, meaning, np.ones((1, 1), np.float32), first_senses or {})[0])
        right.append([answer in (target.keys or ()) for answer in answers])
        counts["test_targets"] += 1
        counts["test_targets_not_in_training"] += entry_of(target) not in memory.senses
    if not right:
        raise InputError("The test data has no words with senses; choose another file.")
    counts["seeds"] = len(seeds)
    rows = _make_rows(100.0 * np.asarray(right), model.num_layers, len(seeds))
    return ProbeResult(
        "senses", "F1", rows, tuple(np.mean(mixes, axis=0).tolist()), dict(counts), _explain(first_senses)
    )


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
    fixed = [_score(right[:, column]) for column in range(num_layers + 1)]
    end = num_layers + 1 + num_seeds
    mix = Score.of_seeds(right[:, num_layers + 1 : end].mean(axis=0).tolist())
    first = ProbeRow("first sense", {"senses": _score(right[:, end])})
    names = name_rows(num_layers)
    rows = [ProbeRow(name, {"senses": score}) for name, score in zip(names, [*fixed, mix], strict=True)]
    rows += [ProbeRow(MEANING, {"senses": _score(column)}) for column in right.T[end + 1 :]]
    return (first, *rows)


def _score(values: Floats) -> Score:
    return Score.of_examples(lambda examples: float(examples.mean()), values)


def _explain(first_senses: Mapping[str, str] | None) -> tuple[str, ...]:
    if first_senses is not None:
        return ("Lemmas that are not in the training data get WordNet's first sense.",)
    return (
        "Lemmas that are not in the training data get no sense, and the first sense is the most frequent one in "
        "training; --sense-index gives WordNet's order.",
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
    """Yield each word with a sense, its vectors (L+1, 2D), and (1, 2D + d) by meaning with a context layer.

    Sentences without such a word are not embedded.
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


def learn_mix(
    memory: SenseMemory, examples: Sequence[tuple[SenseTarget, Array]], num_layers: int, seed: int
) -> Array:
    """Learn the layer weights that bring training examples nearest to their own sense.

    An example is left out of the mean of its sense, else it would be nearest to itself.
    """
    usable = [(target, vector) for target, vector in examples if _can_teach(memory, target)]
    order = np.random.default_rng(seed).permutation(len(usable))[:_MIX_EXAMPLES]
    cases = [_make_case(memory, *usable[number]) for number in order]
    weights = torch.zeros(num_layers, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.05)
    for step in range(_MIX_STEPS if cases else 0):
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
