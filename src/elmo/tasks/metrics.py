"""Gold and predicted -> scores in percent, by maintained libraries; SQuAD's two by their published definition."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

from elmo.errors import InputError

_ENDING, _SINGLE = ("E", "L"), ("S", "U")
_NO_RELATION = frozenset(("other", "no_relation", "none", "na", "no relation", "norelation"))


def tag_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Give the spans that IOB, IOB2, IOBES, BMES or BILOU tags mark: type, first word, last word."""
    spans: list[tuple[str, int, int]] = []
    is_open = False
    for number, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        if prefix == "O" or not kind:
            is_open = False
            continue
        if is_open and prefix not in ("B", *_SINGLE) and spans[-1][0] == kind:
            spans[-1] = (kind, spans[-1][1], number)
        else:
            spans.append((kind, number, number))
        is_open = prefix not in (*_ENDING, *_SINGLE)
    return spans


def score_spans(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 of spans whose type and both borders are right."""
    try:
        from nervaluate.entities import Entity, EvaluationResult
        from nervaluate.strategies import StrictEvaluation
    except ImportError as error:
        raise _missing("nervaluate") from error
    # Its Evaluator does this in four manners and for each type besides, at 60% of the cost of an epoch on WNUT17.
    strict, total = StrictEvaluation(), EvaluationResult()
    for tags, found in zip(gold, predicted, strict=True):
        right, answered = (
            [Entity(label=kind, start=start, end=end) for kind, start, end in tag_spans(row)]
            for row in (tags, found)
        )
        result, _ = strict.evaluate(right, answered, [])
        for name in ("correct", "incorrect", "spurious", "missed"):
            setattr(total, name, getattr(total, name) + getattr(result, name))
    if not total.correct + total.incorrect + total.spurious + total.missed:
        return {"f1": 100.0, "precision": 100.0, "recall": 100.0}
    total.compute_metrics()
    return {"f1": 100 * total.f1, "precision": 100 * total.precision, "recall": 100 * total.recall}


def score_labels(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """Accuracy, and F1 averaged over the labels."""
    try:
        from sklearn.metrics import accuracy_score, f1_score
    except ImportError as error:
        raise _missing("scikit-learn") from error
    return {
        "accuracy": 100 * float(accuracy_score(gold, predicted)),
        "macro_f1": 100 * float(f1_score(gold, predicted, average="macro", zero_division=0)),
    }


def score_numbers(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """Pearson's and Spearman's correlation; 0 where one side is constant."""
    try:
        from scipy.stats import pearsonr, spearmanr
    except ImportError as error:
        raise _missing("scipy") from error
    if len(set(gold)) < 2 or len(set(predicted)) < 2:
        return {"pearson": 0.0, "spearman": 0.0}
    return {
        "pearson": 100 * float(pearsonr(gold, predicted).statistic),
        "spearman": 100 * float(spearmanr(gold, predicted).statistic),
    }


def score_relations(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """F1 averaged over relations, direction counted and "Other" left out, as SemEval-2010 defines it."""
    try:
        from sklearn.metrics import accuracy_score, f1_score
    except ImportError as error:
        raise _missing("scikit-learn") from error
    directed: dict[str, set[str]] = {}
    for label in gold:
        relation = re.sub(r"\(e[12],e[12]\)$", "", label)
        if relation.lower() not in _NO_RELATION:
            directed.setdefault(relation, set()).update((label, f"{relation}(e1,e2)", f"{relation}(e2,e1)"))
    scores = [
        float(f1_score(gold, predicted, labels=sorted(labels), average="micro", zero_division=0))
        for labels in directed.values()
    ]
    macro = sum(scores) / len(scores) if scores else 0.0
    return {"macro_f1": 100 * macro, "accuracy": 100 * float(accuracy_score(gold, predicted))}


def score_answers(gold: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, float]:
    """Exact match and word F1 against the nearest of each question's answers, as SQuAD defines them.

    A question without answers (SQuAD 2) is answered rightly by "" alone.
    """
    gold = [answers or ("",) for answers in gold]
    exact = [
        max(float(_plain(answer) == _plain(text)) for answer in answers) for answers, text in _zip(gold, predicted)
    ]
    overlap = [max(_word_f1(answer, text) for answer in answers) for answers, text in _zip(gold, predicted)]
    return {"f1": 100 * sum(overlap) / len(overlap), "exact": 100 * sum(exact) / len(exact)}


def _zip(gold: Any, predicted: Any) -> Any:
    return zip(gold, predicted, strict=True)


def _plain(text: str) -> list[str]:
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    return [word for word in kept.split() if word not in ("a", "an", "the")]


def _word_f1(answer: str, text: str) -> float:
    one, other = Counter(_plain(answer)), Counter(_plain(text))
    if not one or not other:
        return float(one == other)
    shared = sum((one & other).values())
    return 2 * shared / (sum(one.values()) + sum(other.values()))


def _missing(package: str) -> InputError:
    return InputError(f"Scores need {package}, which is not installed; install modern-elmo[tasks].")
