"""Score predictions against gold targets, in percent, with scikit-learn and scipy or by the published definitions."""

import itertools
import re
import string
from collections import Counter
from collections.abc import Sequence

from elmo.extras import require

_ENDING, _SINGLE = ("E", "L"), ("S", "U")
_NO_RELATION = frozenset(("other", "no_relation", "none", "na", "no relation", "norelation"))


# The tags of word segmentation: begin, middle, end, single.
SEGMENTATION = frozenset("BMES")


def tag_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the spans that IOB, IOB2, IOBES, BMES or BILOU tags mark: type, first word, last word.

    The spans of word segmentation, whose tags are B, M, E and S alone, have the type "word".
    """
    spans: list[tuple[str, int, int]] = []
    is_open = False
    has_types = not SEGMENTATION.issuperset(tags)
    for number, tag in enumerate(tags):
        prefix, _, span_type = tag.partition("-") if has_types else (tag, "", "word")
        if prefix == "O" or not span_type:
            is_open = False
            continue
        if is_open and prefix not in ("B", *_SINGLE) and spans[-1][0] == span_type:
            spans[-1] = (span_type, spans[-1][1], number)
        else:
            spans.append((span_type, number, number))
        is_open = prefix not in (*_ENDING, *_SINGLE)
    return spans


def score_spans(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return precision, recall and F1 of spans whose type and both borders are correct."""
    pairs = [(set(tag_spans(correct)), set(tag_spans(tags))) for correct, tags in zip(gold, predicted, strict=True)]
    num_correct = sum(len(gold_spans & spans) for gold_spans, spans in pairs)
    num_gold, num_predicted = (sum(map(len, spans)) for spans in zip(*pairs, strict=True))
    if not num_gold + num_predicted:
        return {"f1": 100.0, "precision": 100.0, "recall": 100.0}
    return {
        "f1": 200 * num_correct / (num_gold + num_predicted),
        "precision": 100 * num_correct / max(1, num_predicted),
        "recall": 100 * num_correct / max(1, num_gold),
    }


def score_labels(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """Return accuracy, and F1 averaged over the labels."""
    metrics = require("sklearn.metrics", "tasks", "This score")
    return {
        "accuracy": 100 * float(metrics.accuracy_score(gold, predicted)),
        "macro_f1": 100 * float(metrics.f1_score(gold, predicted, average="macro", zero_division=0)),
    }


def score_tags(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, marks_spans: bool
) -> dict[str, float]:
    """Return the scores of all tags as labels and, if the tags mark spans, of the spans."""
    tags, predicted_tags = (list(itertools.chain.from_iterable(rows)) for rows in (gold, predicted))
    return {**(score_spans(gold, predicted) if marks_spans else {}), **score_labels(tags, predicted_tags)}


def score_numbers(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """Return Pearson's and Spearman's correlation; 0 if one side is constant."""
    stats = require("scipy.stats", "tasks", "This score")
    if len(set(gold)) < 2 or len(set(predicted)) < 2:
        return {"pearson": 0.0, "spearman": 0.0}
    return {
        "pearson": 100 * float(stats.pearsonr(gold, predicted).statistic),
        "spearman": 100 * float(stats.spearmanr(gold, predicted).statistic),
    }


def score_relations(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """Return F1 averaged over relations, with their direction and without "Other", as SemEval-2010 defines it."""
    metrics = require("sklearn.metrics", "tasks", "This score")
    labels_by_relation: dict[str, set[str]] = {}
    for label in gold:
        relation = re.sub(r"\(e[12],e[12]\)$", "", label)
        if relation.lower() not in _NO_RELATION:
            labels_by_relation.setdefault(relation, set()).update((label, f"{relation}(e1,e2)", f"{relation}(e2,e1)"))
    scores = [
        float(metrics.f1_score(gold, predicted, labels=sorted(labels), average="micro", zero_division=0))
        for labels in labels_by_relation.values()
    ]
    macro = sum(scores) / len(scores) if scores else 0.0
    return {"macro_f1": 100 * macro, "accuracy": 100 * float(metrics.accuracy_score(gold, predicted))}


def score_answers(gold: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, float]:
    """Return exact match and word F1 against the closest answer to each question, as SQuAD defines them.

    For a question without answers (SQuAD 2) only "" is correct.
    """
    pairs = [(answers or ("",), text) for answers, text in zip(gold, predicted, strict=True)]
    exact = [max(float(_normalize(answer) == _normalize(text)) for answer in answers) for answers, text in pairs]
    overlap = [max(_word_f1(answer, text) for answer in answers) for answers, text in pairs]
    return {"f1": 100 * sum(overlap) / len(overlap), "exact": 100 * sum(exact) / len(exact)}


def _normalize(text: str) -> list[str]:
    unpunctuated = "".join(character for character in text.lower() if character not in string.punctuation)
    return [word for word in unpunctuated.split() if word not in ("a", "an", "the")]


def _word_f1(answer: str, text: str) -> float:
    gold, predicted = Counter(_normalize(answer)), Counter(_normalize(text))
    if not gold or not predicted:
        return float(gold == predicted)
    return 2 * sum((gold & predicted).values()) / (sum(gold.values()) + sum(predicted.values()))
