"""Compare training throughput with bilm-tf and another commit of ours: the same text, alternating blocks of updates.

The preset `small` is bilm-tf's configuration. The baseline is simple_elmo's training module, in an environment created
here. A token is one position of a row, processed in both directions. Each trainer runs in its own process, and the
time includes making its batches.
"""

import argparse
import contextlib
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from environments import OUR_SOURCE, check_out, make_tensorflow_environment
from generated_text import generate_text
from machine import Machine, multiplies_bfloat16
from worker import Worker, open_ours

from elmo.config import EncoderConfig
from elmo.corpus.prepare import prepare
from elmo.corpus.prepared import BOS_ID, VOCABULARY, PreparedCorpus
from elmo.pretrain.settings import PRESETS, TrainSettings

# bilm-tf never resets its state; the other settings of `small` are its configuration. It has no AdamW, so en-small is
# only compared with other commits.
CHANGES = {"small": {"reset_state": "never"}, "en-small": {}}
OURS, BEFORE, PEER = "elmo", "elmo before", "bilm-tf"


@dataclass(frozen=True)
class Block:
    """Consecutive updates, with the loss per word of each."""

    seconds: float
    losses: list[float]


@dataclass
class Measurement:
    """The blocks of a trainer: warm-up, then the measured ones."""

    tokens_per_update: int
    warm_up: Block
    blocks: list[Block] = field(default_factory=list)

    @property
    def losses(self) -> list[float]:
        """Return the loss of every update, in order."""
        return [loss for block in (self.warm_up, *self.blocks) for loss in block.losses]

    @property
    def rates(self) -> list[float]:
        return [len(block.losses) * self.tokens_per_update / block.seconds for block in self.blocks]

    @property
    def median(self) -> float:
        return statistics.median(self.rates)

    @property
    def last_loss(self) -> float:
        return statistics.mean(self.blocks[-1].losses)

    @property
    def learns(self) -> bool:
        return all(map(math.isfinite, self.losses)) and self.last_loss < self.losses[0]


def peer_options(settings: TrainSettings) -> dict[str, Any]:
    """Translate our settings into bilm-tf's options."""
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
        "n_epochs": 1_000_000,  # stopped from outside
        "batch_size": settings.num_rows,
        "unroll_steps": settings.num_steps,
        "n_negative_samples_batch": settings.num_samples,
    }


def take_text(corpus: PreparedCorpus, num_words: int) -> Iterator[str]:
    """Yield sentences from all parts of a corpus, without words that contain a space."""
    blocks = corpus.blocks()
    taken = 0
    for number in np.random.default_rng(0).permutation(len(blocks)):
        shard, start, stop = blocks[number]
        ids = np.asarray(corpus.shard(int(shard))[start:stop])
        for sentence in np.split(ids, np.flatnonzero(ids == BOS_ID)[1:]):
            words = [word for word in corpus.words(sentence[1:]) if word.split() == [word]]
            taken += len(words)
            if words:
                yield " ".join(words)
        if taken >= num_words:
            return


def prepare_text(workdir: Path, source: Path | None, num_words: int) -> tuple[Path, PreparedCorpus]:
    """Write the text for all trainers, and prepare it for ours."""
    sentences, vocabulary = generate_text(num_words), None
    if source is not None:
        sentences, vocabulary = take_text(PreparedCorpus.open(source), num_words), source / VOCABULARY
    text = workdir / "text.txt"
    text.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    return text, prepare(
        [text], workdir / "corpus", split="lines", split_on_spaces=True, vocabulary=vocabulary, force=True
    )


def open_trainers(
    arguments: argparse.Namespace, settings: TrainSettings, text: Path, corpus: PreparedCorpus
) -> Iterator[tuple[str, Worker]]:
    workdir: Path = arguments.workdir
    precisions = arguments.precision or ["float32", "bfloat16"][: 1 + multiplies_bfloat16()]
    sources = {OURS: OUR_SOURCE}
    if arguments.before:
        sources[BEFORE] = check_out(arguments.before, workdir)
    for program, source in sources.items():
        for precision in precisions:
            options = {
                "corpus": str(corpus.folder),
                "preset": arguments.preset,
                "changes": {**CHANGES[arguments.preset], "precision": precision},
                "num_threads": arguments.threads,
            }
            name = f"{program} {precision}"
            yield name, open_ours("trainer_worker.py", options, workdir, name=name, source=source)
    if arguments.preset == "small":
        python = make_tensorflow_environment(workdir / "tensorflow-environment")
        folder = workdir / "bilm-tf-run"
        folder.mkdir(exist_ok=True)
        options = {
            "options": peer_options(settings),
            "num_threads": arguments.threads,
            "text": str(text),
            "vocabulary": str(corpus.folder / VOCABULARY),
            "folder": str(folder),
        }
        yield PEER, Worker("bilm_tf_worker.py", options, workdir / f"{PEER}.log", python=python)


