"""Classify pairs of sentences (MCL-WiC): whether a word has the same sense in both, by the cosine of its vectors.

    python benchmarks/wic.py MODEL FOLDER [--language zh-zh]

FOLDER contains dev.LANGUAGE.data, dev.LANGUAGE.gold and the same files for test. The best threshold on dev is used on
test; half of the pairs have the same sense. Prints a table and JSON.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from elmo import Elmo


def read_pairs(folder: Path, split: str, language: str) -> tuple[list[dict[str, str]], np.ndarray]:
    """Return the pairs of a split, and whether the word has the same sense in each."""
    pairs = json.loads((folder / f"{split}.{language}.data").read_text(encoding="utf-8"))
    answers = json.loads((folder / f"{split}.{language}.gold").read_text())
    gold = {answer["id"]: answer["tag"] == "T" for answer in answers}
    return pairs, np.array([gold[pair["id"]] for pair in pairs])


def compare(model: Elmo, pairs: list[dict[str, str]], layers: str | int) -> np.ndarray:
    """Return the cosine of each pair."""
    sentences, spans = [], []
    for pair in pairs:
        for side in "12":
            text, start, end = pair[f"sentence{side}"], int(pair[f"start{side}"]), int(pair[f"end{side}"])
            words = model.tokenize(text)
            inside = [index for index, word in enumerate(words) if word.end > start and word.start < end]
            sentences.append([word.text for word in words])
            spans.append([(inside[0], inside[-1] + 1)])
    vectors = np.concatenate(model.embed_spans(sentences, spans, layers=layers))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors[::2] * vectors[1::2]).sum(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--language", default="zh-zh")
    options = parser.parse_args()
    model = Elmo.from_pretrained(options.model)
    (dev, dev_gold), (test, test_gold) = (
        read_pairs(options.folder, split, options.language) for split in ("dev", "test")
    )
    results = {}
    print("| vectors | dev | test |\n|---|---:|---:|")
    for layers in ("top", "average", *(["meaning"] if model.context else [])):
        dev_cosines, test_cosines = (compare(model, pairs, layers) for pairs in (dev, test))
        scores = [float(np.mean((dev_cosines >= threshold) == dev_gold)) for threshold in np.sort(dev_cosines)]
        threshold = np.sort(dev_cosines)[int(np.argmax(scores))]
        accuracy = float(np.mean((test_cosines >= threshold) == test_gold))
        results[layers] = {"dev": 100 * max(scores), "test": 100 * accuracy}
        print(f"| {layers} | {100 * max(scores):.1f} | {100 * accuracy:.1f} |", flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
