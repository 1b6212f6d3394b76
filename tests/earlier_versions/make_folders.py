"""Write folders of every kind with an earlier version of elmo, and beside them what that version answered.

Run it in a checkout of that version, whose `src` must come first on the path:

    PYTHONPATH=src python .../tests/earlier_versions/make_folders.py .../tests/earlier_versions/bbefda1

It uses only what commit bbefda1 has; modules that no longer exist are imported where they are used, because
test_earlier_versions.py, which reads the folders with today's code, takes the lists below from here.
"""

import dataclasses
import json
import os
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo import Elmo, tasks
from elmo.cli import main
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, SoftmaxConfig, TransformerConfig, WordConfig

PLACE = "@FOLDER@"  # stands for the absolute path of the folder in records that name their inputs
VOCABULARY = ("<S>", "</S>", "<UNK>", "the", "bank", "river", "I", "went", "to", ".", "money", "sells", "a")
SENTENCES = [["I", "went", "to", "the", "bank", "."], ["the", "Fluss", "sells", "ünïcode"], ["a"]]
CHARACTERS = CharacterConfig(filters=((1, 3), (2, 4), (3, 5)), embedding_dim=4, num_highways=1)
LSTM = EncoderConfig(num_layers=2, cell_dim=12, output_dim=8)
CONFIGS = {
    "characters": ModelConfig(encoder=LSTM, characters=CHARACTERS, softmax=SoftmaxConfig(len(VOCABULARY))),
    "words": ModelConfig(
        encoder=dataclasses.replace(LSTM, num_layers=1, cell_dim=8, projected=False, cell_clip=None),
        characters=None,
        words=WordConfig(len(VOCABULARY), 5),
        softmax=SoftmaxConfig(len(VOCABULARY), shared=False),
    ),
    "both": ModelConfig(
        encoder=dataclasses.replace(LSTM, residual=False),
        characters=dataclasses.replace(CHARACTERS, activation="tanh"),
        words=WordConfig(len(VOCABULARY), 3),
    ),
    "transformer": ModelConfig(
        encoder=TransformerConfig(num_layers=2, output_dim=8, num_heads=2, feed_forward_dim=12, context=3),
        characters=CHARACTERS,
        softmax=SoftmaxConfig(len(VOCABULARY)),
    ),
}
VECTOR_JOBS: dict[str, list[str]] = {
    "words-parquet": ["embed"],
    "words-npy-float16-all-layers": ["embed", "--file-format", "npy", "--dtype", "float16", "--layers", "all"],
    "words-hdf5-int8": ["embed", "--file-format", "hdf5", "--dtype", "int8", "--layers", "top"],
    "only-parquet-float16": ["embed", "--only", "bank", "--dtype", "float16"],
    "spans-npy": ["embed", "--spans", "spans", "--file-format", "npy"],
    "sentences-parquet-int8": ["encode", "--dtype", "int8", "--pooling", "max"],
    "sentences-npy": ["encode", "--file-format", "npy", "--normalize", "--pooling", "mean"],
    "sentences-hdf5-concat": ["encode", "--file-format", "hdf5", "--layers", "concat", "--pooling", "mean"],
}
JOB_OPTIONS = ["-m", "models/characters", "--part-bytes", "120", "--on-error", "reject", "--workers", "1"]
TRAINING = [
    "--preset=tiny",
    "--set=model.encoder.cell_dim=12",
    "--set=model.encoder.output_dim=8",
    "--set=model.characters.filters=[[1,4],[3,6]]",
    "--set=num_rows=4",
    "--set=num_steps=8",
    "--set=num_samples=6",
    "--set=log_every=1",
    "--set=max_updates=20",
    "--set=checkpoint_every=10",
    "--set=validate_every=10",
]
TASK = {
    "words.dim": 6, "words.min_count": 1, "words.dropout": 0.0, "network.dim": 12, "network.dropout": 0.0,
    "elmo.dropout": 0.1, "fit.min_batches": 1, "fit.batch_size": 8, "fit.learning_rate": 0.02, "fit.num_epochs": 8,
    "fit.patience": 8,
}  # fmt: skip
UNSEEN = [["we", "like", "Oslo", "city", "."], ["you", "like", "Bergen", "city"]]


