"""Compare throughput and latency with AllenNLP, simple_elmo, BERT-base and MiniLM-L6.

Every program runs in its own process (see *_worker.py), opened once. All process the same sentences in turn, and
medians are reported. `full` and `small` have random weights in the official layout, en-small is the included model.
Our word cache is empty at the start of each measurement.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from environments import OUR_SOURCE, check_out, find_minilm, make_tensorflow_environment, make_torch_environment
from generated_text import generate_text
from inference_picture import draw
from machine import Machine, multiplies_bfloat16
from worker import Worker, open_ours

from elmo import Elmo
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig
from elmo.inference.layers import cosine
from elmo.text.tokenize import split_sentences, tokenize

# None: the included model.
SIZES: dict[str, ModelConfig | None] = {
    "full": ModelConfig(),
    "small": ModelConfig(
        encoder=EncoderConfig(cell_dim=1024, output_dim=128), characters=CharacterConfig(num_highways=1)
    ),
    "en-small": None,
}
PRECISIONS = ("float32", "bfloat16", "int8", "auto")
MODES = ("single", "bulk")
OURS, BEFORE, ALLENNLP, MINILM, BERT = "elmo", "elmo before", "allennlp", "minilm-l6", "bert-base"
MINILM_REFERENCE = f"{MINILM} torch float32"
BATCH_SIZE = 64  # of AllenNLP and simple_elmo, in bulk
TRANSFORMER_BATCH_SIZE = 16  # 10 to 35% faster than 64, in torch and in onnxruntime
NUM_COMPARED = 8  # sentences
HERE = Path(__file__).parent
PACKAGE_MODEL = Path("elmo", "models", "en-small")


@dataclass(frozen=True)
class SavedModel:
    """The same weights in our format and in the format of AllenNLP and simple_elmo."""

    ours: Path | None  # None: the included model of each commit, in its own format
    theirs: Path
    config: ModelConfig


@dataclass
class Measured:
    """Measurements of a program: the seconds of each repeat, and the hit rate of our word cache in bulk."""

    opening_seconds: float
    seconds: dict[str, list[float]] = field(default_factory=lambda: {mode: [] for mode in MODES})
    hit_rate: float | None = None


@dataclass(frozen=True)
class Results:
    """The measurements of all programs on the same sentences."""

    programs: dict[str, Measured]
    num_words: dict[str, int]  # by mode
    num_single: int  # sentences

    def rate(self, name: str, mode: str) -> float:
        """Return the median of words per second."""
        return self.num_words[mode] / statistics.median(self.programs[name].seconds[mode])

    def milliseconds(self, name: str) -> float:
        """Return the median over repeats of the mean latency of a single sentence."""
        return 1000 * statistics.median(self.programs[name].seconds["single"]) / self.num_single

    def best(self, prefix: str, mode: str) -> float | None:
        """Return the highest rate of programs whose name starts with the prefix, or None."""
        return max((self.rate(name, mode) for name in self.programs if name.startswith(prefix)), default=None)

    def ratios(self, name: str, mode: str) -> dict[str, float]:
        """Return the speed relative to AllenNLP, the fastest MiniLM and, for our rows, the other commit.

        `before` is the same precision of the other commit, `best before` its fastest one.
        """
        others = {"allennlp": self.best(ALLENNLP, mode), "best minilm": self.best(MINILM, mode)}
        if name.startswith(OURS) and not name.startswith(BEFORE):
            precision = name.removeprefix(f"{OURS} ")
            others["before"] = self.best(f"{BEFORE} {precision}", mode)
            others["best before"] = self.best(BEFORE, mode)
        rate = self.rate(name, mode)
        return {other: rate / value for other, value in others.items() if value is not None}


def save_model(folder: Path, size: str) -> SavedModel:
    theirs, config = folder / f"{size}-hdf5", SIZES[size]
    if config is None:
        model = Elmo.from_pretrained()
        model.save_pretrained(theirs, format="hdf5")
        return SavedModel(None, theirs, model.config)
    ours = folder / size
    if not ours.is_dir() or not theirs.is_dir():
        model = Elmo.from_config(config)
        model.save_pretrained(theirs, format="hdf5")
        model.save_pretrained(ours)
    return SavedModel(ours, theirs, config)


def export_minilm(python: Path, folder: Path, minilm: Path) -> Path:
    """Return the folder of MiniLM's ONNX files, exported once per version of onnx_export.py."""
    script, finished = HERE / "onnx_export.py", folder / "finished"
    if not finished.is_file() or finished.read_text() != script.read_text():
        print(f"exporting MiniLM-L6 to {folder}", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(python), "-W", "ignore", str(script), str(minilm), str(folder)]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        if completed.returncode:
            sys.exit(f"MiniLM-L6 could not be exported:\n{completed.stderr[-2000:]}")
        finished.write_text(script.read_text())
    return folder


