"""Labelled data -> a trained task in a folder: `train` starts a run, `resume` continues one that was stopped.

During training, the folder holds training/run.json, the inputs and settings of the run, and training/state.pt, its
state after the last epoch; scores.json is written at the end.
"""

import dataclasses
import io
import json
import logging
import math
import pickle
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from elmo.checkpoint.location import read_json
from elmo.checkpoint.open import open_checkpoint
from elmo.checkpoint.source import DEFAULT_MODEL
from elmo.errors import CheckpointError, ConfigError, InputError, first_line
from elmo.files.durable import holding, is_vacant, remove, replace_file, sha256_of
from elmo.layer import ElmoLayer, LayerMixes
from elmo.model import Elmo
from elmo.nn.scalar_mix import ScalarMix
from elmo.tasks.families.blocks import BilmReference, NetworkInputs, Vocabularies, WordList, build_vocabulary
from elmo.tasks.families.network import Labels
from elmo.tasks.families.pooled import PooledClassifier, choose_ngrams
from elmo.tasks.fit import BILM_PREFIX, FitState, TaskReport, fit, limit_threads
from elmo.tasks.readers.records import Data, absolute_path, list_files, store_records, to_source
from elmo.tasks.settings import TaskInputs, TaskOptions, TaskSettings, find_family, make_settings
from elmo.tasks.shared_inputs import SharedInputs, Splits
from elmo.tasks.task import (
    BILM_FOLDER,
    SCORES_FILE,
    Task,
    TaskDescription,
    build_network,
    load_task,
    write_task,
)

logger = logging.getLogger(__name__)

