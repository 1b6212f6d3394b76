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

import torch

from elmo.checkpoint.fingerprint import context_fingerprint, fingerprint
from elmo.config import parse
from elmo.errors import CheckpointError, InputError, first_line
from elmo.files.durable import holding, is_vacant, remove, replace_file, sha256_of
from elmo.model import Elmo
from elmo.nn.scalar_mix import ScalarMix
from elmo.progress import StatusBar
from elmo.tasks.encoder import Batcher, BilmShape
from elmo.tasks.fit import FitState, Predictor, Watcher, fit
from elmo.tasks.folder import BILM_FOLDER, BilmReference, TaskDescription, build_network, read_json, write_task
from elmo.tasks.settings import TaskInputs, TaskOptions, TaskSettings, find_family, make_settings
from elmo.tasks.shared_inputs import SharedInputs
from elmo.tasks.task import BILM_PREFIX, Task, load
from elmo.tasks.word_features import Vocabularies, WordList, choose_words

logger = logging.getLogger(__name__)

TRAINING, RUN_FILE, STATE_FILE, SCORES_FILE = "training", "run.json", "state.pt", "scores.json"
Settings = TaskSettings | Mapping[str, Any]


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
        shared = SharedInputs(inputs, on_words=report.on_words)
        report.say(*shared.splits.notes)
        return train_task(shared, settings, folder, watcher=report.watcher(), is_new=is_new)


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
    prepared = _prepare(shared, settings)  # a mistake in the inputs leaves no folder
    if is_new:
        start(shared.inputs, settings, folder)
    with holding_run(folder):
        return _train(shared, prepared, settings, folder, watcher, keep, started)


@dataclass(frozen=True)
class _Prepared:
    """A network before its first epoch, and what it is trained with."""

    predictor: Predictor
    train: list[Any]
    dev: list[Any]
    words: Vocabularies
    model: Elmo | None
    shape: BilmShape | None
    fingerprint: str | None


def _prepare(shared: SharedInputs, settings: TaskSettings) -> _Prepared:
    family, options = shared.family, shared.inputs.options
    train, dev = shared.splits.draw(settings.fit)
    if settings.elmo.tune and (options.precision, options.device) != ("float32", "cpu"):
        raise InputError(
            "A biLM is tuned in float32 on the CPU, where the task network runs; leave out --precision and "
            "--device, or keep the biLM frozen."
        )
    labels = family.learn_labels(train, settings)
    if len(names := list(labels.get("labels") or [])) == 1:
        logger.warning("All training examples have the label %r; is it in the right column?", names[0])
    if shared.first_senses:
        labels["first_senses"] = shared.first_senses
    tuned = shared.open_model() if settings.elmo.tune else None
    model = tuned or (shared.frozen if settings.elmo.where != "none" else None)
    with_context = settings.elmo.context != "none"
    if model is not None and with_context and model.context is None:
        raise InputError("elmo.context is set, but the model has no context layer; add one with elmo fuse.")
    words, vectors = WordList(), None
    pretrained = WordList()
    if "learned" in settings.words.kinds:
        texts = (text for example in train for text in family.texts(example))
        words = choose_words(texts, min_count=settings.words.min_count)
    if "pretrained" in settings.words.kinds:
        pretrained, vectors = shared.read_pretrained(settings.words.num_kept)
    vocabularies = Vocabularies(words, pretrained, 0 if vectors is None else vectors.shape[1])
    shape = found = layers_of = None
    if model is not None:
        context_dim = model.context.dim if with_context and model.context is not None else 0
        shape = BilmShape(model.num_layers, model.dim, context_dim)
        found = shared.frozen_fingerprint if tuned is None else fingerprint(tuned)
        layers_of = None if tuned is not None else shared.embed_texts(with_context=with_context).__getitem__
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.fit.seed)
        network = build_network(family.name, settings, labels, vocabularies, shape, tuned=tuned, vectors=vectors)
    predictor = Predictor(network, family, labels, Batcher(settings, vocabularies, shape, layers_of))
    for split, what in ((dev, "dev"), (shared.splits.test, "test")):
        predictor.warn_of_unknown(split, what)
    return _Prepared(predictor, train, dev, vocabularies, model, shape, found)