def read_sentences(path: Path | None, num_sentences: int) -> list[list[str]]:
    """Return sentences of a text, or generated ones."""
    if path is None:
        return [line.split() for line in generate_text(num_sentences * 24)][:num_sentences]
    sentences: list[list[str]] = []
    for sentence in split_sentences(path.read_text(encoding="utf-8")):
        words = [word.text for word in tokenize(sentence)]
        if len(words) > 2:
            sentences.append(words)
        if len(sentences) == num_sentences:
            return sentences
    sys.exit(f"{path} has {len(sentences)} sentences, but {num_sentences} are needed; give a longer text.")


def open_programs(arguments: argparse.Namespace, size: str, model: SavedModel) -> Iterator[tuple[str, Worker]]:
    """Open the programs one by one, ours first; skip precisions that this machine does not support."""
    workdir: Path = arguments.workdir
    threads = {"num_threads": arguments.threads}

    def open_peer(name: str, python: Path, script: str, **options: Any) -> tuple[str, Worker]:
        return name, Worker(script, {**options, **threads}, workdir / f"{name.replace(' ', '-')}.log", python=python)

    sources = {OURS: OUR_SOURCE}
    if arguments.before:
        sources[BEFORE] = check_out(arguments.before, workdir)
    for program, source in sources.items():
        for precision in arguments.precision or PRECISIONS:
            folder = source / PACKAGE_MODEL if model.ours is None else model.ours
            name, options = f"{program} {precision}", {"folder": str(folder), "precision": precision, **threads}
            worker = open_ours("elmo_worker.py", options, workdir, name=name, source=source)
            used = worker.described["precision"]
            if precision in ("auto", used):
                yield name, worker
            else:
                print(f"{name} is skipped: this machine would run it in {used}", file=sys.stderr)
                worker.close()
    python = make_torch_environment(workdir / "torch-environment")
    theirs = {"options": str(model.theirs / "options.json"), "weights": str(model.theirs / "weights.hdf5")}
    yield open_peer(ALLENNLP, python, "allennlp_worker.py", **theirs)
    if arguments.only_allennlp:
        return
    minilm = find_minilm(python)
    files = export_minilm(python, workdir / "minilm-onnx", minilm)
    peer_precisions = ["float32", "bfloat16"][: 1 + multiplies_bfloat16()]
    for precision in peer_precisions:
        options = {"folder": str(minilm), "precision": precision, "random": False}
        yield open_peer(f"{MINILM} torch {precision}", python, "transformers_worker.py", **options)
    for precision in ("float32", "int8"):
        options = {"folder": str(minilm), "file": str(files / f"{precision}.onnx")}
        yield open_peer(f"{MINILM} onnx {precision}", python, "onnx_worker.py", **options)
    if size == "en-small":
        return  # the other programs are compared with larger models
    for precision in peer_precisions:
        options = {"folder": str(minilm), "precision": precision, "random": True}
        yield open_peer(f"{BERT} torch {precision}", python, "transformers_worker.py", **options)
    tensorflow = make_tensorflow_environment(workdir / "tensorflow-environment")
    options = {"folder": str(model.theirs), "batch_size": BATCH_SIZE}
    yield open_peer("simple_elmo", tensorflow, "simple_elmo_worker.py", **options)


