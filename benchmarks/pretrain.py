"""Training throughput beside bilm-tf's own graph: the preset `small`, the same text, blocks of updates in turn.

The peer is simple_elmo's training module, in an environment made here. A token is one position of a row, which
both directions read. Each side makes its batches inside the time that is measured.
"""

import argparse
import contextlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from asking import AskedProcess

from elmo.config import EncoderConfig
from elmo.corpus.prepare import PrepareSettings, prepare_corpus
from elmo.corpus.prepared import VOCABULARY, PreparedCorpus
from elmo.heap import reuse_large_blocks
from elmo.pretrain.distributed import Processes
from elmo.pretrain.loop import train_step
from elmo.pretrain.run import Run
from elmo.pretrain.settings import PRESETS, TrainSettings
from elmo.pretrain.stream import MARK, WindowStream, read_ahead

# The peer never resets its state; the rest is its configuration already.
SETTINGS = replace(PRESETS["small"], reset_state="never")
TOKENS_PER_UPDATE = SETTINGS.num_rows * SETTINGS.num_steps
PEER = "bilm-tf"
SYNTHETIC_WORDS = 60_000  # different ones
SENTENCE_WORDS = 20


@dataclass(frozen=True)
class Block:
    """Some updates one after the other, and the loss per word of each."""

    seconds: float
    losses: list[float]


class Trainer(Protocol):
    def run(self, num_updates: int) -> Block: ...


class OurTrainer:
    """Our trainer without its checkpoints and metrics."""

    def __init__(self, corpus: PreparedCorpus, settings: TrainSettings) -> None:
        reuse_large_blocks()  # as `elmo train` does
        self._settings = settings
        self._run = Run(Path(), corpus, settings, validation=[], processes=Processes())
        self._run.state.objective.train()
        characters = self._run.config.characters
        assert characters is not None
        self._stream = WindowStream(
            corpus,
            num_rows=settings.num_rows,
            rows=range(settings.num_rows),
            num_steps=settings.num_steps,
            seed=settings.seed,
            max_characters=characters.max_characters,
            read_words=False,
            reset_at_sentences=settings.reset_state == "sentence",
        )
        self._num_words = len(corpus.vocabulary)

    def run(self, num_updates: int) -> Block:
        losses = []
        start = time.perf_counter()
        # A thread for each block: none of its batches is made while another trainer is measured.
        with contextlib.closing(read_ahead(self._stream)) as batches:  # type: ignore[type-var]
            for _ in range(num_updates):
                report = train_step(
                    self._run.state,
                    batches,
                    self._settings,
                    num_updates=self._run.num_updates,
                    num_words=self._num_words,
                )
                losses.append((report.left_to_right_loss + report.right_to_left_loss) / 2)
            seconds = time.perf_counter() - start
        return Block(seconds, losses)

    def mean_distinct_words(self, num_windows: int = 5) -> float:
        """Count the words a window's character network reads."""
        counts = []
        for _ in range(num_windows):
            char_ids = self._stream.next_batch().char_ids
            assert char_ids is not None
            counts.append(len(char_ids))
        return statistics.mean(counts)


