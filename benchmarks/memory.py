"""Measure speed and memory of embedding as text grows: streams, one long sentence, many sentences at once.

Every case runs in its own process, so that peak memory is measured separately. The model has random weights.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from elmo import Elmo
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig
from elmo.heap import reuse_large_blocks

MEBIBYTE = 2**20
NUM_DISTINCT_WORDS = 30_000
CASES = {
    "stream": (5_000, 15_000, 45_000),  # sentences of 20 words
    "one sentence": (10_000, 100_000),  # words
    "many at once": (10_000, 100_000),  # sentences of 10 words
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help="model folder; default: random weights, 1024 cells, 128 dimensions")
    parser.add_argument("--precision", default="float32")
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(run_case(arguments.case, arguments.count, arguments.model, arguments.precision)))
        return
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model or save_model(Path(folder))
        cases = []
        print(f"{'case':14} {'count':>8} {'words':>10} {'words/s':>8} {'above the model':>19} {'result':>9}")
        for case, counts in CASES.items():
            for count in counts:
                options = ["--case", case, "--count", str(count), "--model", str(model)]
                command = [sys.executable, __file__, *options, "--precision", arguments.precision]
                completed = subprocess.run(command, check=True, capture_output=True, text=True)
                cases.append(json.loads(completed.stdout))
                print_line(cases[-1])
    print(json.dumps({"benchmark": "memory", "precision": arguments.precision, "cases": cases}))


def save_model(folder: Path) -> Path:
    config = ModelConfig(
        encoder=EncoderConfig(cell_dim=1024, output_dim=128), characters=CharacterConfig(num_highways=1)
    )
    Elmo.from_config(config).save_pretrained(folder / "model")
    return folder / "model"


def run_case(case: str, count: int, folder: Path, precision: str) -> dict[str, object]:
    reuse_large_blocks()
    model = Elmo.from_pretrained(folder, precision=precision)
    model.embed([["word"] * 50] * 64)
    before, start = peak_mebibytes(), time.perf_counter()
    num_words = num_bytes = 0
    if case == "stream":
        for vectors in model.embed_iter(generate_sentences(count, 20)):
            num_words += len(vectors)
    else:
        shape = (1, count) if case == "one sentence" else (count, 10)
        for vectors in model.embed([*generate_sentences(*shape)]):
            num_words += len(vectors)
            num_bytes += vectors.nbytes
    return {
        "case": case,
        "count": count,
        "num_words": num_words,
        "words_per_second": round(num_words / (time.perf_counter() - start)),
        "mebibytes": round(peak_mebibytes() - before),
        "result_mebibytes": round(num_bytes / MEBIBYTE),
    }


def generate_sentences(num_sentences: int, num_words: int) -> Iterator[list[str]]:
    rng = random.Random(0)
    for _ in range(num_sentences):
        yield [f"w{int(rng.paretovariate(0.6)) % NUM_DISTINCT_WORDS}" for _ in range(num_words)]


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def print_line(case: dict[str, object]) -> None:
    print(
        f"{case['case']:14} {case['count']:>8,} {case['num_words']:>10,} {case['words_per_second']:>8,}"
        f" {case['mebibytes']:>15,} MiB {case['result_mebibytes']:>5,} MiB",
        flush=True,
    )


if __name__ == "__main__":
    main()