TRAINING, RUN_FILE, STATE_FILE = "training", "run.json", "state.pt"
Settings = TaskSettings | Mapping[str, Any]
USUAL_SPREAD = 0.5  # standard deviation per dimension, about the same as GloVe's
NUM_SPREAD_EXAMPLES = 200  # for estimating the spread of a model's layers
# Texts longer than this on average, or at most this many examples, are classified with pooled vectors only.
LONG_TEXT, FEW_EXAMPLES = 100, 500
FEW_TO_MEASURE = 200  # scores on fewer examples come with a warning


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
    num_dev: int = 0  # 0: the dev scores come from cross-validation

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of scores.json."""
        return {name: value for name, value in vars(self).items() if name != "folder"}

    def load(self) -> Task:
        """Open the trained task."""
        return load_task(self.folder)


def train(
    train: Data,
    *,
    kind: str,
    output: str | Path,
    dev: Data | None = None,
    test: Data | None = None,
    model: str | Path | None = None,
    settings: Settings | None = None,
    options: TaskOptions | None = None,
    show_progress_bar: bool = False,
) -> TaskResult:
    """Train a task on labelled examples and write it to the new folder `output`.

    `kind` is a family (tagging, classification, pairs, relations, question_answering, senses) or the name of a
    task (ner, pos, sentiment, entailment, …). `train`, `dev` and `test` are each a file name, a pattern, a folder
    with one subfolder of texts per label, a DataFrame, a Dataset, a list of dicts, or (texts, labels). `dev`
    determines when to stop; without it, cross-validation or held-out training examples do. `test` is evaluated once
    at the end. `settings` override the family's defaults, as in {"elmo.where": "both"}. `resume` continues an
    interrupted run.
    """
    inputs, chosen = resolve_inputs(train, kind, dev, test, model, settings, options)
    check_new(Path(output))
    with TaskReport(shown=show_progress_bar) as report:
        return train_task(SharedInputs(inputs, report), chosen, Path(output), is_new=True)


def resume(output: str | Path, *, show_progress_bar: bool = False) -> TaskResult:
    """Continue a run exactly from its last epoch; for a finished run, return its scores."""
    folder = Path(output)
    inputs, settings = read_run(folder)
    if is_done(folder):
        return finish(folder)
    with TaskReport(shown=show_progress_bar) as report:
        return train_task(SharedInputs(inputs, report), settings, folder)


def resolve_inputs(
    train: Data,
    kind: str,
    dev: Data | None,
    test: Data | None,
    model: str | Path | None,
    settings: Settings | None,
    options: TaskOptions | None,
) -> tuple[TaskInputs, TaskSettings]:
    """Return the inputs and settings of a run, completed according to the kind of task and the options."""
    options = options or TaskOptions()
    family, target = find_family(kind)
    if options.num_threads < 1:
        raise InputError(f"num_threads is {options.num_threads}; it must be 1 or more.")
    read = options.read.with_columns(family)
    if read.pair_target == "auto":
        read = dataclasses.replace(read, pair_target=cast(Any, target))
    if not isinstance(settings, TaskSettings):
        changes = dict(settings or {})
        if options.word_vectors is not None and not {"words.kinds", "words"} & changes.keys():
            changes["words.kinds"] = ["pretrained"]
        settings = make_settings(family, changes)
    if options.word_vectors is not None and "pretrained" not in settings.words.kinds:
        raise InputError("--word-vectors is for pretrained words, but --word-features has none; add them there.")
    if settings.network.kind in ("auto", "pooled") and family != "classification":
        raise ConfigError(f"network.kind is {settings.network.kind!r}, which is for classification, not {family}.")
    if model is not None or settings.elmo.where != "none":
        read = read.with_tokenization(open_checkpoint(DEFAULT_MODEL if model is None else model).config.tokenization)
    options = dataclasses.replace(options, read=read)
    dev, test = (
        None if data is None else to_source(data, family, name) for data, name in ((dev, "dev"), (test, "test"))
    )
    bilm = None if model is None else str(model)
    return TaskInputs(family, to_source(train, family, "train"), dev, test, bilm, options), settings


def train_task(
    shared: SharedInputs,
    settings: TaskSettings,
    folder: Path,
    *,
    keep: bool = True,
    is_new: bool = False,
) -> TaskResult:
    """Train from the last epoch saved in a folder, and write the scores; if `is_new`, create the folder first.

    With `keep`, the trained task is written too; without it, only the scores. If two networks are compared, the one
    with the better dev score is written.
    """
    started = time.monotonic()
    kinds = choose_networks(shared, settings)
    runs = [_Run(shared, settings, kind, is_only=len(kinds) == 1) for kind in kinds]
    if is_new:  # only now, so that a fault in the inputs leaves no folder behind
        start(shared.inputs, settings, folder)
    with holding_run(folder), limit_threads(shared.inputs.options.num_threads):
        for run in runs:
            run.fit(folder)
        chosen = runs[0]
        if len(runs) > 1:
            for kind, run in zip(kinds, runs, strict=True):
                shared.report.say(f"{kind}: dev {run.network.metric} {run.state.best_score:.2f}")
            # Few dev examples cannot tell networks apart: the other must be better by half a standard error.
            if runs[1].state.best_score > chosen.state.best_score + 25 / math.sqrt(len(runs[1].dev)):
                chosen = runs[1]
            elif not shared.splits.dev:
                # It needs no dev examples, so it is trained again on those used for the comparison too.
                chosen = _Run(shared, settings, "pooled", is_only=True)
                chosen.fit(folder)
        result = chosen.measure(folder, started)
        if keep:
            chosen.write(folder)
        replace_file(folder / SCORES_FILE, json.dumps(result.to_dict(), indent=1).encode())
        remove(folder / TRAINING / STATE_FILE)
    return result


def choose_networks(shared: SharedInputs, settings: TaskSettings) -> list[str]:
    """Return the kinds of network to train; for "auto", those that may be the best for these texts."""
    kind, train = settings.network.kind, shared.splits.train
    if kind != "auto":
        return [kind]
    if settings.elmo.tune:
        return ["bilstm"]
    num_words = sum(map(len, shared.texts(train))) / len(train)
    has_phrases = any(example.phrases for example in train)
    num_train = len(train) * settings.fit.fraction
    if num_words > LONG_TEXT or (num_train <= FEW_EXAMPLES and not has_phrases):
        return ["pooled"]
    return ["pooled", "bilstm"]


class _Run:
    """The training of one network: its examples, its state, and the files that it writes."""

    def __init__(self, shared: SharedInputs, settings: TaskSettings, network_kind: Any, *, is_only: bool) -> None:
        """`is_only`: no other network is compared with it on the same dev examples."""
        settings = dataclasses.replace(settings, network=dataclasses.replace(settings.network, kind=network_kind))
        family, is_tuned, is_pooled = shared.family, settings.elmo.tune, network_kind == "pooled"
        self._shared, self._settings = shared, settings
        self._train, self.dev = shared.splits.draw(settings.fit, needs_dev=not (is_pooled and is_only))
        labels = family.learn_labels(self._train, settings)
        check_labels(shared.splits, labels)
        if shared.first_senses:
            labels["first_senses"] = shared.first_senses
        self._words, vectors = self._choose_words(is_pooled)
        self._model = self._open_model()
        self._bilm = None if self._model is None else self._describe_bilm(self._model, is_pooled)
        self._bilm_hash = None if self._bilm is None else self._bilm.hash
        self.state = FitState(bilm_hash=self._bilm_hash)
        read_layers = None
        if self._bilm is not None and not is_tuned:
            examples = [*self._train, *self.dev, *shared.splits.test]
            read_layers = shared.embed_texts(examples, pooled=is_pooled).__getitem__
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.fit.seed)
            network = build_network(
                shared.inputs.family, settings, labels, NetworkInputs(self._words, self._bilm, read_layers),
                tuned=self._model if is_tuned else None,
                pretrained=None if vectors is None else torch.from_numpy(vectors),
            )  # fmt: skip
        if read_layers is not None and self._bilm is not None and network.mixes is not None:
            texts = filter(None, shared.texts(self._train[:NUM_SPREAD_EXAMPLES]))
            _initialize_gamma(network.mixes, self._bilm.num_layers, [read_layers(text) for text in texts])
        self.network = network
        for split, name in ((self.dev, "dev"), (shared.splits.test, "test")):
            network.warn_of_unknown(split, name)

    def _choose_words(self, is_pooled: bool) -> tuple[Vocabularies, npt.NDArray[np.float32] | None]:
        learned, pretrained, vectors = WordList(), WordList(), None
        words = self._settings.words
        texts = self._shared.texts(self._train)
        if is_pooled:
            return Vocabularies(choose_ngrams(texts) if words.kinds else learned, pretrained), None
        if "learned" in words.kinds:
            learned = build_vocabulary(texts, min_count=words.min_count)
        if "pretrained" in words.kinds:
            pretrained, vectors = self._shared.read_pretrained(words.num_kept)
        return Vocabularies(learned, pretrained), vectors

    def _open_model(self) -> Elmo | None:
        elmo, options = self._settings.elmo, self._shared.inputs.options
        if elmo.where == "none":
            return None
        if elmo.tune and (options.precision, options.device) != ("float32", "cpu"):
            raise InputError(
                "A biLM is tuned in float32 on the CPU, where the task network runs; leave out --precision and "
                "--device, or keep the biLM frozen."
            )
        return self._shared.open_model() if elmo.tune else self._shared.frozen

    def _describe_bilm(self, model: Elmo, is_pooled: bool) -> BilmReference:
        inputs, is_tuned = self._shared.inputs, self._settings.elmo.tune
        context = model.context if is_pooled else None
        return BilmReference(
            absolute_path(inputs.model),
            model.checkpoint().fingerprint() if is_tuned else self._shared.frozen_fingerprint,
            model.num_layers,
            model.dim,
            is_tuned or inputs.options.carry_bilm,
            inputs.options.precision,
            context.dim if context else 0,
            model.checkpoint().context_hash() if context else None,
        )

    def fit(self, folder: Path) -> None:
        """Train from the state saved in the folder, if there is one."""
        path = folder / TRAINING / STATE_FILE
        if path.exists() and not isinstance(self.network, PooledClassifier):
            self.state = load_state(path)
        if self.state.bilm_hash != self._bilm_hash:
            raise InputError(
                f"{self._shared.inputs.model or 'The default model'} is not the biLM that the run in {folder} "
                "started with; restore that one, or start a new run."
            )
        fit(
            self.network, self._settings, self._train, self.dev, state=self.state, report=self._shared.report,
            save=lambda state: save_state(path, state),
        )  # fmt: skip

    def measure(self, folder: Path, started: float) -> TaskResult:
        """Return the scores of the trained network."""
        network, state, test = self.network, self.state, self._shared.splits.test
        dev = network.evaluate(self.dev) if self.dev else state.history[-1]["dev"]
        num_measured = len(self.dev) or len(self._train)
        if num_measured < FEW_TO_MEASURE:
            logger.warning(
                "The dev score, %s %.1f, is measured on %d examples only and may be off by %.0f points.",
                network.metric, dev[network.metric], num_measured, 98 / math.sqrt(num_measured),
            )  # fmt: skip
        return TaskResult(
            folder,
            self._shared.inputs.family,
            network.metric,
            dev,
            network.evaluate(test) if test else None,
            network.mixing_weights,
            len(self._train),
            state.best_epoch,
            state.history,
            self._settings.to_dict(),
            self._bilm_hash,
            round(time.monotonic() - started, 1),
            len(self.dev),
        )

    def write(self, folder: Path) -> None:
        """Write the task, including its biLM if it was tuned or carry_bilm is set."""
        bilm, model = self._bilm, self._model
        if isinstance(self.network.elmo, ElmoLayer) and bilm is not None:
            model = self.network.elmo.to_elmo()  # with the tuned weights
            bilm = dataclasses.replace(bilm, hash=model.checkpoint().fingerprint())
        if model is not None and bilm is not None and bilm.is_carried:
            model.save_pretrained(folder / BILM_FOLDER)
        description = TaskDescription(
            self._shared.inputs.family, self._settings, self.network.labels, self._shared.splits.read, bilm,
        )  # fmt: skip
        # A tuned biLM is saved in a separate folder.
        weights = self.state.best_weights
        weights = {name: weight for name, weight in weights.items() if not name.startswith(BILM_PREFIX)}
        write_task(folder, description, self._words, weights)


def check_labels(splits: Splits, labels: Labels) -> None:
    """Raise InputError if all training examples have one target."""
    role = "tag" if "tags" in labels else "label"
    names = labels.get(f"{role}s", [])
    if len(names) == 1 and len(splits.train) > 1:
        column = f" (column {splits.read.columns[role]})" if role in splits.read.columns else ""
        raise InputError(
            f"{splits.train[0].place.file}: all {role}s are {names[0]!r}{column}, so there is nothing to learn; name "
            "the right column with --label-column."
        )


def _initialize_gamma(mixes: LayerMixes, num_layers: int, values: Sequence[npt.NDArray[Any]]) -> None:
    """Initialize γ so that the mixed layers of sentences, (T, L·D) each, have the spread of typical word vectors.

    Models differ in the norm of their vectors, and a few epochs change γ only slightly.
    """
    if not values:
        return
    layers = np.concatenate(values).astype(np.float32)
    if mixes.layers != "concat":
        layers = layers.reshape(len(layers), num_layers, -1)
        layers = layers[:, -1] if mixes.layers == "top" else layers.mean(axis=1)
    if (spread := float(layers.std(axis=0).mean())) > 0:
        for mix in mixes:
            nn.init.constant_(cast(ScalarMix, mix).gamma, USUAL_SPREAD / spread)


# --- the folder of a run


def check_new(folder: Path) -> None:
    """Raise InputError if a folder is not empty."""
    if not is_vacant(folder, TRAINING):
        raise InputError(f"{folder} exists already; choose a new folder, or --resume it to continue its run.")


def start(inputs: TaskInputs, settings: TaskSettings, folder: Path) -> None:
    """Create the folder of a new run, or reuse one in which a killed process had not yet written a record."""
    check_new(folder)
    (folder / TRAINING).mkdir(parents=True, exist_ok=True)
    with holding_run(folder):
        check_new(folder)  # now that no other process can write there
        record = describe_inputs(store_records(inputs, folder / TRAINING), settings)
        replace_file(folder / TRAINING / RUN_FILE, json.dumps(record, indent=1, ensure_ascii=False).encode())


def describe_inputs(inputs: TaskInputs, settings: TaskSettings) -> dict[str, Any]:
    """Return the record of a run's inputs: absolute paths, settings, and the checksums of files."""
    values = inputs.to_dict()
    files: list[str] = []
    for name in ("train", "dev", "test", "word_vectors", "sense_index", "model"):
        if isinstance(values[name], str):
            values[name] = absolute_path(values[name])  # a run may be resumed from anywhere
            files += [] if name == "model" else list_files(values[name])
    if values["cache_folder"] is not None:
        values["cache_folder"] = str(Path(values["cache_folder"]).expanduser().resolve())
    return {"inputs": values, "settings": settings.to_dict(), "data": {path: _hash_file(path) for path in files}}


