"""Measure how well vectors distinguish the senses of a word: 24 words, 5 sentences per sense, none trained on.

    python benchmarks/homonyms.py MODEL [MODEL ...]
    python benchmarks/homonyms.py MODEL --sentences benchmarks/other_meanings.txt --encoder MINILM
    python benchmarks/homonyms.py MODEL --sentences benchmarks/chinese_meanings.tsv

--encoder adds a Hugging Face Transformer (extra distill); a word gets the mean of its pieces in the last layer. Each
line of a .tsv file has a word, its sense and a sentence with the [word] in brackets.

Each occurrence is assigned the sense of the nearest other occurrence of the word (1-NN), or of the nearest centroid of
the others, by cosine; chance is 44 and 50 for the 24 words. Triplets: how often an occurrence is closer to another one
with the same sense than to one with a different sense; chance is 50. Prints a table and JSON.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo import Elmo
from elmo.text.sentence_input import read_marked

FILE = Path(__file__).with_name("homonyms.txt")
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence, and its sense."""

    word: str
    meaning: str
    sentence: list[str] | str  # words, or a text with the [word] in brackets

    def locate(self, model: Elmo) -> tuple[list[str], tuple[int, int]]:
        """Return the words of the sentence as the model tokenizes them, and the range of this word."""
        if isinstance(self.sentence, str):
            return read_marked(self.sentence, model.tokenization)
        index = [word.lower() for word in self.sentence].index(self.word.lower())
        return self.sentence, (index, index + 1)


def read_occurrences(file: Path = FILE) -> list[Occurrence]:
    """Read the sentences, each with a word and its sense."""
    occurrences: list[Occurrence] = []
    word, meaning = "", ""
    if file.suffix == ".tsv":
        return [Occurrence(*line.split("\t")) for line in file.read_text(encoding="utf-8").splitlines()]
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            word, meaning = line[1:].replace(" ", "").split(":")
        elif not line.startswith(";"):
            occurrences.append(Occurrence(word, meaning, line.split()))
    return occurrences


def score(occurrences: list[Occurrence], vectors: Vectors) -> tuple[float, float, float]:
    """Return 1-NN and centroid accuracy in percent, and the mean cosine within minus across senses."""
    by_word = defaultdict(list)
    for number, occurrence in enumerate(occurrences):
        by_word[occurrence.word].append(number)
    nearest, centroid, gaps = [], [], []
    normed = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for numbers in by_word.values():
        own = normed[numbers]
        names, meaning = np.unique([occurrences[number].meaning for number in numbers], return_inverse=True)
        cosines, is_other = own @ own.T, ~np.eye(len(own), dtype=bool)
        same = meaning[:, None] == meaning
        gaps.append(cosines[same & is_other].mean() - cosines[~same].mean())
        nearest += list(meaning[np.where(is_other, cosines, -2).argmax(axis=1)] == meaning)
        for number in range(len(own)):
            others = np.arange(len(own)) != number
            means = np.stack([own[others & (meaning == sense)].mean(axis=0) for sense in range(len(names))])
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            centroid.append((means @ own[number]).argmax() == meaning[number])
    return 100 * float(np.mean(nearest)), 100 * float(np.mean(centroid)), float(np.mean(gaps))


def score_triplets(occurrences: list[Occurrence], vectors: Vectors) -> float:
    """Return the percentage of triplets in which the occurrence with the same sense is closer."""
    normed = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = normed @ normed.T
    correct = []
    for anchor, occurrence in enumerate(occurrences):
        candidates = [
            (index, other.meaning) for index, other in enumerate(occurrences) if other.word == occurrence.word
        ]
        same = [index for index, meaning in candidates if meaning == occurrence.meaning and index != anchor]
        different = [index for index, meaning in candidates if meaning != occurrence.meaning]
        correct += [cosines[anchor, near] > cosines[anchor, far] for near in same for far in different]
    return 100 * float(np.mean(correct))


def embed(model: Elmo, occurrences: list[Occurrence], layers: str | int) -> Vectors:
    """Return the vector of each occurrence, (n, dimensions)."""
    located = [occurrence.locate(model) for occurrence in occurrences]
    arrays = model.embed_spans([words for words, _ in located], [[span] for _, span in located], layers=layers)
    return np.concatenate(arrays)


def embed_by_encoder(name: str, occurrences: list[Occurrence]) -> Vectors:
    """Return the vector of each occurrence from a Transformer, (n, dimensions)."""
    from elmo.pretrain.teacher import Teacher

    encoder, vectors = Teacher(name), []
    for occurrence in occurrences:
        assert not isinstance(occurrence.sentence, str), "--encoder needs sentences of words"
        index = [word.lower() for word in occurrence.sentence].index(occurrence.word.lower())
        vectors.append(encoder.encode([occurrence.sentence]).words[index].numpy())
    return np.stack(vectors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--sentences", type=Path, default=FILE, help="another file of sentences")
    parser.add_argument("--encoder", help="Transformer to compare with: a folder or a name on the Hub")
    options = parser.parse_args()
    occurrences = read_occurrences(options.sentences)
    results: list[dict[str, str | float]] = []

    def report(name: str, layers: str, vectors: Vectors) -> None:
        nearest, centroid, gap = score(occurrences, vectors)
        triplets = score_triplets(occurrences, vectors)
        print(
            f"| {Path(name).name} | {layers} | {nearest:.1f} | {centroid:.1f} | {triplets:.1f} | {gap:.3f} |",
            flush=True,
        )
        results.append(
            {"model": name, "vectors": layers, "1nn": nearest, "centroid": centroid, "triplets": triplets, "gap": gap}
        )

    print("| model | vectors | 1-NN | centroid | triplets | within - across |\n|---|---|---:|---:|---:|---:|")
    for name in options.models:
        model = Elmo.from_pretrained(name)
        choices: list[str | int] = [*range(model.num_layers), "average", *(["meaning"] if model.context else [])]
        for layers in choices:
            title = layers if isinstance(layers, str) else f"layer {layers}"
            report(name, title, embed(model, occurrences, layers))
    if options.encoder:
        report(options.encoder, "last layer", embed_by_encoder(options.encoder, occurrences))
    print(json.dumps({"num_occurrences": len(occurrences), "results": results}))


if __name__ == "__main__":
    main()