def compare(workers: dict[str, Worker], sentences: list[list[str]], workdir: Path) -> dict[str, dict[str, float]]:
    """Compare vectors before timing: ours with AllenNLP, MiniLM's with torch in float32."""
    references = {OURS: ALLENNLP, MINILM: MINILM_REFERENCE}
    arrays: dict[str, list[npt.NDArray[np.float32]]] = {}

    def layers(name: str) -> list[npt.NDArray[np.float32]]:
        """Return an array (layers, words or pieces, dimensions) per sentence."""
        if name not in arrays:
            path = workdir / f"{name.replace(' ', '-')}.npz"
            workers[name].ask("save_layers", sentences=sentences, path=str(path))
            with np.load(path) as file:
                arrays[name] = [file[key] for key in file.files]
            path.unlink()
        return arrays[name]

    report = {}
    for name in workers:
        reference = references.get(name.split()[0])
        if reference is None or name == reference:
            continue
        pairs = list(zip(layers(name), layers(reference), strict=True))
        near = np.concatenate([cosine(one, other) for one, other in pairs], axis=1).mean(axis=1)
        difference = max(float(np.abs(one - other).max()) for one, other in pairs)
        report[name] = {"difference": difference, "least_cosine": float(near.min())}
        if not _is_near(name, **report[name]):
            sys.exit(f"The vectors of {name} are not those of {reference}: {report[name]}.")
    return report


def _is_near(name: str, *, difference: float, least_cosine: float) -> bool:
    """Return whether vectors are close enough; least_cosine is the mean over words in the worst layer."""
    is_float32 = name.endswith("float32")
    if name.startswith(OURS):
        return difference < 1e-4 if is_float32 else least_cosine > 0.999
    return least_cosine > (0.9999 if is_float32 else 0.95)


def measure(
    workers: dict[str, Worker], texts: dict[str, list[list[str]]], *, repeats: int, transformer_batch_size: int
) -> Results:
    """Time all programs on single sentences, then in bulk, for each repeat, one program at a time."""

    def embed(name: str, mode: str, sentences: list[list[str]]) -> dict[str, Any]:
        batch_size = transformer_batch_size if name.startswith((MINILM, BERT)) else BATCH_SIZE
        return workers[name].ask("embed", sentences=sentences, batch_size=1 if mode == "single" else batch_size)

    results = Results(
        {name: Measured(worker.opening_seconds) for name, worker in workers.items()},
        {mode: sum(map(len, texts[mode])) for mode in MODES},
        len(texts["single"]),
    )
    for name in workers:
        for mode in MODES:
            embed(name, mode, texts[mode][: 2 if mode == "single" else BATCH_SIZE])
    for repeat in range(repeats):
        for mode in MODES:
            for name, measured in results.programs.items():
                response = embed(name, mode, texts[mode])
                measured.seconds[mode].append(response["seconds"])
                measured.hit_rate = response["result"]
                rate = results.num_words[mode] / response["seconds"]
                print(f"{repeat + 1}/{repeats} {name} {mode}: {rate:.0f} words/s", file=sys.stderr)
    return results


def print_table(size: str, results: Results) -> None:
    others = {"allennlp": "/allennlp", "best minilm": "/minilm", "before": "/before"}
    heads = "".join(f"{head:>10}" for head in others.values())
    print(f"{'':26}{'one by one':>20}{'':30}{'in bulk':>10}")
    print(f"{size:26}{'ms':>10}{'words/s':>10}{heads}{'words/s':>10}{heads}{'opened in':>12}")
    for name, measured in results.programs.items():
        cells = [f"{results.milliseconds(name):10.2f}"]
        for mode in MODES:
            ratios = results.ratios(name, mode)
            cells.append(f"{results.rate(name, mode):10,.0f}")
            cells += [f"{ratios[other]:10.2f}" if other in ratios else f"{'-':>10}" for other in others]
        print(f"{name:26}{''.join(cells)}{measured.opening_seconds:10.1f} s")


