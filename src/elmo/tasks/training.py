"""Labelled files -> a trained task in a folder: `train` starts a run, `resume` continues one that was stopped.

While it trains, the folder holds training/run.json, what the run was started with, and training/state.pt, where it
stands after its last epoch; scores.json is written at the end.
"""

import dataclasses
import io
import json
import logging
import pickle
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from elmo.checkpoint.checkpoint import context_fingerprint, fingerprint
from elmo.checkpoint.open import read_tokenization
from elmo.checkpoint.source import DEFAULT_MODEL
from elmo.config import parse
from elmo.errors import CheckpointError, ConfigError, InputError, first_line
from elmo.files.durable import holding, is_vacant, remove, replace_file, sha256_of
from elmo.layer import ElmoLayer, LayerMixes
from elmo.model import Elmo
from elmo.nn.scalar_mix import ScalarMix
from elmo.progress import StatusBar
from elmo.tasks.fit import FitState, Predictor, Watcher, fit
from elmo.tasks.networks import Batcher, BilmShape, Vocabularies, WordList, choose_words
from elmo.tasks.settings import TaskInputs, TaskOptions, TaskSettings, find_family, make_settings
from elmo.tasks.shared_inputs import SharedInputs
from elmo.tasks.task import (
    BILM_FOLDER,
    BILM_PREFIX,
    BilmReference,
    Task,
    TaskDescription,
    build_network,
    load,
    read_json,
    write_task,
)

logger = logging.getLogger(__name__)

TRAINING, RUN_FILE, STATE_FILE, SCORES_FILE = "training", "run.json", "state.pt", "scores.json"
Settings = TaskSettings | Mapping[str, Any]
USUAL_SPREAD = 0.5  # standard deviation of a dimension, about that of GloVe
NUM_SPREAD_EXAMPLES = 200  # by which the spread of a model's layers is estimated