class PeerTrainer:
    """simple_elmo's trainer in a process of its own (see bilm_tf_worker.py)."""

    def __init__(self, python: Path, folder: Path, given: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        order = folder / "worker.json"
        order.write_text(json.dumps({**given, "folder": str(folder)}))
        worker = Path(__file__).with_name("bilm_tf_worker.py")
        self._process = AskedProcess([str(python), str(worker), str(order)], folder / "worker.log")
        self.tensorflow = str(self._process.receive()["tensorflow"])

    def run(self, num_updates: int) -> Block:
        answer = self._process.send({"num_updates": num_updates})
        return Block(answer["seconds"], answer["losses"])

    def close(self) -> None:
        self._process.close()


@dataclass
class Measurement:
    """What a trainer did: while warming up, then in the blocks that count."""

    warm_up: Block
    blocks: list[Block] = field(default_factory=list)

    @property
    def losses(self) -> list[float]:
        """Of every update, from the first one on."""
        return [loss for block in (self.warm_up, *self.blocks) for loss in block.losses]

    @property
    def rates(self) -> list[float]:
        return [len(block.losses) * TOKENS_PER_UPDATE / block.seconds for block in self.blocks]

    @property
    def last_loss(self) -> float:
        return statistics.mean(self.blocks[-1].losses)

    @property
    def learns(self) -> bool:
        return all(map(math.isfinite, self.losses)) and self.last_loss < self.losses[0]


def peer_options(settings: TrainSettings) -> dict[str, Any]:
    """Say in bilm-tf's words what our settings say."""
    encoder, characters = settings.model.encoder, settings.model.characters
    assert isinstance(encoder, EncoderConfig)
    assert characters is not None
    return {
        "bidirectional": True,
        "char_cnn": {
            "activation": characters.activation,
            "embedding": {"dim": characters.embedding_dim},
            "filters": characters.filters,
            "max_characters_per_token": characters.max_characters,
            "n_characters": 261,  # without the id of padding, as in all training by bilm-tf
            "n_highway": characters.num_highways,
        },
        "dropout": settings.dropout,
        "lstm": {
            "cell_clip": encoder.cell_clip,
            "dim": encoder.cell_dim,
            "n_layers": encoder.num_layers,
            "proj_clip": encoder.projection_clip,
            "projection_dim": encoder.output_dim,
            "use_skip_connections": encoder.residual,
        },
        "all_clip_norm_val": settings.optimizer.clip_norm,
        "learning_rate": settings.optimizer.learning_rate,
        "n_epochs": 1_000_000,  # we say when it ends
        "batch_size": settings.num_rows,
        "unroll_steps": settings.num_steps,
        "n_negative_samples_batch": settings.num_samples,
    }


def make_environment(folder: Path) -> Path:
    """Give the Python of an environment with the peer in it, made only once."""
    python, finished = folder / "bin" / "python", folder / "finished"
    if not finished.is_file():
        print(f"making the peer's environment in {folder}", file=sys.stderr)
        install = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([*install, "tensorflow-cpu", "simple_elmo"], check=True)
        # Its dependencies would bring the other tensorflow beside tensorflow-cpu.
        subprocess.run([*install, "--no-deps", "tf_keras"], check=True)
        finished.touch()
    return python


def make_text(num_words: int) -> Iterator[str]:
    """Invent sentences whose words are as rare and as long as Zipf has them."""
    generator = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    words = []
    for rank in range(1, SYNTHETIC_WORDS + 1):
        length = int(generator.poisson(math.log2(rank) / 2.5)) + 2
        words.append("".join(letters[generator.geometric(0.12, length) % len(letters)]))
    shares = 1 / np.arange(1, SYNTHETIC_WORDS + 1)
    drawn = generator.choice(SYNTHETIC_WORDS, num_words, p=shares / shares.sum())
    for start in range(0, num_words, SENTENCE_WORDS):
        yield " ".join(words[number] for number in drawn[start : start + SENTENCE_WORDS])


def take_text(corpus: PreparedCorpus, num_words: int) -> Iterator[str]:
    """Give sentences from all over a corpus; words that hold a space are left out."""
    blocks = corpus.blocks()
    taken = 0
    for number in np.random.default_rng(0).permutation(len(blocks)):
        shard, start, stop = blocks[number]
        ids = np.asarray(corpus.shard(int(shard))[start:stop])
        for sentence in np.split(ids, np.flatnonzero(ids == MARK)[1:]):
            words = [word for word in corpus.words(sentence[1:]) if word.split() == [word]]
            taken += len(words)
            if words:
                yield " ".join(words)
        if taken >= num_words:
            return


def prepare_text(workdir: Path, source: Path | None, num_words: int) -> tuple[Path, PreparedCorpus]:
    """Write the text both trainers read, and prepare it for ours."""
    sentences, vocabulary = make_text(num_words), None
    if source is not None:
        sentences, vocabulary = take_text(PreparedCorpus.open(source), num_words), source / VOCABULARY
    text = workdir / "text.txt"
    text.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    settings = PrepareSettings(split="lines", split_on_spaces=True, vocabulary=vocabulary)
    return text, prepare_corpus([text], workdir / "corpus", settings, force=True)


def cpu_facts() -> dict[str, Any]:
    """Name the CPU and say whether it multiplies bfloat16 itself; torch releases that cannot tell say no."""
    told: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return {
        "cpu": told.get("cpu_name", platform.machine()),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "bfloat16": any(value for name, value in told.items() if "bf16" in name),
    }


def measure(trainers: dict[str, Trainer], *, warm_up: int, updates: int, repeats: int) -> dict[str, Measurement]:
    found = {name: Measurement(trainer.run(warm_up)) for name, trainer in trainers.items()}
    for repeat in range(repeats):
        for name, trainer in trainers.items():
            found[name].blocks.append(trainer.run(updates))
            print(f"{repeat + 1}/{repeats} {name}: {found[name].rates[-1]:.0f} tokens/s", file=sys.stderr)
    return found


def print_table(found: dict[str, Measurement]) -> None:
    peer = statistics.median(found[PEER].rates)
    print(f"{'trainer':16} {'tokens/s':>9} {'lowest':>8} {'highest':>8} {'ratio':>6} {'loss':>15}")
    for name, measurement in found.items():
        rates, losses = measurement.rates, f"{measurement.losses[0]:.2f} -> {measurement.last_loss:.2f}"
        median = statistics.median(rates)
        print(f"{name:16} {median:9.0f} {min(rates):8.0f} {max(rates):8.0f} {median / peer:6.2f} {losses:>15}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, help="made by elmo prepare; an invented text if not given")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()) / "elmo-benchmark")
    parser.add_argument("--words", type=int, default=400_000, help="of the text both read")
    parser.add_argument("--threads", type=int, default=2, help="of each trainer")
    parser.add_argument("--warm-up", type=int, default=3, help="updates before any that count")
    parser.add_argument("--updates", type=int, default=10, help="in one block")
    parser.add_argument("--repeats", type=int, default=7, help="blocks of each trainer")
    parser.add_argument(
        "--precision",
        choices=["float32", "bfloat16"],
        action="append",
        help="of ours; may be given twice; float32, and bfloat16 where the CPU has it, if not given",
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    workdir: Path = arguments.workdir.resolve()
    workdir.mkdir(parents=True, exist_ok=True)
    load_before, cpu = os.getloadavg()[0], cpu_facts()
    torch.set_num_threads(arguments.threads)
    python = make_environment(workdir / "peer-environment")
    text, corpus = prepare_text(workdir, arguments.corpus, arguments.words)
    precisions: list[Any] = arguments.precision or ["float32", "bfloat16"][: 1 + cpu["bfloat16"]]
    ours = {f"elmo {name}": OurTrainer(corpus, replace(SETTINGS, precision=name)) for name in precisions}
    given = {
        "options": peer_options(SETTINGS),
        "num_threads": arguments.threads,
        "text": str(text),
        "vocabulary": str(corpus.folder / VOCABULARY),
    }
    with contextlib.closing(PeerTrainer(python, workdir / "peer-run", given)) as peer:
        found = measure(
            {PEER: peer, **ours},
            warm_up=arguments.warm_up,
            updates=arguments.updates,
            repeats=arguments.repeats,
        )
    print_table(found)
    machine = {
        **cpu,
        "num_cores": os.cpu_count(),
        "num_threads": arguments.threads,
        "load_average": [round(load_before, 2), round(os.getloadavg()[0], 2)],
    }
    medians = {name: statistics.median(measurement.rates) for name, measurement in found.items()}
    result = {
        "benchmark": "pretrain",
        "tokens_per_second": {name: round(median, 1) for name, median in medians.items()},
        "ratio": {name: round(median / medians[PEER], 3) for name, median in medians.items()},
        "rates": {name: [round(rate, 1) for rate in value.rates] for name, value in found.items()},
        "losses": {name: [round(loss, 3) for loss in value.losses] for name, value in found.items()},
        "distinct_words_per_window": next(iter(ours.values())).mean_distinct_words(),
        "vocabulary_size": len(corpus.vocabulary),
        "text": "synthetic" if arguments.corpus is None else "corpus",
        "torch": torch.__version__,
        "tensorflow": peer.tensorflow,
        "machine": machine,
    }
    print(json.dumps(result))
    if idle := [name for name, measurement in found.items() if not measurement.learns]:
        sys.exit(f"The loss of {' and of '.join(idle)} is not finite or did not fall; measure more updates.")


if __name__ == "__main__":
    main()