def measure(
    trainers: dict[str, Worker], *, tokens_per_update: int, warm_up: int, updates: int, repeats: int
) -> dict[str, Measurement]:
    def train(trainer: Worker, num_updates: int) -> Block:
        return Block(**trainer.ask("train", num_updates=num_updates)["result"])

    measurements = {name: Measurement(tokens_per_update, train(trainer, warm_up)) for name, trainer in trainers.items()}
    for repeat in range(repeats):
        for name, trainer in trainers.items():
            measurements[name].blocks.append(train(trainer, updates))
            print(f"{repeat + 1}/{repeats} {name}: {measurements[name].rates[-1]:.0f} tokens/s", file=sys.stderr)
    return measurements


def ratios(name: str, measurements: dict[str, Measurement]) -> dict[str, float]:
    """Return the speed relative to bilm-tf and, for our rows, to the other commit in the same precision."""
    others = {PEER: PEER}
    if name.startswith(OURS) and not name.startswith(BEFORE):
        others["before"] = name.replace(OURS, BEFORE, 1)
    return {
        title: measurements[name].median / measurements[other].median
        for title, other in others.items()
        if other in measurements
    }


def print_table(preset: str, measurements: dict[str, Measurement]) -> None:
    columns = {PEER: f"/{PEER}", "before": "/before"}
    heads = "".join(f"{head:>9}" for head in columns.values())
    print(f"{preset:24}{'tokens/s':>9}{'lowest':>9}{'highest':>9}{heads}{'loss':>17}")
    for name, measurement in measurements.items():
        rates, losses = measurement.rates, f"{measurement.losses[0]:.2f} -> {measurement.last_loss:.2f}"
        times = ratios(name, measurements)
        cells = "".join(f"{times[title]:9.2f}" if title in times else f"{'-':>9}" for title in columns)
        numbers = "".join(f"{rate:9,.0f}" for rate in (measurement.median, min(rates), max(rates)))
        print(f"{name:24}{numbers}{cells}{losses:>17}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--preset", choices=list(CHANGES), default="small", help="small is compared with bilm-tf")
    parser.add_argument("--corpus", type=Path, help="written by elmo prepare; default: generated text")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()) / "elmo-benchmark")
    parser.add_argument("--before", metavar="COMMIT", help="another commit of this project to compare with")
    parser.add_argument("--words", type=int, default=400_000, help="size of the text for all trainers")
    parser.add_argument("--threads", type=int, default=2, help="threads of each trainer")
    parser.add_argument("--warm-up", type=int, default=3, help="updates before measuring")
    parser.add_argument("--updates", type=int, default=10, help="updates per block")
    parser.add_argument("--repeats", type=int, default=7, help="blocks per trainer")
    parser.add_argument(
        "--precision",
        choices=["float32", "bfloat16"],
        action="append",
        help="of our trainer; may be repeated; default: float32, and bfloat16 if the CPU supports it",
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    arguments.workdir = arguments.workdir.resolve()
    arguments.workdir.mkdir(parents=True, exist_ok=True)
    machine, settings = Machine(arguments.threads), PRESETS[arguments.preset]
    text, corpus = prepare_text(arguments.workdir, arguments.corpus, arguments.words)
    with contextlib.ExitStack() as stack:
        trainers = {}
        for name, trainer in open_trainers(arguments, settings, text, corpus):
            trainers[name] = trainer
            stack.callback(trainer.close)
        measurements = measure(
            trainers,
            tokens_per_update=settings.num_rows * settings.num_steps,
            warm_up=arguments.warm_up,
            updates=arguments.updates,
            repeats=arguments.repeats,
        )
        first = next(iter(trainers.values()))
        distinct_words = first.ask("mean_distinct_words", num_windows=5)["result"]
        tensorflow = trainers[PEER].described["tensorflow"] if PEER in trainers else None
    print_table(arguments.preset, measurements)
    print(f"\n{machine}")
    result = {
        "benchmark": "pretrain",
        "preset": arguments.preset,
        "before": arguments.before,
        "trainers": {
            name: {
                "tokens_per_second": round(measurement.median, 1),
                "ratio": {title: round(value, 3) for title, value in ratios(name, measurements).items()},
                "rates": [round(rate, 1) for rate in measurement.rates],
                "losses": [round(loss, 3) for loss in measurement.losses],
            }
            for name, measurement in measurements.items()
        },
        "distinct_words_per_window": distinct_words,
        "vocabulary_size": len(corpus.vocabulary),
        "text": "generated" if arguments.corpus is None else "corpus",
        "tensorflow": tensorflow,
        "machine": machine.describe(),
    }
    print(json.dumps(result))
    if idle := [name for name, measurement in measurements.items() if not measurement.learns]:
        sys.exit(f"The loss of {' and of '.join(idle)} is not finite or did not fall; measure more updates.")


if __name__ == "__main__":
    main()
