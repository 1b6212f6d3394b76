"""Measure vector folders: speed compared with embedding alone, memory, kills, two processes, a Ray cluster.

python benchmarks/vectors.py --model MODEL --corpus texts.txt.xz --words 1000000 --work FOLDER [--only speed …]
`speed` alternates with embedding alone, slice by slice, in one process. `kill` stops a command with SIGKILL at three
random moments and compares the folder with that of an uninterrupted run. `workers` alternates between one process with
two threads and two processes with one. `ray` does the same job with two workers of a local cluster. Needs an idle
machine and, for a model of 512 dimensions, 4 KB of disk per word.
"""

import argparse
import json
import lzma
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmo import Elmo
from elmo.files.durable import sha256_of
from elmo.heap import reuse_large_blocks
from elmo.text.tokenize import split_sentences, tokenize
from elmo.vectors import VectorSettings, embed_files

EXPERIMENTS = ("speed", "kill", "workers", "ray")
THREADS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", required=True, type=Path)
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--slices", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--part-bytes", type=int, default=1 << 20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=EXPERIMENTS, default=EXPERIMENTS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    slices = write_slices(options)
    results: dict[str, Any] = {}
    for name in options.only:
        results[name] = {"speed": speed, "kill": kill, "workers": workers, "ray": ray_workers}[name](options, slices)
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in results[name].items()), flush=True)
    print(json.dumps(results))


def write_slices(options: argparse.Namespace) -> list[Path]:
    """Write the sentences of the corpus, one per line, to files with about the same number of words."""
    paths = [options.work / f"slice-{number:02d}.txt" for number in range(options.slices)]
    sentences = read_sentences(options.corpus)
    for path in paths:
        num_words = 0
        with path.open("w", encoding="utf-8") as file:
            for sentence, size in sentences:
                file.write(f"{sentence}\n")
                num_words += size
                if num_words >= options.words / options.slices:
                    break
    return paths


def read_sentences(path: Path) -> Iterator[tuple[str, int]]:
    open_text = lzma.open if path.suffix == ".xz" else open
    with open_text(path, "rt", encoding="utf-8") as file:
        for line in file:
            for sentence in split_sentences(line):
                yield " ".join(sentence.split()), len(tokenize(sentence))


def speed(options: argparse.Namespace, slices: list[Path]) -> dict[str, Any]:
    reuse_large_blocks()
    model = Elmo.from_pretrained(options.model, num_threads=THREADS)
    model.embed(slices[0].read_text(encoding="utf-8").splitlines()[:200])
    settings = VectorSettings(part_bytes=options.part_bytes)
    seconds: dict[str, list[float]] = {"embed": [], "job": []}
    num_words, memory = 0, []
    for number, path in enumerate(slices):
        for task in ("embed", "job") if number % 2 else ("job", "embed"):
            model.clear_cache()  # start like a new process
            started = time.perf_counter()
            if task == "embed":
                lines = path.read_text(encoding="utf-8").splitlines()
                num_words += sum(len(array) for array in model.embed_iter(lines))
            else:
                embed_files(model, [path], options.work / "speed", settings, force=True)
            seconds[task].append(time.perf_counter() - started)
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    shutil.rmtree(options.work / "speed")
    ratios = [embed / job for embed, job in zip(seconds["embed"], seconds["job"], strict=True)]
    return {
        "num_words": num_words,
        "embed_words_per_second": round(num_words / sum(seconds["embed"])),
        "job_words_per_second": round(num_words / sum(seconds["job"])),
        "ratio": round(sum(seconds["embed"]) / sum(seconds["job"]), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "median_ratio": round(statistics.median(ratios), 3),
        "peak_mb_after_each_slice": memory,
    }


def command(options: argparse.Namespace, slices: list[Path], output: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "elmo", "embed", *map(str, slices)),
        *("--model", options.model, "--output", str(output)),
        *("--part-bytes", str(options.part_bytes), *more),
    ]


def timed(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def checksums(folder: Path) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in sorted(folder.rglob("*"))}


def kill(options: argparse.Namespace, slices: list[Path]) -> dict[str, Any]:
    whole, killed = options.work / "whole", options.work / "killed"
    for folder in (whole, killed):
        shutil.rmtree(folder, ignore_errors=True)
    seconds = timed(command(options, slices, whole))
    num_parts = len(list(whole.glob("part-*")))
    rng = random.Random(options.seed)
    kills = []
    for num_finished in sorted(rng.sample(range(max(3, num_parts - 2)), 3)):
        process = subprocess.Popen(command(options, slices, killed), stdout=subprocess.DEVNULL)
        while process.poll() is None and len(list(killed.glob("part-*"))) < num_finished:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, seconds / num_parts / 2))  # at a random time within the current part
        os.kill(process.pid, signal.SIGKILL)
        kills.append(f"{num_finished} of {num_parts} parts, {process.wait()}")
    timed(command(options, slices, killed))
    same = checksums(whole) == checksums(killed)
    num_files = len(list(whole.iterdir()))
    for folder in (whole, killed):
        shutil.rmtree(folder)
    return {
        "identical": same,
        "num_files": num_files,
        "seconds": round(seconds, 1),
        "kills": kills,
    }


def workers(options: argparse.Namespace, slices: list[Path]) -> dict[str, Any]:
    variants = {"one_process_of_two_threads": ["--workers", "1"], "two_processes": ["--workers", "2"]}
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    folders = {name: options.work / name for name in variants}
    for repeat in range(options.repeats):
        for name in list(variants) if repeat % 2 else list(variants)[::-1]:
            shutil.rmtree(folders[name], ignore_errors=True)
            seconds[name].append(
                timed(command(options, slices, folders[name], "--threads", str(THREADS), *variants[name]))
            )
    same = len({json.dumps(checksums(folder)) for folder in folders.values()}) == 1
    for folder in folders.values():
        shutil.rmtree(folder)
    best = {name: round(min(repeats), 1) for name, repeats in seconds.items()}
    return {"identical": same, **{f"{name}_seconds": number for name, number in best.items()}}


def ray_workers(options: argparse.Namespace, slices: list[Path]) -> dict[str, Any]:
    local, cluster = options.work / "local", options.work / "cluster"
    for folder in (local, cluster):
        shutil.rmtree(folder, ignore_errors=True)
    seconds = timed(command(options, slices, local, "--workers", "2"))
    ray_seconds = timed(command(options, slices, cluster, "--workers", "2", "--engine", "ray"))
    same = checksums(local) == checksums(cluster)
    for folder in (local, cluster):
        shutil.rmtree(folder)
    return {"identical": same, "two_processes_seconds": round(seconds, 1), "ray_seconds": round(ray_seconds, 1)}


if __name__ == "__main__":
    main()
