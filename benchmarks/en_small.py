"""Run the evaluation of a model card: perplexity, senses, parts of speech, similarity, neighbors, speed.

    python benchmarks/en_small.py MODEL DATA OUTPUT --sense-index index.sense
    python benchmarks/en_small.py MODEL DATA OUTPUT --only senses,tagging --threads 1

Every number comes from a command of the project, run with --json. The outputs are kept in OUTPUT, so an interrupted
run can continue; use one folder per model. DATA contains corpus/ and tasks/. index.sense is from WordNet (Debian
package wordnet-sense-index). Writes report.md and prints it, followed by one JSON line.
"""

import argparse
import json
import lzma
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from elmo.files.durable import replace_file
from elmo.text.tokenize import split_sentences

PLAYS = ("Chico Ruiz made a spectacular [play] on the ground ball", "She signed to do a Broadway [play]")
BANKS = (
    "I went to the [bank] to deposit money",
    "I deposited cash in the [bank]",
    "I sat by the [bank] of the river",
)
NUM_PLAYS = 3000


def list_commands(data: Path, output: Path, sense_index: str, max_sense_words: int) -> dict[str, list[str]]:
    """Return the commands by the name of their result."""
    corpus, tasks, plays = data / "corpus", data / "tasks", output / "plays.txt"
    wikipedia, books = str(corpus / "wikipedia_en.valid.txt"), str(corpus / "books_en.valid.txt")
    senses = ["--train", f"{tasks}/wsd/semcor.data.xml.xz", "--test", f"{tasks}/wsd/all.data.xml"]
    tags = ["--train", f"{tasks}/pos/ewt-train.conllu", "--test", f"{tasks}/pos/ewt-test.conllu"]
    near = ["--corpus", str(plays), "--split", "lines", "--match", "same", "--top-k", "5"]
    limit = ["--max-train-words", str(max_sense_words)]
    pairs = ["--column", "first=1", "--column", "second=2", "--column", "label=3"]
    return {
        "banks": ["similarity", *BANKS],
        "banks_by_layer": ["similarity", *BANKS, "--by-layer"],
        "play_game": ["neighbors", PLAYS[0], *near],
        "play_stage": ["neighbors", PLAYS[1], *near],
        "similarity": ["probe", "similarity", "--test", f"{tasks}/similarity/stsb-test.csv", *pairs],
        "tagging": ["probe", "tagging", *tags, "--column", "tag=xpos", "--max-train-words", "50000"],
        "senses": ["probe", "senses", *senses, "--sense-index", sense_index, *limit],
        "wikipedia_sentences": ["evaluate", wikipedia, "--split", "sentences"],
        "books_sentences": ["evaluate", books, "--split", "sentences"],
        "wikipedia_lines": ["evaluate", wikipedia],
        "speed": ["bench"],
    }


