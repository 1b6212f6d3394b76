"""Measure words per CPU second of each kernel variant and of NumPy: one thread, interleaved, best round.

CPU time varies less than wall-clock time on a busy machine. The workload is bulk embedding with the top layer and a
warm word cache: `python benchmarks/variants.py [--text TEXT]`.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from generated_text import generate_text

from elmo.kernels.library import VARIABLE, find_kernels

PRECISIONS = ("float32", "int8")
WORKER = """
import json, sys, time
from elmo import Elmo
sentences = [line.split() for line in json.load(sys.stdin)]
model = Elmo.from_pretrained(precision=sys.argv[1], num_threads=1)
model.embed(sentences, layers="top")
start = time.process_time()
model.embed(sentences, layers="top")
print(sum(map(len, sentences)) / (time.process_time() - start))
"""


def measure(variant: str, precision: str, sentences: list[str]) -> float:
    """Return words per CPU second in a separate process."""
    environment = {**os.environ, VARIABLE: variant, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WORKER, precision]
    completed = subprocess.run(
        command, input=json.dumps(sentences), env=environment, capture_output=True, text=True, check=True
    )
    return float(completed.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, help="one sentence per line, words separated by spaces")
    parser.add_argument("--words", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    lines = options.text.read_text().splitlines() if options.text else list(generate_text(options.words))
    sentences, num_words = [], 0
    for line in lines:
        if line.strip() and num_words < options.words:
            sentences.append(line)
            num_words += len(line.split())
    library = find_kernels().library
    variants = [*(library.variants if library else ()), "off"]
    best: dict[str, dict[str, float]] = {variant: dict.fromkeys(PRECISIONS, 0.0) for variant in variants}
    for _ in range(options.rounds):
        for variant in variants:
            for precision in PRECISIONS:
                speed = measure(variant, precision, sentences)
                best[variant][precision] = max(best[variant][precision], speed)
    print(f"{'variant':12}" + "".join(f"{precision:>10}" for precision in PRECISIONS))
    for variant, speeds in best.items():
        name = "NumPy" if variant == "off" else variant
        print(f"{name:12}" + "".join(f"{speeds[precision]:10,.0f}" for precision in PRECISIONS))
    print(json.dumps({"benchmark": "variants", "words": num_words, "rounds": options.rounds, "words_per_s": best}))


if __name__ == "__main__":
    main()
