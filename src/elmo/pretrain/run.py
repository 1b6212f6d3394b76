"""A training run: settings and corpus -> checkpoints, metrics and a model, in a folder that run.json describes.

start_run begins one in a new folder, resume_run opens one at its last checkpoint; Run.train trains until it is done.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo.build import build_bilm
from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import write_json
from elmo.checkpoint.location import read_json
from elmo.checkpoint.open import open_checkpoint
from elmo.checkpoint.run_folder import (
    BEST_FILE,
    CHECKPOINTS,
    RUN_FILE,
    checkpoint_folder,
    list_checkpoints,
    read_best,
)
from elmo.config import ModelConfig, SoftmaxConfig
from elmo.corpus.part_sentences import read_sentences
from elmo.corpus.prepared import PreparedCorpus
from elmo.corpus.settings import PrepareSettings
from elmo.durable import is_vacant, writing_aside
from elmo.errors import CheckpointError, ConfigError
from elmo.inference.evaluation import Evaluation, evaluate_text
from elmo.locking import holding
from elmo.model import Elmo
from elmo.nn.bilm import BiLM
from elmo.parsing import parse
from elmo.pretrain.distillation import Distillation
from elmo.pretrain.distributed import Processes
from elmo.pretrain.loop import StepReport, TrainState, build_optimizer, train_step
from elmo.pretrain.metrics import METRICS_FILE, MetricsWriter, read_metrics
from elmo.pretrain.objective import Objective
from elmo.pretrain.saving import load_checkpoint, remove_old, save_checkpoint
from elmo.pretrain.settings import TrainSettings, change
from elmo.pretrain.stream import LMBatch, Position, WindowStream, read_ahead
from elmo.text.vocabulary import Vocabulary
from elmo.text.word_vectors import read_word_vectors

FORMAT, VERSION = "modern-elmo-run", 1
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# Settings that the tensors, positions and numbers of a checkpoint depend on, or that matter only at the start.
FIXED = (
    "model", "share_softmax", "softmax_bias", "num_rows", "num_steps", "windows_per_update", "optimizer.kind",
    "teacher.model", "teacher.heads",
)  # fmt: skip


@dataclass(frozen=True)
class Validation:
    """What one validation measured."""

    update: int
    evaluation: Evaluation
    cosines: Mapping[str, float]  # "teacher_cosine": mean over words of the validation text


@dataclass(frozen=True)
class Watcher:
    """Functions to call while a run trains; in the first process only."""

    on_update: Callable[[StepReport], None] = lambda report: None
    on_validation: Callable[[Validation], None] = lambda validation: None
    on_checkpoint: Callable[[Path], None] = lambda folder: None


class Run:
    """One process's part in a training run."""

    def __init__(
        self,
        folder: Path,
        corpus: PreparedCorpus,
        settings: TrainSettings,
        *,
        validation: Sequence[Sequence[str]],
        processes: Processes,
        start_from: Checkpoint | None = None,
    ) -> None:
        self.folder, self.corpus, self.settings = folder, corpus, settings
        self._validation, self._processes = validation, processes
        self.config = _add_sizes(settings, len(corpus.vocabulary))
        self.num_updates = count_updates(settings, corpus)
        self._word_counts = _count_vocabulary(corpus)
        self._best: tuple[float, str] | None = None  # perplexity and name of the best checkpoint
        self._distillation = None
        if settings.teacher is not None:
            self._distillation = Distillation(corpus, settings, processes, num_updates=self.num_updates)
        self.state = self._make_state(start_from)

    def _make_state(self, start_from: Checkpoint | None) -> TrainState:
        settings, processes = self.settings, self._processes
        torch.manual_seed(settings.seed)
        bilm = build_bilm(self.config)
        if start_from is not None:
            bilm.load_state_dict(dict(start_from.weights))
        elif settings.softmax_bias == "frequency":
            _set_frequency_bias(bilm, self._word_counts)
        bilm = bilm.to(processes.device)
        assert bilm.softmaxes is not None
        for softmax in bilm.softmaxes:
            softmax.sparse_gradient = settings.updates_touched_rows
        heads = None
        if self._distillation is not None:
            heads = self._distillation.make_heads(num_layers=bilm.num_layers, vector_dim=self.config.vector_dim)
        objective = Objective(
            bilm,
            dropout=settings.dropout,
            product_dtype=DTYPES[settings.precision],
            heads=heads,
            relates=settings.teacher is not None and settings.teacher.relations > 0,
        )
        parameters = [parameter for parameter in objective.parameters() if parameter.requires_grad]
        rows = processes.share(settings.num_rows)
        return TrainState(
            bilm=bilm,
            objective=processes.wrap(objective),
            parameters=parameters,
            optimizer=build_optimizer(parameters, settings.optimizer),
            bilm_state=bilm.zero_state(len(rows)),
            position=Position(block=tuple(rows), offset=(0,) * len(rows)),
            num_updates=0,
            num_words=0,
            heads=heads,
        )

    @property
    def is_first(self) -> bool:
        """Whether this process reports."""
        return self._processes.is_first

    def close(self) -> None:
        """Leave the group of processes."""
        self._processes.leave()

    def load_last_checkpoint(self) -> bool:
        """Load the last checkpoint of the folder and return whether there is one."""
        found = list_checkpoints(self.folder)
        if found:
            load_checkpoint(self.state, found[-1])
            self._best = self._find_best([folder.name for folder in found])
        return bool(found)

    def set_word_vectors(self, path: Path) -> None:
        """Initialize the word embedding with the vectors of a file; words without one stay random."""
        embedding = self.state.bilm.tokens.words
        if embedding is None:
            raise ConfigError(
                "word_vectors was given, but the model has no word embedding to initialize; set model.words, for "
                "example with --set model.words.embedding_dim=50."
            )
        found = read_word_vectors(path, self.corpus.vocabulary, embedding.embedding_dim)
        with torch.no_grad():
            for number, word in enumerate(self.corpus.vocabulary):
                if word in found:
                    embedding.weight[number] = torch.from_numpy(found[word])

    def checkpoint(self) -> Checkpoint:
        """Return the model as it is now."""
        return Checkpoint(
            self.config,
            self.state.bilm.state_dict(),
            vocabulary=self.corpus.vocabulary,
            origin={"format": "trained", "source": self.folder.name},
            word_counts=self._word_counts,
        )

    def train(self, watcher: Watcher, *, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Update the weights until the run is done, validating and saving on the way; return whether it is done.

        When `should_stop` returns True in any process, all of them save and stop after the update.
        """
        if not self.is_first:
            return self._train(watcher, should_stop)
        # Two processes training in one folder would remove each other's checkpoints.
        with _lock(self.folder):
            self._write_best()
            return self._train(watcher, should_stop)

    def _train(self, watcher: Watcher, should_stop: Callable[[], bool]) -> bool:
        settings, state = self.settings, self.state
        state.objective.train()
        metrics = MetricsWriter(self.folder, resumed_at=state.num_updates) if self.is_first else None
        batches = self._read_batches()
        try:
            while state.num_updates < self.num_updates:
                report = train_step(
                    state,
                    batches,
                    settings,
                    num_updates=self.num_updates,
                    num_words=len(self.corpus.vocabulary),
                )
                self._after(report, metrics, watcher)
                if state.num_updates < self.num_updates and self._processes.any(should_stop()):
                    self._save(None, watcher)
                    return False
        finally:
            batches.close()
            if metrics is not None:
                metrics.close()
        return True

    def _read_batches(self) -> Generator[LMBatch, None, None]:
        """Yield the windows of this process from where it stands, lessons with the teacher's vectors."""
        settings, characters, distillation = self.settings, self.config.characters, self._distillation
        lessons = None if distillation is None else distillation.lessons(done=self.state.num_updates)
        stream = WindowStream(
            self.corpus,
            num_rows=settings.num_rows,
            rows=self._processes.share(settings.num_rows),
            num_steps=settings.num_steps,
            seed=settings.seed,
            max_characters=characters.max_characters if characters else None,
            read_words=self.config.words is not None,
            reset_at_sentences=settings.reset_state == "sentence",
            position=self.state.position,
            lessons=lessons,
        )
        with closing(read_ahead(stream)) as batches:
            for batch in batches:
                if distillation is None or batch.lesson is None:
                    yield batch
                else:
                    yield replace(batch, lesson=distillation.answer(batch.lesson))

    def _after(self, report: StepReport, metrics: MetricsWriter | None, watcher: Watcher) -> None:
        """Write metrics, validate and save, each where it is due after an update."""
        settings, update = self.settings, report.update
        is_last = update == self.num_updates
        validates = bool(self._validation) and (is_last or update % settings.validate_every == 0)
        validation = None
        if metrics is not None:
            watcher.on_update(report)
            if is_last or update % settings.log_every == 0:
                metrics.write("train", update, _describe_step(report, sampled=settings.num_samples > 0))
            if validates:
                validation = self._validate(update)
                metrics.write("validation", update, _describe_validation(validation))
                watcher.on_validation(validation)
        if is_last or validates or update % settings.checkpoint_every == 0:
            self._save(validation, watcher)

    def _validate(self, update: int) -> Validation:
        carry = self.settings.reset_state == "never"
        model = Elmo(self.checkpoint(), device=self._processes.device, state="carry" if carry else "zero")
        evaluation = evaluate_text(model, self._validation)
        cosines = {}
        if self._distillation is not None and self.state.heads is not None:
            model = Elmo(self.checkpoint(), device=self._processes.device)
            cosines["teacher_cosine"] = self._distillation.validate(model, self.state.heads, self._validation)
        return Validation(update, evaluation, cosines)

    def _save(self, validation: Validation | None, watcher: Watcher) -> None:
        folder = save_checkpoint(self.folder, self.state, self.checkpoint())
        if not self.is_first:
            return
        perplexity = math.inf if validation is None else validation.evaluation.perplexity
        if validation is not None and (self._best is None or perplexity < self._best[0]):
            self._best = (perplexity, folder.name)
        self._write_best()
        watcher.on_checkpoint(folder)

    def _find_best(self, names: Sequence[str]) -> tuple[float, str] | None:
        """Return the best checkpoint; a process killed before it wrote best.json left it in the metrics."""
        measured = [
            (line["perplexity"], checkpoint_folder(self.folder, line["update"]).name)
            for line in read_metrics(self.folder)
            if line["kind"] == "validation" and isinstance(line.get("perplexity"), float)
        ]
        if (best := read_best(self.folder)) is not None:
            measured.append(best)
        return min((each for each in measured if each[1] in names), default=None)

    def _write_best(self) -> None:
        """Write best.json if it is not up to date, and remove old checkpoints."""
        if self._best is not None and read_best(self.folder) != self._best:
            perplexity, name = self._best
            write_json(self.folder / BEST_FILE, {"perplexity": perplexity, "checkpoint": name})
        remove_old(self.folder, keep=self.settings.keep_checkpoints, best=self._best[1] if self._best else None)


def start_run(
    folder: Path,
    corpus: str | Path,
    settings: TrainSettings,
    *,
    validation: Sequence[str] = (),
    start_from: str | None = None,
    word_vectors: str | None = None,
    device: str = "cpu",
) -> Run:
    """Begin a run in a new or empty folder.

    `validation` are files of raw text, read as the corpus was; `start_from` is a model whose weights training
    starts from; `word_vectors` is a text file of vectors that the word embedding starts from.
    """
    processes = Processes(device)
    if processes.is_first:
        _check_vacant(folder)
    opened = PreparedCorpus.open(corpus)
    initial = None
    if start_from is not None:
        initial, softmax = _open_initial(start_from, opened)
        settings = replace(
            settings, model=replace(initial.config, softmax=None), share_softmax=softmax.shared
        )
    if settings.teacher is not None:
        teacher = replace(settings.teacher, model=_absolute(settings.teacher.model))
        settings = replace(settings, teacher=teacher)
    record = RunRecord(
        corpus=str(Path(corpus).resolve()),
        corpus_hash=_hash_corpus(opened),
        validation=tuple(str(Path(name).resolve()) for name in validation),
        start_from=start_from and _absolute(start_from),
        word_vectors=word_vectors and _absolute(word_vectors),
        settings=settings,
    )
    text = _read_validation(validation, opened)
    run = Run(folder, opened, settings, validation=text, processes=processes, start_from=initial)
    if word_vectors is not None:
        run.set_word_vectors(Path(word_vectors))
    if processes.is_first:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            _check_vacant(folder)  # again, now that no other process can write there
            record.write(folder)
    processes.wait()
    return run


def resume_run(
    folder: Path, *, output: Path | None = None, changes: Mapping[str, Any] | None = None, device: str = "cpu"
) -> Run:
    """Open a run at its last checkpoint, or at its beginning if it has none.

    With `output`, the last checkpoint is copied to a new run there, which resumes with `changes` (by dotted name)
    to the settings; the first run stays as it is.
    """
    processes = Processes(device)
    if output is not None:
        if processes.is_first:
            _copy_run(folder, output, changes or {})
        processes.wait()
        folder = output
    record = RunRecord.read(folder)
    corpus = PreparedCorpus.open(record.corpus)
    if _hash_corpus(corpus) != record.corpus_hash:
        raise CheckpointError(
            f"The corpus in {record.corpus} is not the one this run was started with; prepare that one again: "
            "with another corpus a run cannot resume exactly."
        )
    initial = None
    if record.start_from is not None and not list_checkpoints(folder):
        initial, _ = _open_initial(record.start_from, corpus)
    text = _read_validation(record.validation, corpus)
    run = Run(folder, corpus, record.settings, validation=text, processes=processes, start_from=initial)
    if not run.load_last_checkpoint() and record.word_vectors is not None:
        run.set_word_vectors(Path(record.word_vectors))
    return run


@dataclass(frozen=True)
class RunRecord:
    """What a run is made of: the content of run.json. Paths are absolute, so that it resumes from any folder."""

    corpus: str
    corpus_hash: str
    validation: tuple[str, ...]
    start_from: str | None
    word_vectors: str | None
    settings: TrainSettings
    branched_from: str | None = None  # the run whose last checkpoint this one began with

    def write(self, folder: Path) -> None:
        """Write run.json to a folder."""
        write_json(folder / RUN_FILE, {"format": FORMAT, "version": VERSION, **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> "RunRecord":
        """Read the run.json of a folder; CheckpointError or ConfigError if it is missing or damaged."""
        record = read_run_file(folder)
        content = {name: value for name, value in record.items() if name not in ("format", "version")}
        return parse(cls, content, str(folder / RUN_FILE))


def read_run_file(folder: Path) -> dict[str, Any]:
    """Read the run.json of a folder as it is; CheckpointError if there is none or its format is unknown."""
    if not (folder / RUN_FILE).is_file():
        raise CheckpointError(f"{folder} holds no training run (there is no {RUN_FILE}).")
    record = read_json(folder / RUN_FILE)
    if record.get("format") != FORMAT or record.get("version") != VERSION:
        raise CheckpointError(
            f"{folder / RUN_FILE} has format {record.get('format')!r}, version {record.get('version')!r}; "
            f"{FORMAT!r}, version {VERSION} was expected."
        )
    return record


def count_updates(settings: TrainSettings, corpus: PreparedCorpus) -> int:
    """Return the number of updates of a run."""
    per_update = settings.num_rows * settings.num_steps * settings.windows_per_update
    updates = math.ceil(settings.num_epochs * corpus.num_tokens / per_update)
    return updates if settings.max_updates is None else min(updates, settings.max_updates)


def _copy_run(source: Path, folder: Path, changes: Mapping[str, Any]) -> None:
    """Copy the last checkpoint and the metrics of a run to a new folder, with changed settings."""
    if folder.exists():
        raise ConfigError(f"{folder} already exists; give a new folder, or resume that run with --resume {folder}.")
    record = RunRecord.read(source)
    found = list_checkpoints(source)
    if not found:
        raise CheckpointError(f"The training run in {source} has no checkpoint yet; wait for the first one.")
    before = record.settings.to_dict()
    settings = parse(TrainSettings, change(before, changes), f"The settings for {folder}")
    after = settings.to_dict()
    moved = [name for name in FIXED if _find(before, name) != _find(after, name)]
    if moved:
        raise ConfigError(
            f"A run cannot resume with another {', '.join(moved)}; leave that unchanged, or start a new run from "
            f"this one's weights with --init {source}."
        )
    done = int(found[-1].name.rpartition("-")[2])
    if (last := count_updates(settings, PreparedCorpus.open(record.corpus))) <= done:
        raise ConfigError(
            f"{source} stands at update {done}, and with max_updates ({settings.max_updates}) and num_epochs "
            f"({settings.num_epochs:g}) the run ends at {last}; raise them."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with writing_aside(folder) as aside:
            shutil.copytree(found[-1], aside / CHECKPOINTS / found[-1].name)
            if (source / METRICS_FILE).is_file():
                shutil.copy(source / METRICS_FILE, aside / METRICS_FILE)
            replace(record, settings=settings, branched_from=str(source.resolve())).write(aside)
    except OSError as error:
        reason = error.strerror or "files could not be copied"
        raise CheckpointError(
            f"{folder} could not be copied from {source}: {reason}; fix this and run the same command again."
        ) from error


def _find(settings: Mapping[str, Any], dotted: str) -> Any:
    value: Any = settings
    for name in dotted.split("."):
        value = None if value is None else value[name]
    return value


def _lock(folder: Path) -> AbstractContextManager[None]:
    refusal = f"Another process is training in {folder}; wait for it, or stop it first."
    return holding(folder, refusal, folder / CHECKPOINTS)


def _check_vacant(folder: Path) -> None:
    if not is_vacant(folder):
        raise ConfigError(
            f"{folder} is not empty; give a new folder, or resume the run in it with --resume {folder}."
        )


def _open_initial(source: str, corpus: PreparedCorpus) -> tuple[Checkpoint, SoftmaxConfig]:
    """Open a model to start from, and its softmax; ConfigError if it cannot be trained on the corpus."""
    checkpoint = open_checkpoint(source)
    if checkpoint.config.softmax is None:
        raise ConfigError(
            f"{source} has no softmax, so its language model cannot be trained further; add one with elmo vocab."
        )
    if checkpoint.vocabulary != corpus.vocabulary:
        raise ConfigError(
            f"{source} and the corpus have different vocabularies; prepare the corpus with --vocabulary "
            "vocabulary.txt of the model, or change the model's with elmo vocab."
        )
    return checkpoint, checkpoint.config.softmax


def _absolute(name: str) -> str:
    """Return the absolute path of an existing file or folder; other names (on the hub) as they are."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def _hash_corpus(corpus: PreparedCorpus) -> str:
    """Return the hash of a corpus's content; its manifest has the hash of every file."""
    content = {name: corpus.manifest[name] for name in ("counts", "files", "shards")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read_validation(names: Sequence[str], corpus: PreparedCorpus) -> list[list[str]]:
    """Read the sentences of the validation files, split as the corpus was."""
    recorded = corpus.manifest["settings"]
    settings = PrepareSettings(
        **{name: recorded[name] for name in ("field", "split", "language", "split_on_spaces")}
    )
    found = [words for name in names for words in read_sentences([name], settings, stdin_copy=Path("-"))]
    if names and not found:
        raise ConfigError(f"The validation text in {', '.join(names)} has no words; give another file.")
    return found


def _add_sizes(settings: TrainSettings, num_words: int) -> ModelConfig:
    """Return the model's configuration with the sizes that follow from the vocabulary of the corpus."""
    config = settings.model
    words = replace(config.words, num_words=num_words) if config.words else None
    return replace(config, words=words, softmax=SoftmaxConfig(num_words, shared=settings.share_softmax))


def _count_vocabulary(corpus: PreparedCorpus) -> tuple[int, ...]:
    """Return how often each word of the vocabulary occurs in the corpus; a boundary once per sentence."""
    counts = np.bincount(corpus.targets[1:], weights=corpus.word_counts[1:], minlength=len(corpus.vocabulary))
    counts[Vocabulary(corpus.vocabulary).boundaries()] = corpus.num_sentences
    return tuple(counts.astype(np.int64).tolist())


def _set_frequency_bias(bilm: BiLM, word_counts: Sequence[int]) -> None:
    """Start the bias of each word at the log of its share of the corpus.

    AdamW moves a weight by about its learning rate, so that reaching a bias of -10 would take thousands of updates.
    """
    counts = np.array(word_counts, dtype=np.float64)
    bias = torch.from_numpy(np.log((counts + 1) / (counts + 1).sum()))
    assert bilm.softmaxes is not None
    with torch.no_grad():
        for softmax in bilm.softmaxes:
            softmax.bias.copy_(bias)


def _describe_step(report: StepReport, *, sampled: bool) -> dict[str, float]:
    kind = "sampled" if sampled else "full"
    return {
        f"left_to_right_{kind}_loss": report.left_to_right_loss,
        f"right_to_left_{kind}_loss": report.right_to_left_loss,
        "gradient_norm": report.gradient_norm,
        "learning_rate": report.learning_rate,
        "num_words": report.num_words,
        **report.cosines,
    }


def _describe_validation(validation: Validation) -> dict[str, float]:
    evaluation = validation.evaluation
    return {
        "perplexity": evaluation.perplexity,
        "left_to_right_perplexity": evaluation.left_to_right_perplexity,
        "right_to_left_perplexity": evaluation.right_to_left_perplexity,
        "unknown_rate": evaluation.unknown_rate,
        **validation.cosines,
    }