@dataclass(frozen=True)
class TaskResult:
    """A finished run: the content of scores.json, and the folder that `load` opens."""

    folder: Path
    family: str
    metric: str
    dev: dict[str, float]
    test: dict[str, float] | None  # None without a test file
    mixes: list[dict[str, Any]]  # the learned s_j ("weights") and γ ("gamma") of each mix
    num_train: int
    best_epoch: int
    history: list[dict[str, Any]]
    settings: dict[str, Any]
    bilm_hash: str | None
    elapsed_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of scores.json."""
        return {name: value for name, value in vars(self).items() if name != "folder"}

    def load(self) -> Task:
        """Open the trained task."""
        return load(self.folder)


def train(
    train_file: str | Path,
    *,
    kind: str,
    output: str | Path,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    model: str | Path | None = None,
    settings: Settings | None = None,
    options: TaskOptions | None = None,
    progress: bool = False,
) -> TaskResult:
    """Train a task on a file of labelled examples and write it to the new folder `output`.

    `kind` is a family (tagging, classification, pairs, relations, question_answering, senses) or the name of a
    task (ner, pos, sentiment, entailment, …). `dev` decides when to stop; without it a tenth of the examples does.
    `test` is measured once at the end. `settings` are changes of the family's defaults, such as {"elmo.where":
    "both"}. A run that was stopped is continued by `resume`.
    """
    inputs, chosen = resolve_inputs(train_file, kind, dev, test, model, settings, options)
    return run(inputs, chosen, Path(output), is_new=True, progress=progress)


def resume(output: str | Path, *, progress: bool = False) -> TaskResult:
    """Continue a run from its last epoch, exactly; a finished one returns its scores."""
    folder = Path(output)
    inputs, settings = read_run(folder)
    return finish(folder) if is_done(folder) else run(inputs, settings, folder, progress=progress)


def run(
    inputs: TaskInputs, settings: TaskSettings, folder: Path, *, is_new: bool = False, progress: bool = False
) -> TaskResult:
    """Train in a folder, which is made first if `is_new`."""
    if is_new:
        check_new(folder)
    with TaskReport(settings.fit.num_epochs, shown=progress) as report:
        return train_task(report.open(inputs), settings, folder, watcher=report.watcher(), is_new=is_new)


def resolve_inputs(
    train_file: str | Path,
    kind: str,
    dev: str | Path | None,
    test: str | Path | None,
    model: str | Path | None,
    settings: Settings | None,
    options: TaskOptions | None,
) -> tuple[TaskInputs, TaskSettings]:
    """Return the inputs and settings of a run, with what the kind and the options imply."""
    options = options or TaskOptions()
    family, target = find_family(kind)
    if options.read.pair_target not in ("auto", "label", "score"):
        raise InputError(f"--target is {options.read.pair_target!r}; choose label, score or auto.")
    if options.read.pair_target == "auto":
        read = dataclasses.replace(options.read, pair_target=cast(Any, target))
        options = dataclasses.replace(options, read=read)
    if not isinstance(settings, TaskSettings):
        changes = dict(settings or {})
        if options.word_vectors is not None and not {"words.kinds", "words"} & changes.keys():
            changes["words.kinds"] = ["pretrained"]
        settings = make_settings(family, changes)
    if options.word_vectors is not None and "pretrained" not in settings.words.kinds:
        raise InputError("--word-vectors is for pretrained words, but --word-features has none; add them there.")
    if model is not None or settings.elmo.where != "none":
        read = options.read.with_tokenization(read_tokenization(DEFAULT_MODEL if model is None else model))
        options = dataclasses.replace(options, read=read)
    others = [None if path is None else str(path) for path in (dev, test, model)]
    return TaskInputs(family, str(train_file), others[0], others[1], others[2], options), settings


def train_task(
    shared: SharedInputs,
    settings: TaskSettings,
    folder: Path,
    *,
    watcher: Watcher | None = None,
    keep: bool = True,
    is_new: bool = False,
) -> TaskResult:
    """Train in a folder from its last epoch on, and write its scores; a folder that `is_new` is started first.

    With `keep` the folder becomes a task to load; without it, only the scores are kept.
    """
    started = time.monotonic()
    run = _Run(shared, settings)  # a mistake in the inputs leaves no folder
    if is_new:
        start(shared.inputs, settings, folder)
    with holding_run(folder):
        state = run.fit(folder, watcher)
        result = run.measure(folder, state, started)
        if keep:
            run.write(folder, state)
        replace_file(folder / SCORES_FILE, json.dumps(result.to_dict(), indent=1).encode())
        remove(folder / TRAINING / STATE_FILE)
    return result


class _Run:
    """One network with its examples, from the first epoch to the folder."""

    def __init__(self, shared: SharedInputs, settings: TaskSettings) -> None:
        family, elmo = shared.family, settings.elmo
        self._shared, self._settings = shared, settings
        self._train, self._dev = shared.splits.draw(settings.fit)
        labels = family.learn_labels(self._train, settings)
        if len(names := list(labels.get("labels") or [])) == 1:
            logger.warning("All training examples have the label %r; is it in the right column?", names[0])
        if shared.first_senses:
            labels["first_senses"] = shared.first_senses
        self._words, vectors = self._choose_words()
        self._model = self._open_model()
        self._shape: BilmShape | None = None
        self._fingerprint = layers_of = None
        if self._model is not None:
            context = self._model.context if elmo.context != "none" else None
            self._shape = BilmShape(self._model.num_layers, self._model.dim, context.dim if context else 0)
            self._fingerprint = fingerprint(self._model) if elmo.tune else shared.frozen_fingerprint
            if not elmo.tune:
                layers_of = shared.embed_texts(with_context=context is not None).__getitem__
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.fit.seed)
            network = build_network(
                family.name, settings, labels, self._words, self._shape,
                tuned=self._model if elmo.tune else None, vectors=vectors,
            )  # fmt: skip
        mixes = network.encoder.mixes
        if layers_of is not None and self._shape is not None and mixes is not None:
            texts = [
                text for example in self._train[:NUM_SPREAD_EXAMPLES] for text in family.texts(example) if text
            ]
            if texts:
                _start_gamma(mixes, self._shape, [layers_of(text) for text in texts])
        self._predictor = Predictor(
            network, family, labels, Batcher(settings, self._words, self._shape, layers_of)
        )
        for split, what in ((self._dev, "dev"), (shared.splits.test, "test")):
            self._predictor.warn_of_unknown(split, what)

    def _choose_words(self) -> tuple[Vocabularies, npt.NDArray[np.float32] | None]:
        learned, pretrained, vectors = WordList(), WordList(), None
        words = self._settings.words
        if "learned" in words.kinds:
            texts = (text for example in self._train for text in self._shared.family.texts(example))
            learned = choose_words(texts, min_count=words.min_count)
        if "pretrained" in words.kinds:
            pretrained, vectors = self._shared.read_pretrained(words.num_kept)
        return Vocabularies(learned, pretrained, 0 if vectors is None else vectors.shape[1]), vectors

    def _open_model(self) -> Elmo | None:
        elmo, options = self._settings.elmo, self._shared.inputs.options
        if elmo.where == "none":
            return None
        if elmo.tune and (options.precision, options.device) != ("float32", "cpu"):
            raise InputError(
                "A biLM is tuned in float32 on the CPU, where the task network runs; leave out --precision and "
                "--device, or keep the biLM frozen."
            )
        model = self._shared.open_model() if elmo.tune else self._shared.frozen
        if elmo.context != "none" and model.context is None:
            raise InputError("elmo.context is set, but the model has no context layer; add one with elmo fuse.")
        return model

    def fit(self, folder: Path, watcher: Watcher | None) -> FitState:
        """Train from the state that the folder holds, if any."""
        path = folder / TRAINING / STATE_FILE
        state = load_state(path) or FitState(bilm_hash=self._fingerprint)
        if state.bilm_hash != self._fingerprint:
            raise InputError(
                f"{self._shared.inputs.model or 'The default model'} is not the biLM that the run in {folder} "
                "began with; put that one back, or start a new run."
            )
        return fit(
            self._predictor, self._settings, self._train, self._dev, state=state, watcher=watcher,
            save=lambda state: save_state(path, state),
        )  # fmt: skip

    def measure(self, folder: Path, state: FitState, started: float) -> TaskResult:
        """Return the scores of the trained network."""
        predictor, test = self._predictor, self._shared.splits.test
        mixes = cast(Sequence[ScalarMix], predictor.network.encoder.mixes or ())
        return TaskResult(
            folder,
            predictor.family.name,
            predictor.metric,
            predictor.evaluate(self._dev),
            predictor.evaluate(test) if test else None,
            [{"weights": mix.normalized_weights().tolist(), "gamma": mix.gamma.item()} for mix in mixes],
            len(self._train),
            state.best_epoch,
            state.history,
            self._settings.to_dict(),
            self._fingerprint,
            round(time.monotonic() - started, 1),
        )

    def write(self, folder: Path, state: FitState) -> None:
        """Write the task, with its biLM if that was tuned or is to be carried."""
        inputs, is_tuned = self._shared.inputs, self._settings.elmo.tune
        reference = None
        model = self._model
        elmo = self._predictor.network.encoder.elmo
        if isinstance(elmo, ElmoLayer):
            model = elmo.to_elmo()  # with the weights that were tuned
        if model is not None and self._shape is not None and self._fingerprint is not None:
            reference = BilmReference(
                _absolute(inputs.model),
                fingerprint(model) if is_tuned else self._fingerprint,
                self._shape.num_layers,
                self._shape.dim,
                is_tuned or inputs.options.carry_bilm,
                inputs.options.precision,
                self._shape.context_dim,
                context_fingerprint(model) if self._shape.context_dim else None,
            )
            if reference.is_carried:
                model.save_pretrained(folder / BILM_FOLDER)
        description = TaskDescription(
            inputs.family, self._settings, self._predictor.labels, self._shared.splits.read, reference,
            inputs.options.label_map,
        )  # fmt: skip
        # A tuned biLM has a folder of its own.
        weights = {name: each for name, each in state.best_weights.items() if not name.startswith(BILM_PREFIX)}
        write_task(folder, description, self._words, weights)


def _start_gamma(mixes: LayerMixes, shape: BilmShape, values: Sequence[npt.NDArray[Any]]) -> None:
    """Let γ start where the mixed layers (of sentences, (T, V) each) have the spread of usual word vectors.

    Models differ in the length of their vectors, and a few epochs move γ by little.
    """
    layers = np.concatenate(values)[:, : shape.num_layers * shape.dim].astype(np.float32)
    if mixes.layers != "concat":
        layers = layers.reshape(-1, shape.num_layers, shape.dim)
        layers = layers[:, -1] if mixes.layers == "top" else layers.mean(axis=1)
    if (spread := float(layers.std(axis=0).mean())) > 0:
        for mix in mixes:
            nn.init.constant_(cast(ScalarMix, mix).gamma, USUAL_SPREAD / spread)


def _absolute(path: str | None) -> str | None:
    """Return the absolute path of something that exists; other names as they are."""
    found = None if path is None else Path(path).expanduser()
    return path if found is None or not found.exists() else str(found.resolve())


# --- the folder of a run


def check_new(folder: Path) -> None:
    """Raise InputError if a folder holds anything."""
    if not is_vacant(folder, TRAINING):
        raise InputError(f"{folder} exists already; choose a new folder, or --resume it to continue its run.")


def start(inputs: TaskInputs, settings: TaskSettings, folder: Path) -> None:
    """Make the folder of a new run; what a killed process left before it wrote anything is removed."""
    check_new(folder)
    record = describe_inputs(inputs, settings)
    (folder / TRAINING).mkdir(parents=True, exist_ok=True)
    with holding_run(folder):
        check_new(folder)  # now that no other process can write there
        replace_file(folder / TRAINING / RUN_FILE, json.dumps(record, indent=1, ensure_ascii=False).encode())


def describe_inputs(inputs: TaskInputs, settings: TaskSettings) -> dict[str, Any]:
    """Return the record of what a run is started with: absolute paths, settings, and the checksums of files."""
    values = inputs.to_dict()
    for name in ("train", "dev", "test", "model", "word_vectors", "sense_index"):
        values[name] = _absolute(values[name])  # a run may be resumed from anywhere
    if values["cache_folder"] is not None:
        values["cache_folder"] = str(Path(values["cache_folder"]).expanduser().resolve())
    files = [values[name] for name in ("train", "dev", "test", "word_vectors", "sense_index")]
    return {
        "inputs": values,
        "settings": settings.to_dict(),
        "data": {path: _hash_file(path) for path in files if path is not None},
    }


def read_run(folder: Path) -> tuple[TaskInputs, TaskSettings]:
    """Return what a run was started with; InputError if its files have changed."""
    path = folder / TRAINING / RUN_FILE
    if not is_started(folder):
        raise InputError(f"{folder} is not a run that can be resumed: it has no {TRAINING}/{RUN_FILE}.")
    inputs, settings, data = read_record(path, "start a new run")
    for name, known in data.items():
        if _hash_file(name) != known:
            raise InputError(f"{name} has changed since the run in {folder} began; start a new run.")
    return inputs, settings


def read_record(path: Path, advice: str) -> tuple[TaskInputs, TaskSettings, dict[str, str]]:
    """Read what describe_inputs returned: inputs, settings and checksums."""
    record = read_json(path)
    try:
        settings = parse(TaskSettings, record["settings"], f"{path}")
        return TaskInputs.from_dict(record["inputs"]), settings, dict(record["data"])
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise CheckpointError(f"{path} is damaged ({first_line(error)}); {advice}.") from error


def holding_run(folder: Path) -> AbstractContextManager[None]:
    """Keep other processes out of the folder of a run."""
    refusal = f"Another process is training in {folder}; wait for it, or stop it first."
    return holding(folder / TRAINING, refusal, folder, folder / BILM_FOLDER)


def is_started(folder: Path) -> bool:
    """Return whether a folder holds a run that can be resumed."""
    return (folder / TRAINING / RUN_FILE).is_file()


def is_done(folder: Path) -> bool:
    """Return whether a run has ended."""
    return (folder / SCORES_FILE).is_file()


def finish(folder: Path) -> TaskResult:
    """Return the result of a run that has ended; state that a kill right after its end left is removed."""
    with holding_run(folder):
        remove(folder / TRAINING / STATE_FILE)
    try:
        return TaskResult(folder, **read_json(folder / SCORES_FILE))
    except TypeError as error:
        raise CheckpointError(f"{folder / SCORES_FILE} is damaged; start a new run.") from error


def save_state(path: Path, state: FitState) -> None:
    """Write where training stands; an earlier state is replaced."""
    content = io.BytesIO()
    torch.save(vars(state), content)
    replace_file(path, content.getvalue())


def load_state(path: Path) -> FitState | None:
    """Read where training stood, if it had begun."""
    if not path.exists():
        return None
    try:
        return FitState(**torch.load(path, weights_only=True))
    except (OSError, RuntimeError, pickle.UnpicklingError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: {first_line(error)}; start a new run.") from error


def _hash_file(path: str) -> str:
    try:
        return sha256_of(Path(path))
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}.") from error


# --- progress


class TaskReport:
    """A bar on a terminal or in a notebook, else a line now and then; the scores of epochs always."""

    def __init__(self, num_epochs: int, *, shown: bool = True) -> None:
        self._num_epochs, self._shown = num_epochs, shown
        self._bar = StatusBar(1, shown=shown)
        self._name, self._phase, self._started = "", 0, time.monotonic()

    def __enter__(self) -> "TaskReport":
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)

    def watcher(self, name: str = "") -> Watcher:
        """Return what a run calls; `name` begins its lines."""
        self._name, self._phase = name, 0
        return Watcher(self._on_batch, self._on_epoch)

    def open(self, inputs: TaskInputs) -> SharedInputs:
        """Read the examples, say what was decided about them, and return the inputs of the runs to report on."""
        shared = SharedInputs(inputs, on_words=self._on_words)
        self.say(*shared.splits.notes)
        return shared

    def say(self, *lines: str) -> None:
        """Print lines that stay above the bar."""
        for line in lines if self._shown else ():
            self._bar.say(line)

    def _on_words(self, done: int, total: int) -> None:
        self._show(-1, done, total, f"biLM layers: {done:,} of {total:,} words", "left")

    def _on_batch(self, epoch: int, done: int, total: int) -> None:
        name = f"{self._name}epoch {epoch} of at most {self._num_epochs}"
        self._show(epoch, done, total, f"{name}: batch {done:,} of {total:,}", "left in this epoch")

    def _on_epoch(self, record: dict[str, Any]) -> None:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in record["dev"].items())
        best = ", the best so far" if record["best"] else ""
        seconds = time.monotonic() - self._started
        at_most = timedelta(seconds=round(seconds * (self._num_epochs - record["epoch"])))
        self.say(
            f"{self._name}epoch {record['epoch']}: loss {record['loss']:.4f}, dev {listed}{best} "
            f"({seconds:.1f} s; at most {at_most} more)"
        )

    def _show(self, phase: int, done: int, total: int, text: str, of_what: str) -> None:
        if phase != self._phase:
            self._phase, self._started = phase, time.monotonic()
        elapsed_seconds = time.monotonic() - self._started
        left = timedelta(seconds=round(elapsed_seconds / max(1, done) * (total - done)))
        self._bar.show(done / max(1, total), f"{text}, {left} {of_what}")
