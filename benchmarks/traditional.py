"""Compare a Chinese model's vectors of the same sentences in Simplified and Traditional characters.

    python benchmarks/traditional.py MODEL TEXT [--num-sentences 200]

TEXT is in Simplified characters; OpenCC (package opencc) converts it. Prints the mean cosines of words and of sentences
and, for comparison, of different sentences; then JSON.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from opencc import OpenCC

from elmo import Elmo
from elmo.text.tokenize import split_sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("text", metavar="TEXT", type=Path)
    parser.add_argument("--num-sentences", type=int, default=200)
    options = parser.parse_args()
    model = Elmo.from_pretrained(options.model)
    convert = OpenCC("s2t").convert
    sentences = split_sentences(options.text.read_text(encoding="utf-8"), language="zh")
    pairs = [(one, convert(one)) for one in sentences]
    pairs = [(one, other) for one, other in pairs if one != other and len(model.tokenize(one)) >= 10]
    step = max(1, len(pairs) // options.num_sentences)
    pairs = [(one, other) for one, other in pairs[::step] if len(model.tokenize(one)) == len(model.tokenize(other))][
        : options.num_sentences
    ]
    simplified, traditional = ([pair[side] for pair in pairs] for side in (0, 1))
    results = {"num_sentences": len(pairs)}
    for layers in ("average", "top", *(["meaning"] if model.context else [])):
        arrays = zip(*(model.embed(texts, layers=layers) for texts in (simplified, traditional)), strict=True)
        cosines = np.concatenate([_cosine(one, other) for one, other in arrays])
        results[f"words_{layers}"] = float(cosines.mean())
        results[f"words_{layers}_5th_percentile"] = float(np.percentile(cosines, 5))
    one, other = model.encode(simplified), model.encode(traditional)
    results["sentences"] = float(_cosine(one, other).mean())
    results["other_sentences"] = float(_cosine(one, np.roll(other, 1, axis=0)).mean())
    for name, value in results.items():
        print(f"{name:>32} {value:.4f}" if isinstance(value, float) else f"{name:>32} {value}")
    print(json.dumps(results))


def _cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray((one * other).sum(axis=1) / np.maximum(lengths, 1e-12))


if __name__ == "__main__":
    main()
