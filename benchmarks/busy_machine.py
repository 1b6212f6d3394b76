"""Measure how much busy processes slow down training a task and embedding.

    python benchmarks/busy_machine.py wnut17-train.conll --sentences 400 --busy 2

Runs `elmo task train ner` and `elmo embed` on the sentences of a CoNLL file, first on an idle machine, then while other
processes compute all the time. Every run has its own layer cache. Prints a table of wall and CPU seconds, then one JSON
line with the load of the machine before each run.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def compute_forever() -> None:
    """Keep one core busy."""
    while True:
        sum(range(10_000))


def measure(command: list[str]) -> dict[str, float]:
    """Return the wall and CPU seconds of a command, and the load before it."""
    load, before, started = os.getloadavg()[0], resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, "-m", "elmo", *command], check=True, capture_output=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_seconds": time.monotonic() - started, "cpu_seconds": cpu_seconds, "load": load}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--busy", type=int, default=2, help="number of busy processes")
    options = parser.parse_args()
    sentences = options.file.read_text(encoding="utf-8").strip().split("\n\n")[: options.sentences]
    results: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.conll").write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
        words = (" ".join(line.split()[0] for line in sentence.splitlines() if line.strip()) for sentence in sentences)
        (folder / "text.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        for state, num_busy in (("idle", 0), ("busy", options.busy)):
            others = [multiprocessing.Process(target=compute_forever, daemon=True) for _ in range(num_busy)]
            for process in others:
                process.start()
            output, cache = str(folder / f"{state}-task"), str(folder / f"{state}-cache")
            train = ["task", "train", "ner", "--train", str(folder / "train.conll"), "--epochs", str(options.epochs)]
            embed = ["embed", str(folder / "text.txt"), "--output", str(folder / f"{state}.npz")]
            try:
                results[state] = {
                    "task train": measure([*train, "--output", output, "--cache", cache]),
                    "embed": measure(embed),
                }
            finally:
                for process in others:
                    process.kill()
    print(f"| | idle, s (CPU) | with {options.busy} busy processes, s (CPU) | factor |\n|---|---:|---:|---:|")
    for command, idle in results["idle"].items():
        busy = results["busy"][command]
        cells = (f"{run['wall_seconds']:.1f} ({run['cpu_seconds']:.1f})" for run in (idle, busy))
        print(f"| {command} | {' | '.join(cells)} | {busy['wall_seconds'] / idle['wall_seconds']:.2f} |")
    print(json.dumps({"sentences": len(sentences), "busy_processes": options.busy, **results}))


if __name__ == "__main__":
    main()
