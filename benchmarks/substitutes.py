"""Compare substitutes in everyday sentences with a list of acceptable ones.

    python benchmarks/substitutes.py [--model MODEL] [FILE]

FILE is substitutes.tsv, or chinese_substitutes.tsv with --model zh-small. P@1 and P@3 are the shares of acceptable
words among the first one and three; MAP is the mean average precision of the best 50. Words that are not listed may
be equally good, so only compare scores with each other.
"""

import argparse
import json
from pathlib import Path

from elmo import Elmo

FOLDER = Path(__file__).parent
TOP_K = 50


def main() -> None:
    """Print each sentence with its best substitutes, then the scores as a table and a JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=FOLDER / "substitutes.tsv")
    parser.add_argument("--model")
    options = parser.parse_args()
    model = Elmo.from_pretrained(options.model)
    totals = [0.0, 0.0, 0.0]
    lines = options.file.read_text(encoding="utf-8").splitlines()
    for line in lines:
        sentence, words = line.split("\t")
        accepted = words.split(", ")
        best = [substitute.word for substitute in model.substitutes(sentence, top_k=TOP_K)]
        hits = [word in accepted for word in best]
        precisions = [sum(hits[: place + 1]) / (place + 1) for place, hit in enumerate(hits) if hit]
        totals = [
            total + value
            for total, value in zip(totals, (hits[0], sum(hits[:3]) / 3, sum(precisions) / len(accepted)), strict=True)
        ]
        marked = [f"*{word}" if hit else word for word, hit in zip(best, hits, strict=True)]
        print(f"{sentence}  {', '.join(marked[:6])}")
    scores = {name: 100 * total / len(lines) for name, total in zip(("P@1", "P@3", "MAP"), totals, strict=True)}
    print(f"\n| {' | '.join(scores)} |\n|{'---:|' * len(scores)}")
    print(f"| {' | '.join(f'{score:.1f}' for score in scores.values())} |")
    print(json.dumps(scores))


if __name__ == "__main__":
    main()
