"""Two meanings of a word told apart: 24 words, 5 sentences of our own a meaning, none of them trained on.

    python benchmarks/homonyms.py MODEL [MODEL ...]

Each occurrence gets the meaning of its nearest neighbour among the word's other nine (1-NN), and of the nearest
mean of a meaning, itself left out (centroid), by the cosine. Chance is 44 and 50. Prints a table and a JSON line.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo import Elmo

FILE = Path(__file__).with_name("homonyms.txt")
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence, and what it means there."""

    word: str
    meaning: str
    sentence: list[str]

    @property
    def place(self) -> int:
        """Where the word is."""
        return self.sentence.index(self.word)


def read_occurrences() -> list[Occurrence]:
    """Read the sentences, each with a word and its meaning."""
    found, word, meaning = [], "", ""
    for line in FILE.read_text().splitlines():
        if line.startswith("#"):
            word, meaning = line[1:].replace(" ", "").split(":")
        elif not line.startswith(";"):
            found.append(Occurrence(word, meaning, line.split()))
    return found


def score(occurrences: list[Occurrence], vectors: Vectors) -> tuple[float, float, float]:
    """Give the accuracies of 1-NN and centroid in percent, and the mean cosine within less that across them."""
    places = defaultdict(list)
    for number, occurrence in enumerate(occurrences):
        places[occurrence.word].append(number)
    nearest, centroid, gaps = [], [], []
    normed = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for numbers in places.values():
        own = normed[numbers]
        names, meaning = np.unique([occurrences[number].meaning for number in numbers], return_inverse=True)
        cosines, is_other = own @ own.T, ~np.eye(len(own), dtype=bool)
        same = meaning[:, None] == meaning
        gaps.append(cosines[same & is_other].mean() - cosines[~same].mean())
        nearest += list(meaning[np.where(is_other, cosines, -2).argmax(axis=1)] == meaning)
        for number in range(len(own)):
            left = np.arange(len(own)) != number
            means = np.stack([own[left & (meaning == at)].mean(axis=0) for at in range(len(names))])
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            centroid.append((means @ own[number]).argmax() == meaning[number])
    return 100 * float(np.mean(nearest)), 100 * float(np.mean(centroid)), float(np.mean(gaps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    occurrences = read_occurrences()
    results = []
    print("| model | vectors | 1-NN | centroid | cosine within - across |\n|---|---|---:|---:|---:|")
    for name in parser.parse_args().models:
        model = Elmo.from_pretrained(name)
        embedded = model.embed([occurrence.sentence for occurrence in occurrences], layers="all")
        found = [layers[:, each.place] for layers, each in zip(embedded, occurrences, strict=True)]
        stacked = np.stack(found)  # (n, L+1, 2D)
        kinds = {f"layer {number}": stacked[:, number] for number in range(1, model.num_layers)}
        for kind, vectors in {**kinds, "average": stacked.mean(axis=1)}.items():
            nearest, centroid, gap = score(occurrences, vectors)
            print(f"| {Path(name).name} | {kind} | {nearest:.1f} | {centroid:.1f} | {gap:.3f} |", flush=True)
            results.append({"model": name, "vectors": kind, "1nn": nearest, "centroid": centroid, "gap": gap})
    print(json.dumps({"num_occurrences": len(occurrences), "results": results}))


if __name__ == "__main__":
    main()