def read_run(folder: Path) -> tuple[TaskInputs, TaskSettings]:
    """Return the inputs and settings of a run; raise InputError if its files have changed."""
    path = folder / TRAINING / RUN_FILE
    if not is_started(folder):
        raise InputError(f"{folder} is not a run that can be resumed: it has no {TRAINING}/{RUN_FILE}.")
    inputs, settings, data = read_record(path, "start a new run")
    for name, known in data.items():
        if _hash_file(name) != known:
            raise InputError(f"{name} has changed since the run in {folder} began; start a new run.")
    return inputs, settings


def read_record(path: Path, advice: str) -> tuple[TaskInputs, TaskSettings, dict[str, str]]:
    """Read a record by describe_inputs: inputs, settings and checksums."""
    record = read_json(path)
    try:
        settings = TaskSettings.from_dict(record["settings"])
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
    """Return whether a run is finished."""
    return (folder / SCORES_FILE).is_file()


def finish(folder: Path) -> TaskResult:
    """Return the result of a finished run, after removing a state file that a killed process left behind."""
    with holding_run(folder):
        remove(folder / TRAINING / STATE_FILE)
    try:
        return TaskResult(folder, **read_json(folder / SCORES_FILE))
    except TypeError as error:
        raise CheckpointError(f"{folder / SCORES_FILE} is damaged; start a new run.") from error


def save_state(path: Path, state: FitState) -> None:
    """Save the state of training, replacing an earlier one."""
    content = io.BytesIO()
    torch.save(vars(state), content)
    replace_file(path, content.getvalue())


def load_state(path: Path) -> FitState:
    """Load the state of training."""
    try:
        return FitState(**torch.load(path, weights_only=True))
    except (OSError, RuntimeError, pickle.UnpicklingError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: {first_line(error)}; start a new run.") from error


def _hash_file(path: str) -> str:
    try:
        return sha256_of(Path(path))
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}.") from error
