"""Compare sentence vectors with a Transformer's: correlation of their cosines with human scores.

    python benchmarks/sentence_similarity.py stsb-test.csv --encoder MINILM
    python benchmarks/sentence_similarity.py stsb-test.csv --model MODEL

Each row of the file has two sentences and a score. --encoder is a folder of sentence-transformers. Prints a table,
then one JSON line.
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import pearsonr, spearmanr

from elmo import Elmo

Vectors = npt.NDArray[np.floating]


def correlate(first: Vectors, second: Vectors, scores: list[float]) -> tuple[float, float]:
    """Return Pearson and Spearman correlation (× 100) of the cosines of rows with the scores."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = (first * second).sum(axis=1) / lengths
    return 100 * float(pearsonr(cosines, scores)[0]), 100 * float(spearmanr(cosines, scores)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--model", default="en-small")
    parser.add_argument("--encoder", help="folder of a sentence-transformers model to compare with")
    options = parser.parse_args()
    with options.pairs.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    sentences = [[row[side] for row in rows] for side in (0, 1)]
    scores = [float(row[2]) for row in rows]
    model = Elmo.from_pretrained(options.model)
    correlations = {options.model: correlate(*(model.encode(side) for side in sentences), scores)}
    if options.encoder:
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(options.encoder, device="cpu")
        correlations[options.encoder] = correlate(*(encoder.encode(side) for side in sentences), scores)
    print("| | Pearson | Spearman |\n|---|---:|---:|")
    for name, (pearson, spearman) in correlations.items():
        print(f"| {Path(name).name} | {pearson:.1f} | {spearman:.1f} |")
    print(json.dumps({"num_pairs": len(rows), "correlations": correlations}))


if __name__ == "__main__":
    main()
