"""Linear probes: which layer tells a word's part of speech, its morphology, or the class of a text."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from elmo.analysis.linear_probe import NO_LABEL, LabelledVectors, LinearSettings, train_linear_probe
from elmo.analysis.probe_results import ProbeResult, ProbeRow, Score, name_rows
from elmo.errors import InputError
from elmo.model import Elmo

MEAN = "mean"
_FEWEST_EXAMPLES = 100  # of a question that is asked
_NO_FEATURES = ("_", "")


@dataclass(frozen=True)
class LabelledSentence:
    """A sentence and, for each of its words (or for all together), the answers to some questions by name."""

    words: tuple[str, ...]
    answers: tuple[dict[str, str], ...]  # one for each word, or one for the whole text


def read_tags(tags: Sequence[str]) -> tuple[dict[str, str], ...]:
    """Take each word's tag as the one answer."""
    return tuple({"tag": tag} for tag in tags)


def read_features(tags: Sequence[str]) -> tuple[dict[str, str], ...]:
    """Take each feature of a word, as in Number=Sing|Person=3, as an answer of its own."""
    found = []
    for tag in tags:
        pairs = [] if tag in _NO_FEATURES else [pair.partition("=") for pair in tag.split("|")]
        if not all(equals for _, equals, _ in pairs):
            raise InputError(
                f"{tag!r:.60} is no list of features such as Number=Sing|Person=3; name their column."
            )
        found.append({name: value for name, _, value in pairs})
    return tuple(found)


def probe_linear(
    model: Elmo,
    kind: str,
    train: Sequence[LabelledSentence],
    test: Sequence[LabelledSentence],
    *,
    seeds: Sequence[int],
    max_train_words: int | None,
    max_test_words: int | None,
    settings: LinearSettings | None = None,
    advance: Callable[[int], None] = lambda num_words: None,
) -> ProbeResult:
    """Train and measure. Of longer data each seed draws its own training sentences; the test part is one."""
    drawn = [draw_sentences(train, max_train_words, seed) for seed in seeds]
    tested = draw_sentences(test, max_test_words, 0)
    wanted = sorted(set().union(*drawn))
    questions = _choose_questions([train[number] for number in wanted], [test[number] for number in tested])
    if not questions:
        raise InputError(
            "There is nothing to tell apart: no label has two values in the training data and one in the test."
        )
    train_rows = _embed(model, train, wanted, questions, advance)
    test_vectors = _stack([rows for _, rows in _embed(model, test, tested, questions, advance).items()])
    by_seed = []
    for seed, numbers in zip(seeds, drawn, strict=True):
        train_vectors = _stack([train_rows[number] for number in numbers])
        counts = [len(classes) for classes in questions.values()]
        by_seed.append(train_linear_probe(train_vectors, test_vectors, counts, settings or LinearSettings(), seed))
    rows = [
        ProbeRow(name, _name_scores(questions, [found.accuracy[kind_number] for found in by_seed]))
        for kind_number, name in enumerate(name_rows(model.num_layers))
    ]
    majority = _majority(questions, [train[number] for number in drawn[0]], [test[number] for number in tested])
    rows.insert(0, ProbeRow("most frequent", _name_scores(questions, [majority])))
    weights = np.mean([found.mix_weights for found in by_seed], axis=0).tolist()
    counts_told = {
        "train_words": sum(len(train[number].words) for number in drawn[0]),
        "train_words_in_data": sum(len(each.words) for each in train),
        "test_words": sum(len(test[number].words) for number in tested),
        "test_words_in_data": sum(len(each.words) for each in test),
        "seeds": len(seeds),
    }
    return ProbeResult(kind, "accuracy", tuple(rows), tuple(weights), counts_told)


def draw_sentences(sentences: Sequence[LabelledSentence], max_words: int | None, seed: int) -> list[int]:
    """Give the numbers of sentences with about so many words, drawn by the seed, in order."""
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
    """Give the questions that can be probed, each with the numbers of its classes."""
    counts: dict[str, Counter[str]] = {}
    for name, answer in _all_answers(train):
        counts.setdefault(name, Counter())[answer] += 1
    tested = Counter(name for name, _ in _all_answers(test))
    fewest = _FEWEST_EXAMPLES if len(counts) > 1 else 2
    return {
        name: {answer: number for number, answer in enumerate(sorted(answers))}
        for name, answers in sorted(counts.items())
        if len(answers) > 1 and answers.total() >= fewest and tested[name]
    }


def _all_answers(sentences: Sequence[LabelledSentence]) -> Iterator[tuple[str, str]]:
    for sentence in sentences:
        for answers in sentence.answers:
            yield from answers.items()


def _embed(
    model: Elmo,
    sentences: Sequence[LabelledSentence],
    numbers: Sequence[int],
    questions: dict[str, dict[str, int]],
    advance: Callable[[int], None],
) -> dict[int, LabelledVectors]:
    """Give the vectors of each sentence's words, or of the whole text where it has one answer for all."""
    found = {}
    arrays = model.embed_iter((list(sentences[number].words) for number in numbers), layers="all", read_ahead=256)
    for number, array in zip(numbers, arrays, strict=True):
        sentence = sentences[number]
        vectors = array.transpose(1, 0, 2)  # (T, L+1, 2D)
        if len(sentence.answers) != len(sentence.words):
            vectors = (
                vectors.mean(axis=0, keepdims=True)
                if len(vectors)
                else np.zeros_like(vectors, shape=(1, *vectors.shape[1:]))
            )
        labels = np.full((len(vectors), len(questions)), NO_LABEL, dtype=np.int64)
        for row, answers in enumerate(sentence.answers):
            for column, (name, classes) in enumerate(questions.items()):
                # An answer that training did not have is asked too, and cannot be right.
                if name in answers:
                    labels[row, column] = classes.get(answers[name], len(classes))
        found[number] = LabelledVectors(vectors.astype(np.float16), labels)
        advance(len(sentence.words))
    return found


def _stack(parts: Sequence[LabelledVectors]) -> LabelledVectors:
    return LabelledVectors(
        np.concatenate([part.vectors for part in parts]), np.concatenate([part.labels for part in parts])
    )


def _majority(
    questions: dict[str, dict[str, int]], train: Sequence[LabelledSentence], test: Sequence[LabelledSentence]
) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    counts = {name: Counter[str]() for name in questions}
    for name, answer in _all_answers(train):
        if name in counts:
            counts[name][answer] += 1
    best = {name: found.most_common(1)[0][0] for name, found in counts.items()}
    right, asked = Counter[str](), Counter[str]()
    for name, answer in _all_answers(test):
        asked[name] += 1
        right[name] += best.get(name) == answer
    return np.asarray([100 * right[name] / asked[name] for name in questions])


def _name_scores(
    questions: dict[str, dict[str, int]], by_seed: "Sequence[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]"
) -> dict[str, Score]:
    scores = {
        name: Score.of_seeds([float(values[column]) for values in by_seed])
        for column, name in enumerate(questions)
    }
    if len(questions) > 1:
        scores = {MEAN: Score.of_seeds([float(values.mean()) for values in by_seed]), **scores}
    return scores