def gather_plays(corpus: Path, output: Path) -> None:
    """Write the first sentences of the training text that contain the word "play", one per line."""
    sentences: list[str] = []
    with lzma.open(corpus / "wikipedia_en.train.txt.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            if re.search(r"\bplay\b", line):
                sentences += [" ".join(text.split()) for text in split_sentences(line) if re.search(r"\bplay\b", text)]
            if len(sentences) >= NUM_PLAYS:
                break
    replace_file(output, "".join(f"{text}\n" for text in sentences[:NUM_PLAYS]).encode())


def complete(command: list[str], model: str) -> list[str]:
    """Return the command-line arguments of `elmo`."""
    return [*command, "--model", model, "--json"]


def run(name: str, command: list[str], model: str, output: Path, threads: str | None) -> None:
    """Run a command and store its output."""
    kept = output / f"{name}.json"
    if kept.exists():
        return
    environment = {**os.environ, "OMP_NUM_THREADS": threads} if threads else None
    started = time.perf_counter()
    print(f"{name} ...", end="", file=sys.stderr, flush=True)
    ended = subprocess.run(
        [sys.executable, "-m", "elmo", *complete(command, model)],
        stdout=subprocess.PIPE,
        check=True,
        env=environment,
    )
    print(f" {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    replace_file(kept, ended.stdout)


def report(results: dict[str, Any]) -> str:
    """Return Markdown tables of the results so far."""
    parts = [
        _perplexities(results),
        _probes(results),
        _similarity(results),
        _banks(results),
        *(_neighbors(results[name]) for name in ("play_game", "play_stage") if name in results),
        _speed(results),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _perplexities(results: dict[str, Any]) -> list[str]:
    names = {"wikipedia": "Wikipedia, held out", "books": "books, held out"}
    rows = []
    for unit in ("sentences", "lines"):
        for name, title in names.items():
            if result := results.get(f"{name}_{unit}"):
                rows.append(
                    f"| {title} | {unit}: {result['num_sentences']:,} | {result['num_words']:,} | "
                    f"{result['unknown_rate']:.1%} | {result['perplexity']:.1f} | "
                    f"{result['left_to_right_perplexity']:.1f} | {result['right_to_left_perplexity']:.1f} |"
                )
    head = "| text | split into | words | unknown | perplexity | left to right | right to left |"
    return [head, "|---|---|---:|---:|---:|---:|---:|", *rows] if rows else []


def _probes(results: dict[str, Any]) -> list[str]:
    titles = {"tagging": ("part of speech, EWT", "tag"), "senses": ("word senses, ALL", "senses")}
    measured = {name: _scores(results[name], key) for name, (_, key) in titles.items() if name in results}
    features = list(dict.fromkeys(name for scores in measured.values() for name in scores))
    lines = [
        "| | " + " | ".join(titles[name][0] for name in measured) + " |",
        "|---" + "|---:" * len(measured) + "|",
    ]
    for name in sorted(features, key=lambda name: "most" not in name and "first" not in name):
        lines.append(f"| {name} | " + " | ".join(scores.get(name, "") for scores in measured.values()) + " |")
    return lines if measured else []


def _similarity(results: dict[str, Any]) -> list[str]:
    if "similarity" not in results:
        return []
    pearson, spearman = (_scores(results["similarity"], name) for name in ("pearson", "spearman"))
    rows = [f"| {features} | {score} | {spearman[features]} |" for features, score in pearson.items()]
    return ["| STS benchmark, test | Pearson | Spearman |", "|---|---:|---:|", *rows]


def _scores(result: dict[str, Any], name: str) -> dict[str, str]:
    rows = {row["name"]: row["scores"][name] for row in result["rows"]}
    return {
        features: f"{score['mean']:.1f}" + (f" ± {score['spread']:.1f}" if score["spread"] is not None else "")
        for features, score in rows.items()
    }


def _banks(results: dict[str, Any]) -> list[str]:
    if not {"banks", "banks_by_layer"} <= set(results):
        return []
    names = {(0, 1): "money ~ money", (0, 2): "money ~ river", (1, 2): "cash ~ river"}
    by_layer = {(pair["a"], pair["b"]): pair["cosine_by_layer"] for pair in results["banks_by_layer"]["pairs"]}
    mean = {(pair["a"], pair["b"]): pair["cosine"] for pair in results["banks"]["pairs"]}
    heads = [f"layer {number}" for number in range(len(by_layer[0, 1]))]
    lines = [f'| "bank" | by default | {" | ".join(heads)} |', "|---|---:" + "|---:" * len(heads) + "|"]
    for key, name in names.items():
        cells = " | ".join(f"{cosine:.3f}" for cosine in (mean[key], *by_layer[key]))
        lines.append(f"| {name} | {cells} |")
    return lines


def _neighbors(results: dict[str, Any]) -> list[str]:
    query = " ".join(results["query"]["words"])
    static = ", ".join(neighbor["word"] for neighbor in results["static"][:8])
    lines = [f"| {query} | among {results['num_occurrences']:,} |", "|---|---|", f"| layer 0 | {static} |"]
    for layer in results["layers"]:
        for neighbor in layer["neighbors"]:
            lines.append(f"| layer {layer['layer']}, {neighbor['cosine']:.2f} | {_shorten(neighbor)} |")
    return lines


def _shorten(neighbor: dict[str, Any], num_characters: int = 48) -> str:
    left, word, right = re.split(r"\b(play)\b", neighbor["text"], maxsplit=1, flags=re.IGNORECASE)
    left = f"…{left[-num_characters:]}" if len(left) > num_characters else left
    right = f"{right[:num_characters]}…" if len(right) > num_characters else right
    return f"{left}**{word}**{right}".replace("|", " ")


def _speed(results: dict[str, Any]) -> list[str]:
    if "speed" not in results:
        return []
    rows = [
        f"| {row['precision']} | {row['at_once']:,} | {row['words_per_second']:,.0f} |"
        for row in results["speed"]["measurements"]
    ]
    threads = results["speed"]["num_threads"]
    return [f"| {threads} thread(s) | sentences at once | words/s |", "|---|---:|---:|", *rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--sense-index", default="/usr/share/wordnet/index.sense")
    parser.add_argument("--max-sense-words", type=int, default=1_000_000, help="maximum number of words from SemCor")
    parser.add_argument("--only", help="comma-separated names; default: all")
    parser.add_argument("--threads", help="number of torch threads in every command")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    commands = list_commands(options.data, options.output, options.sense_index, options.max_sense_words)
    chosen = options.only.split(",") if options.only else list(commands)
    if unknown := set(chosen) - set(commands):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(commands)}")
    for name in chosen:
        if name.startswith("play") and not (options.output / "plays.txt").exists():
            gather_plays(options.data / "corpus", options.output / "plays.txt")
        run(name, commands[name], options.model, options.output, options.threads)
    files = {name: options.output / f"{name}.json" for name in commands}
    results = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    table = report(results)
    replace_file(options.output / "report.md", table.encode())
    print(table)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
