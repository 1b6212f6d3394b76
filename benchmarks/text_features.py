"""Compare sentence features for a linear classifier: poolings of a model and TF-IDF, on six text data sets.

    python benchmarks/text_features.py DATA --models en-small zh-small

DATA contains the folders `corpus` and `tasks`. Each classifier is trained on 1,500 examples and tested on 1,000 others,
never from a test set; regularization is chosen by cross-validation. Prints a table of accuracies, then one JSON
line.
"""

import argparse
import csv
import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from elmo import Elmo

NUM_TRAIN, NUM_DEV = 1500, 1000
Examples = list[tuple[str, str]]


def read_sst(folder: Path, *, binary: bool) -> Examples:
    """Return sentences of the Stanford Sentiment Treebank, with two or five labels."""
    trees = (folder / "tasks/sentiment/sst-train.txt").read_text(encoding="utf-8").splitlines()
    pairs = [(" ".join(re.findall(r"\(\d ([^()]+)\)", tree)), tree[1]) for tree in trees]
    return [(text, "+" if label > "2" else "-") for text, label in pairs if label != "2"] if binary else pairs


def read_relations(folder: Path) -> Examples:
    """Return sentences of SemEval-2010 task 8 with their relation, without its direction."""
    lines = (folder / "tasks/relations/semeval2010-train.txt").read_text(encoding="utf-8")
    matches = re.findall(r'^\d+\t"(.*)"\r?\n([^(\r\n]+)', lines, flags=re.MULTILINE)
    return [(re.sub(r"</?e\d>", "", text), label) for text, label in matches]


def read_genres(folder: Path) -> Examples:
    """Return sentences of UD English EWT with the genre of their document."""
    lines = (folder / "tasks/pos/ewt-train.conllu").read_text(encoding="utf-8")
    matches = re.findall(r"^# sent_id = (\w+?)-.*\n(?:#(?! text).*\n)*# text = (.*)", lines, flags=re.MULTILINE)
    return [(text, genre) for genre, text in matches]


def read_sources(folder: Path) -> Examples:
    """Return sentences of Wikipedia and of books."""

    def sentences(name: str) -> Iterator[str]:
        text = (folder / f"corpus/{name}.valid.txt").read_text(encoding="utf-8")
        yield from (piece for piece in re.split(r"(?<=[.!?])\s+", text) if 30 < len(piece) < 200)

    return [(text, name) for name in ("wikipedia_en", "books_en") for text in sentences(name)]


def read_hotels(folder: Path) -> Examples:
    """Return Chinese hotel reviews with their polarity."""
    with (folder / "tasks/zh/sentiment/train.csv").open(encoding="utf-8", newline="") as file:
        return [(row["review"], row["label"]) for row in csv.DictReader(file)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    languages = ("ENGLISH", "CHINESE")
    parser.add_argument("--models", nargs=2, default=("en-small", "zh-small"), metavar=languages)
    options = parser.parse_args()
    folder, (english, chinese) = options.data, options.models
    sets: dict[str, tuple[str, Examples]] = {
        "SST-2": (english, read_sst(folder, binary=True)),
        "SST-5": (english, read_sst(folder, binary=False)),
        "relations": (english, read_relations(folder)),
        "genres": (english, read_genres(folder)),
        "Wikipedia or book": (english, read_sources(folder)),
        "hotels (zh)": (chinese, read_hotels(folder)),
    }
    table: dict[str, dict[str, float]] = {}
    for name, (model_name, examples) in sets.items():
        table[name] = measure(Elmo.from_pretrained(model_name), examples)
        print(name, {column: round(accuracy, 1) for column, accuracy in table[name].items()}, flush=True)
    columns = list(next(iter(table.values())))
    print(f"\n| | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name, row in table.items():
        print(f"| {name} | {' | '.join(f'{row[column]:.1f}' for column in columns)} |")
    means = {column: float(np.mean([row[column] for row in table.values()])) for column in columns}
    print(f"| mean | {' | '.join(f'{means[column]:.1f}' for column in columns)} |")
    print(json.dumps({"accuracies": table, "means": means}))


def measure(model: Elmo, examples: Examples) -> dict[str, float]:
    """Return the accuracy of a linear classifier for each kind of features."""
    order = np.random.default_rng(0).permutation(len(examples))[: NUM_TRAIN + NUM_DEV]
    texts, labels = [examples[index][0] for index in order], np.array([examples[index][1] for index in order])
    poolings: dict[str, Callable[[], np.ndarray]] = {
        "head": lambda: model.encode(texts, pooling="head"),
        "weighted": lambda: model.encode(texts, pooling="weighted"),
        "mean of average": lambda: model.encode(texts, pooling="mean", layers="average"),
        "mean of concat": lambda: model.encode(texts, pooling="mean", layers="concat"),
        "max of concat": lambda: model.encode(texts, pooling="max", layers="concat"),
        "mean of meaning": lambda: model.encode(texts, pooling="mean", layers="meaning"),
    }
    features = {name: pool() for name, pool in poolings.items()}
    features["mean and max"] = np.hstack([features["mean of concat"], features["max of concat"]])
    features["head and mean"] = np.hstack([features["head"], features["mean of concat"]])
    accuracies = {name: classify(matrix, labels, StandardScaler()) for name, matrix in features.items()}
    is_chinese = any("\u4e00" <= character <= "\u9fff" for character in texts[0])
    tfidf = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), analyzer="char" if is_chinese else "word")
    accuracies["TF-IDF"] = classify(tfidf.fit_transform(texts), labels, MaxAbsScaler())
    return accuracies


def classify(matrix: object, labels: np.ndarray, scaler: object) -> float:
    """Return the accuracy in percent on the examples after the first NUM_TRAIN."""
    strengths = [0.001, 0.01, 0.1, 1.0] if isinstance(scaler, StandardScaler) else [1.0, 10.0, 100.0]
    grid = {"logisticregression__C": strengths}
    search = GridSearchCV(make_pipeline(scaler, LogisticRegression(max_iter=100)), grid, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(matrix[:NUM_TRAIN], labels[:NUM_TRAIN])  # type: ignore[index]
        return 100 * float(search.score(matrix[NUM_TRAIN:], labels[NUM_TRAIN:]))  # type: ignore[index]


if __name__ == "__main__":
    main()