def summarize(results: Results) -> dict[str, Any]:
    """Return the JSON summary of one size."""
    return {
        name: {
            "milliseconds_per_sentence": round(results.milliseconds(name), 3),
            "words_per_second": {mode: round(results.rate(name, mode), 1) for mode in MODES},
            "ratio": {
                mode: {other: round(value, 2) for other, value in results.ratios(name, mode).items()} for mode in MODES
            },
            "rates": {
                mode: [round(results.num_words[mode] / seconds, 1) for seconds in measured.seconds[mode]]
                for mode in MODES
            },
            "opening_seconds": round(measured.opening_seconds, 2),
            **({} if measured.hit_rate is None else {"hit_rate": round(measured.hit_rate, 3)}),
        }
        for name, measured in results.programs.items()
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--text", type=Path, help="UTF-8 text file; generated if not given")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()) / "elmo-benchmark")
    parser.add_argument("--size", choices=list(SIZES), action="append", help="may be repeated; default: all")
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        action="append",
        help="precision of our programs; may be repeated; default: all available",
    )
    parser.add_argument("--before", metavar="COMMIT", help="another commit of this project to compare with")
    parser.add_argument("--threads", type=int, default=2, help="threads of each program")
    parser.add_argument("--single", type=int, default=40, help="number of sentences for latency")
    parser.add_argument("--bulk", type=int, default=512, help="number of sentences for throughput")
    parser.add_argument(
        "--transformer-batch-size",
        type=int,
        default=TRANSFORMER_BATCH_SIZE,
        help=f"batch size of MiniLM and BERT in bulk; the other libraries use {BATCH_SIZE}",
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only-allennlp", action="store_true", help="skip the other libraries")
    parser.add_argument("--plot", type=Path, help="write a plot of the results")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    arguments.workdir = arguments.workdir.resolve()
    (arguments.workdir / "models").mkdir(parents=True, exist_ok=True)
    machine = Machine(arguments.threads)
    sentences = read_sentences(arguments.text, arguments.single + arguments.bulk)
    texts = {"single": sentences[: arguments.single], "bulk": sentences[arguments.single :]}
    results, summaries, titles = {}, {}, {}
    for size in arguments.size or SIZES:
        model = save_model(arguments.workdir / "models", size)
        with contextlib.ExitStack() as stack:
            workers = {}
            for name, worker in open_programs(arguments, size, model):
                workers[name] = worker
                stack.callback(worker.close)
            vectors = compare(workers, texts["single"][:NUM_COMPARED], arguments.workdir)
            results[size] = measure(
                workers,
                texts,
                repeats=arguments.repeats,
                transformer_batch_size=arguments.transformer_batch_size,
            )
            described = {name: worker.described for name, worker in workers.items()}
        print_table(size, results[size])
        print()
        encoder = model.config.encoder
        titles[size] = f"{size}: {encoder.cell_dim} cells, {encoder.output_dim} dimensions per direction"
        summaries[size] = {
            "programs": summarize(results[size]),
            "auto": {
                name: description["precision"] for name, description in described.items() if name.endswith(" auto")
            },
            "vectors": vectors,
        }
    print(machine)
    if arguments.plot:
        draw(arguments.plot, results, titles, machine, arguments.before)
    summary = {
        "benchmark": "inference",
        "sizes": summaries,
        "before": arguments.before,
        "num_sentences": {mode: len(texts[mode]) for mode in MODES},
        "batch_size": {"transformers": arguments.transformer_batch_size, "other peers": BATCH_SIZE},
        "mean_words": round(sum(map(len, sentences)) / len(sentences), 1),
        "text": "generated" if arguments.text is None else arguments.text.name,
        "machine": machine.describe(),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
