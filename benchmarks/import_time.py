"""Measure the time of `from elmo import Elmo` beyond importing torch: fresh interleaved processes, medians."""

import json
import statistics
import subprocess
import sys

REPEATS = 7
TIMED = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def seconds(statement: str) -> float:
    command = [sys.executable, "-c", TIMED.format(statement)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    statements = {"torch": "import torch", "elmo": "from elmo import Elmo", "elmo_alone": "import elmo"}
    times: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(REPEATS):
        for name, statement in statements.items():
            times[name].append(seconds(statement))
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'statement':28} {'median s':>9}")
    for name, statement in statements.items():
        print(f"{statement:28} {medians[name]:9.3f}")
    print(f"beyond torch: {medians['elmo'] - medians['torch']:+.3f} s")
    print(json.dumps({"benchmark": "import_time", "repeats": REPEATS, "median_seconds": medians}))


if __name__ == "__main__":
    main()
