"""Linear probes: which layer knows a word's part of speech, its morphology, or the class of a text.

One classifier for each layer, the average and a learned mix is trained on the same batches, without influence on
each other. Each layer is first scaled to mean 0 and deviation 1 per dimension, so that no scale is favoured.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.errors import InputError
from elmo.model import Elmo
from elmo.tasks.probes import Floats, ProbeResult, ProbeRow, Score, name_rows
from elmo.tasks.settings import ReadSettings
from elmo.tasks.shared_inputs import read_examples

MEAN = "mean"
NO_LABEL = -1
_FEWEST_EXAMPLES = 100  # of a question, if there are several
_NUM_EPOCHS, _MIN_STEPS = 8, 500  # small data is repeated more often
_BATCH_SIZE = 256
_LEARNING_RATE, _WEIGHT_DECAY = 2e-3, 1e-2
_MIX_RATE = 10


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
    # The few mix weights need larger steps, and no decay.
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
    found = []
    for tag in tags:
        pairs = [] if tag in ("_", "") else [pair.partition("=") for pair in tag.split("|")]
        if not all(equals for _, equals, _ in pairs):
            raise InputError(
                f"{tag!r:.60} is not a list of features such as Number=Sing|Person=3; name their column with "
                "--column tag=NAME."
            )
        found.append({name: value for name, _, value in pairs})
    return tuple(found)


def read_sentences(path: str, kind: str, read: ReadSettings) -> list[LabelledSentence]:
    """Read the examples of one kind of probe: tagging, features or classification."""
    if kind == "classification":
        examples, _ = read_examples(path, "classification", read)
        return [LabelledSentence(each.words, ({"label": each.label},)) for each in examples]
    if kind == "features" and "tag" not in read.columns:
        read = replace(read, columns={**read.columns, "tag": "feats"})
    examples = [each for each in read_examples(path, "tagging", read)[0] if each.words]
    if kind == "features":
        return [LabelledSentence(each.words, read_features(each.tags)) for each in examples]
    return [LabelledSentence(each.words, tuple({"tag": tag} for tag in each.tags)) for each in examples]


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
        ProbeRow(name, _name_scores(questions, [found.accuracy[kind_number] for found in by_seed]))
        for kind_number, name in enumerate(name_rows(model.num_layers))
    ]
    majority = _majority(questions, [train[number] for number in drawn[0]], [test[number] for number in tested])
    rows.insert(0, ProbeRow("most frequent", _name_scores(questions, [majority])))
    weights = np.mean([found.mix_weights for found in by_seed], axis=0).tolist()
    counts_used = {
        "train_words": sum(len(train[number].words) for number in drawn[0]),
        "train_words_in_data": sum(len(each.words) for each in train),
        "test_words": sum(len(test[number].words) for number in tested),
        "test_words_in_data": sum(len(each.words) for each in test),
        "seeds": len(seeds),
    }
    return ProbeResult(kind, "accuracy", tuple(rows), tuple(weights), counts_used)


def draw_sentences(sentences: Sequence[LabelledSentence], max_words: int | None, seed: int) -> list[int]:
    """Return the numbers of random sentences with about `max_words` words together, in order."""
    order = list(range(len(sentences)))
    if max_words is None or sum(len(each.words) for each in sentences) <= max_words:
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


def _choose_questions(
    train: Sequence[LabelledSentence], test: Sequence[LabelledSentence]
) -> dict[str, dict[str, int]]:
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
    found = {}
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
        found[number] = LabelledVectors(vectors.astype(np.float16), labels)
        advance(len(sentence.words))
    return found


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
        name: Score.of_seeds([float(values[column]) for values in by_seed])
        for column, name in enumerate(questions)
    }
    if len(questions) > 1:
        scores = {MEAN: Score.of_seeds([float(values.mean()) for values in by_seed]), **scores}
    return scores
