"""Measure the throughput of `elmo serve` with many clients, compared with bulk encode of the same model.

    python benchmarks/serve.py --model my-model --seconds 60
    python benchmarks/serve.py --model my-model --sizes 1 --seconds 10

Starts the server on a free local port. Each client sends requests to /v1/embeddings in sequence, with sentences of
mixed lengths and base64 output, and compares every vector with `encode`. Bulk encode is measured before and after,
while the server is idle. Prints a table, then one JSON line.
"""

import argparse
import asyncio
import base64
import itertools
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import orjson

from elmo import Elmo
from elmo.heap import reuse_large_blocks

NUM_SENTENCES = 2048
MAX_REQUESTS = 200_000
LARGEST_DIFFERENCE = {"float32": 2e-5, "bfloat16": 0.1, "int8": 0.25}
LETTERS = "etaoinshrdlcumwfgypbvkjxqz"


@dataclass
class Outcome:
    """The combined results of all clients."""

    seconds: list[float] = field(default_factory=list)
    num_words: int = 0
    num_sentences: int = 0
    largest_difference: float = 0.0
    failures: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--precision", default="float32", choices=LARGEST_DIFFERENCE)
    parser.add_argument("--text", type=Path, help="one sentence per line; generated if not given")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--bulk-seconds", type=float, default=8, help="duration of each of the two bulk measurements")
    parser.add_argument("--sizes", default="1,2,4,8,16,32", help="sentences per request, drawn at random from these")
    parser.add_argument("--at-once", type=int, default=1024, help="sentences per call of bulk encode")
    parser.add_argument("serve", nargs="*", help="options of elmo serve, after --")
    options = parser.parse_args()
    sentences = read_sentences(options.text)
    model = Elmo.from_pretrained(options.model, precision=options.precision)
    reuse_large_blocks()
    lengths = [len(model.tokenize(text)) for text in sentences]
    expected = model.encode(sentences)
    sizes = [int(size) for size in options.sizes.split(",")]
    command = [sys.executable, "-m", "elmo", "serve", f"model={options.model}", "--port", "0"]
    command += ["--precision", options.precision, *options.serve]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        port = wait_until_serving(server)
        before = measure_bulk(model, sentences, lengths, options.at_once, options.bulk_seconds)
        outcome, elapsed = asyncio.run(run_clients(options, port, sentences, lengths, expected, sizes))
        memory = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())[1]) // 1024
        after = measure_bulk(model, sentences, lengths, options.at_once, options.bulk_seconds)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    report(options, outcome, elapsed, before, after, memory, model)


def read_sentences(path: Path | None) -> list[str]:
    """Return sentences of 1 to about 60 words, from a file or generated with realistic word frequencies."""
    if path is not None:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return list(itertools.islice(itertools.cycle(lines), NUM_SENTENCES))
    rng = random.Random(0)
    words = ["".join(rng.choices(LETTERS, range(26, 0, -1), k=1 + rank.bit_length() // 2)) for rank in range(20_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    lengths = [max(1, min(60, round(rng.lognormvariate(2.8, 0.6)))) for _ in range(NUM_SENTENCES)]
    return [" ".join(rng.choices(words, weights, k=length)) for length in lengths]


def wait_until_serving(server: subprocess.Popen) -> int:
    for line in server.stderr:
        if match := re.search(r"serving at http://127\.0\.0\.1:(\d+)/", line):
            return int(match[1])
        sys.stderr.write(line)
    raise SystemExit("The server did not start.")


def measure_bulk(model: Elmo, sentences: list[str], lengths: list[int], at_once: int, seconds: float) -> float:
    """Return words per second of encode on the same sentences, repeatedly."""
    model.encode(sentences[:at_once])
    num_words, start = 0, time.perf_counter()
    for first in itertools.cycle(range(0, len(sentences), at_once)):
        model.encode(sentences[first : first + at_once])
        num_words += sum(lengths[first : first + at_once])
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return num_words / elapsed
    raise AssertionError


async def run_clients(
    options: argparse.Namespace,
    port: int,
    sentences: list[str],
    lengths: list[int],
    expected: np.ndarray,
    sizes: list[int],
) -> tuple[Outcome, float]:
    """Send requests from all clients until the time is up."""
    outcome, start = Outcome(), time.perf_counter()
    counter = itertools.count()
    limit = LARGEST_DIFFERENCE[options.precision]

    async def client(seed: int) -> None:
        rng = random.Random(seed)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() - start < options.seconds and next(counter) < MAX_REQUESTS:
            chosen = rng.sample(range(len(sentences)), rng.choice(sizes))
            body = orjson.dumps({"input": [sentences[number] for number in chosen], "encoding_format": "base64"})
            began = time.perf_counter()
            head = f"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            status, response = await read_response(reader)
            outcome.seconds.append(time.perf_counter() - began)
            if status != 200:
                outcome.failures.append(f"{status} {response[:200]!r}")
                continue
            entries = orjson.loads(response)["data"]
            if [entry["index"] for entry in entries] != list(range(len(chosen))):
                outcome.failures.append("a result was lost")
                continue
            vectors = np.stack([np.frombuffer(base64.b64decode(entry["embedding"]), "<f4") for entry in entries])
            difference = float(np.abs(vectors - expected[chosen]).max())
            outcome.largest_difference = max(outcome.largest_difference, difference)
            if not difference <= limit:
                outcome.failures.append(f"a vector differs by {difference:.3g}")
            outcome.num_sentences += len(chosen)
            outcome.num_words += sum(lengths[number] for number in chosen)
        writer.close()

    await asyncio.gather(*(client(seed) for seed in range(options.clients)))
    return outcome, time.perf_counter() - start


async def read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = re.findall(rb"content-length: (\d+)", head)
    return int(head[9:12]), await reader.readexactly(int(length))


def report(
    options: argparse.Namespace,
    outcome: Outcome,
    elapsed: float,
    before: float,
    after: float,
    memory: int,
    model: Elmo,
) -> None:
    bulk = (before + after) / 2
    rate = outcome.num_words / elapsed
    percentiles = statistics.quantiles(outcome.seconds, n=100)
    p50, p99 = percentiles[49], percentiles[98]
    numbers = {
        "clients": options.clients,
        "sizes": options.sizes,
        "precision": model.precision,
        "dim": model.dim,
        "elapsed_seconds": round(elapsed, 1),
        "num_requests": len(outcome.seconds),
        "num_sentences": outcome.num_sentences,
        "words_per_second": round(rate),
        "bulk_words_per_second": [round(before), round(after)],
        "share_of_bulk": round(rate / bulk, 3),
        "p50_seconds": round(p50, 4),
        "p99_seconds": round(p99, 4),
        "largest_difference": outcome.largest_difference,
        "num_failures": len(outcome.failures),
        "server_memory_mb": memory,
    }
    for name, value in numbers.items():
        print(f"{name:>24}  {value}")
    for failure in outcome.failures[:5]:
        print(f"{'failure':>24}  {failure}")
    print(json.dumps(numbers))
    raise SystemExit(1 if outcome.failures else 0)


if __name__ == "__main__":
    main()