def run(*arguments: str) -> None:
    """Run a command of this version."""
    code = main(list(arguments))
    assert code == 0, (code, arguments)


def make_data() -> None:
    """Write the texts and examples that everything else is made of."""
    draw = random.Random(5)
    nouns, verbs = ["bank", "river", "cat", "market", "king", "tree"], ["sees", "likes", "finds", "sells"]

    def sentence() -> str:
        words = ["the", draw.choice(nouns), draw.choice(verbs), "the", draw.choice(nouns)]
        more = ["and", draw.choice(verbs), "a", draw.choice(nouns)] if draw.random() < 0.5 else []
        return " ".join([*words, *more, "."])

    Path("data").mkdir()
    for name, size in (("corpus", 240), ("validation", 20)):
        Path(f"data/{name}.txt").write_text("".join(f"{sentence()}\n" for _ in range(size)), encoding="utf-8")
    rows: list[Any] = [{"id": f"row {n}", "text": sentence(), "spans": [[0, 2], [3, 5]]} for n in range(8)]
    rows[3] |= {"text": "Das Ufer / the ünïcode bank", "spans": [[4, 5]]}
    rows.insert(5, {"id": "broken", "text": 7, "spans": []})
    Path("data/rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    places = ("Paris", "Oslo", "Rome", "Lima")
    for name, size in (("train", 24), ("dev", 10), ("test", 10)):
        examples = [
            [(draw.choice(("I", "you", "we")), "O"), ("like", "O"), (draw.choice(places), "B-place")]
            + [("city", "I-place"), (".", "O")] * draw.randint(0, 1)
            for _ in range(size)
        ]
        blocks = ["".join(f"{word}\t{tag}\n" for word, tag in example) for example in examples]
        Path(f"data/{name}.conll").write_text("\n".join(blocks), encoding="utf-8")


def make_index() -> None:
    """Write an index of occurrences and what a search in it found; its text repeats each sentence."""
    from elmo import analysis

    lines = "I went to the bank .\nThe river bank was green .\nThey play in the park .\nWe saw a play .\n"
    Path("data/index-text.txt").write_text(2 * lines)
    model = Elmo.from_pretrained("models/characters")
    reading = analysis.ReadingSettings(split="lines")
    index = analysis.build_index(model, "index", ["data/index-text.txt"], reading=reading, segment_size=20)
    found = analysis.find_neighbors(model, "my [bank] account", index, words="same", top_k=3)
    Path("answers/neighbors.json").write_text(json.dumps(found.to_dict()))


def make_models() -> dict[str, np.ndarray[Any, Any]]:
    """Write models of several kinds and return their layers and scores of SENTENCES."""
    for number, (name, config) in enumerate(CONFIGS.items()):
        model = Elmo.from_config(config, vocabulary=VOCABULARY, seed=number)
        checkpoint = model.checkpoint()
        weights = dict(checkpoint.weights)
        for softmax in [weight for weight in weights if weight.endswith("softmax.weight")]:
            weights[softmax] = weights[softmax] * 20  # a new model finds all words about equally likely
        Elmo(dataclasses.replace(checkpoint, weights=weights)).save_pretrained(f"models/{name}")
    for storage in ("float16", "compact"):
        run("convert", "models/characters", f"models/{storage}", "--storage", storage)
    run("convert", "models/characters", "models/hdf5", "--to", "hdf5")
    answers = {}
    for folder in sorted(Path("models").iterdir()):
        model = Elmo.from_pretrained(folder)
        for number, layers in enumerate(model.embed(SENTENCES, layers="all")):
            answers[f"{folder.name}/{number}"] = layers
        if model.config.softmax is not None:
            answers[f"{folder.name}/perplexity"] = np.array([score.perplexity for score in model.score(SENTENCES)])
            found = model.substitutes(SENTENCES[0], 4, top_k=3)
            answers[f"{folder.name}/substitutes"] = np.array([substitute.word for substitute in found])
    return answers


def make_run() -> dict[str, Any]:
    """Write a corpus and a run that stopped half way; return what the whole run measured."""
    run("prepare", "data/corpus.txt", "-o", "corpus", "--split", "lines", "--vocabulary-size", "15", "--workers=1")
    run("train", "corpus", "-o", "whole", "--validation", "data/validation.txt", *TRAINING)
    metrics = [json.loads(line) for line in Path("whole/metrics.jsonl").read_text().splitlines()]
    last = Elmo.from_pretrained("whole/checkpoints/update-00000020")
    [vectors] = last.embed(SENTENCES[:1], layers="all")
    shutil.rmtree("whole/checkpoints/update-00000020")
    shutil.rmtree("whole/tensorboard", ignore_errors=True)
    Path("whole/best.json").unlink(missing_ok=True)
    Path("whole").rename("run")
    return {"metrics": metrics, "last_checkpoint": vectors.tolist()}


def make_tasks() -> dict[str, Any]:
    """Write a task that has its biLM, one that names it, and a run that stopped half way."""
    from elmo.tasks.run_folder import TaskInputs, start
    from elmo.tasks.workbench import Workbench

    from elmo.tasks.fit import Watcher
    from elmo.tasks.settings import make_settings
    from elmo.tasks.training import train_task

    def inputs(carry: bool) -> TaskInputs:
        files = [f"data/{name}.conll" for name in ("train", "dev", "test")]
        return TaskInputs("tagging", *files, model="models/characters", cache_folder="cache", carry_bilm=carry)

    def train(folder: Path, given: TaskInputs, watcher: Watcher | None = None) -> dict[str, Any]:
        settings = make_settings("tagging", TASK)
        start(given, settings, folder)
        return train_task(Workbench(given), settings, folder, watcher=watcher)

    scores = train(Path("tasks/carried"), inputs(True))
    train(Path("tasks/named"), inputs(False))

    def stop(record: dict[str, Any]) -> None:
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    try:
        train(Path("tasks/stopped"), inputs(False), Watcher(on_epoch=stop))
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("the task was to be stopped")
    shutil.rmtree("cache")
    kept = ("metric", "dev", "test", "history", "best_epoch", "bilm_hash", "mixes")
    return {
        "scores": {name: scores[name] for name in kept},
        "predictions": [dataclasses.asdict(found) for found in tasks.load("tasks/carried").predict(UNSEEN)],
    }


def make_vectors() -> dict[str, np.ndarray[Any, Any]]:
    """Write a folder of vectors in each format and return the rows that this version reads from it."""
    from elmo import jobs

    answers = {}
    for name, (command, *options) in VECTOR_JOBS.items():
        run(command, "data/rows.jsonl", "-o", f"vectors/{name}", *options, *JOB_OPTIONS)
        for row in jobs.open(f"vectors/{name}"):
            answers[f"{name}/{row.id}"] = np.asarray(row.vectors)
    return answers


def replace_in_records(old: str, new: str) -> None:
    """Replace a path in the JSON records that name their inputs."""
    for path in [*Path().glob("*/run.json"), *Path().glob("tasks/*/**/*.json"), *Path().glob("*/*/manifest.json")]:
        text = path.read_text(encoding="utf-8")
        if old in text:
            path.write_text(text.replace(old, new), encoding="utf-8")


def make_all(arguments: Sequence[str]) -> None:
    """Write everything to the folder that the command line names."""
    output = Path(arguments[0]).resolve()
    torch.set_num_threads(1)
    output.mkdir(parents=True)
    os.chdir(output)
    make_data()
    models = make_models()
    training = make_run()
    task = make_tasks()
    vectors = make_vectors()
    Path("answers").mkdir()
    make_index()
    np.savez_compressed("answers/models.npz", **models)
    np.savez_compressed("answers/vectors.npz", **vectors)
    Path("answers/run.json").write_text(json.dumps(training), encoding="utf-8")
    Path("answers/tasks.json").write_text(json.dumps(task, indent=1), encoding="utf-8")
    for lock in output.rglob("*.lock"):
        lock.unlink()
    replace_in_records(str(output), PLACE)


if __name__ == "__main__":
    make_all(sys.argv[1:])