def _train(
    shared: SharedInputs,
    prepared: _Prepared,
    settings: TaskSettings,
    folder: Path,
    watcher: Watcher | None,
    keep: bool,
    started: float,
) -> TaskResult:
    predictor, inputs, state_path = prepared.predictor, shared.inputs, folder / TRAINING / STATE_FILE
    state = load_state(state_path) or FitState(bilm_hash=prepared.fingerprint)
    if state.bilm_hash != prepared.fingerprint:
        raise InputError(
            f"{inputs.model or 'The default model'} is not the biLM that the run in {folder} began with; put that "
            "one back, or start a new run."
        )
    state = fit(
        predictor, settings, prepared.train, prepared.dev, state=state, watcher=watcher,
        save=lambda state: save_state(state_path, state),
    )  # fmt: skip
    test = shared.splits.test
    result = TaskResult(
        folder,
        predictor.family.name,
        predictor.metric,
        predictor.evaluate(prepared.dev),
        predictor.evaluate(test) if test else None,
        _describe_mixes(predictor),
        len(prepared.train),
        state.best_epoch,
        state.history,
        settings.to_dict(),
        prepared.fingerprint,
        round(time.monotonic() - started, 1),
    )
    if keep:
        reference = _refer(inputs, settings, prepared)
        if reference is not None and reference.is_carried and prepared.model is not None:
            prepared.model.save_pretrained(folder / BILM_FOLDER)
        description = TaskDescription(
            result.family, settings, predictor.labels, shared.splits.read, reference, inputs.options.label_map
        )
        # A tuned biLM has a folder of its own.
        weights = {name: each for name, each in state.best_weights.items() if not name.startswith(BILM_PREFIX)}
        write_task(folder, description, prepared.words, weights)
    replace_file(folder / SCORES_FILE, json.dumps(result.to_dict(), indent=1).encode())
    remove(state_path)
    return result


def _refer(inputs: TaskInputs, settings: TaskSettings, prepared: _Prepared) -> BilmReference | None:
    model, shape, source = prepared.model, prepared.shape, inputs.model
    if model is None or shape is None or prepared.fingerprint is None:
        return None
    if source is not None and Path(source).expanduser().exists():
        source = str(Path(source).expanduser().resolve())
    is_tuned = settings.elmo.tune
    return BilmReference(
        source,
        fingerprint(model) if is_tuned else prepared.fingerprint,
        shape.num_layers,
        shape.dim,
        is_tuned or inputs.options.carry_bilm,
        inputs.options.precision,
        shape.context_dim,
        context_fingerprint(model) if shape.context_dim else None,
    )


def _describe_mixes(predictor: Predictor) -> list[dict[str, Any]]:
    mixes = cast(Sequence[ScalarMix], predictor.network.encoder.mixes or ())
    return [{"weights": mix.normalized_weights().tolist(), "gamma": mix.gamma.item()} for mix in mixes]


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
    for name in ("train", "dev", "test", "model", "word_vectors", "cache_folder", "sense_index"):
        path = values[name]
        if path is not None and (name == "cache_folder" or Path(path).expanduser().exists()):
            values[name] = str(Path(path).expanduser().resolve())  # a run may be resumed from anywhere
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
    record = read_json(path)
    try:
        inputs, data, settings = TaskInputs.from_dict(record["inputs"]), dict(record["data"]), record["settings"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged ({first_line(error)}); start a new run.") from error
    for name, known in data.items():
        if _hash_file(name) != known:
            raise InputError(f"{name} has changed since the run in {folder} began; start a new run.")
    return inputs, parse(TaskSettings, settings, f"{path}")


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
        self._name, self._epoch, self._started = "", 0, time.monotonic()

    def __enter__(self) -> "TaskReport":
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)

    def watcher(self, name: str = "") -> Watcher:
        """Return what a run calls; `name` begins its lines."""
        self._name, self._epoch = name, 0
        return Watcher(self._on_batch, self._on_epoch)

    def say(self, *lines: str) -> None:
        """Print lines that stay above the bar."""
        for line in lines if self._shown else ():
            self._bar.say(line)

    def on_words(self, done: int, total: int) -> None:
        """Show how many words the frozen biLM has read."""
        if self._epoch >= 0:
            self._epoch, self._started = -1, time.monotonic()
        self._show(done, total, "biLM layers: {done:,} of {total:,} words, {left} left")

    def _on_batch(self, epoch: int, done: int, total: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._started = epoch, time.monotonic()
        name = f"{self._name}epoch {epoch} of at most {self._num_epochs}"
        self._show(done, total, name + ": batch {done:,} of {total:,}, {left} left in this epoch")

    def _on_epoch(self, record: dict[str, Any]) -> None:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in record["dev"].items())
        best = ", the best so far" if record["best"] else ""
        seconds = time.monotonic() - self._started
        at_most = timedelta(seconds=round(seconds * (self._num_epochs - record["epoch"])))
        self.say(
            f"{self._name}epoch {record['epoch']}: loss {record['loss']:.4f}, dev {listed}{best} "
            f"({seconds:.1f} s; at most {at_most} more)"
        )

    def _show(self, done: int, total: int, text: str) -> None:
        elapsed_seconds = time.monotonic() - self._started
        left = timedelta(seconds=round(elapsed_seconds / max(1, done) * (total - done)))
        self._bar.show(done / max(1, total), text.format(done=done, total=total, left=left))
