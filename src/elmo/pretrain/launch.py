"""Training from Python and the command line: start a run in a new folder, or resume one from its last checkpoint.

A run is a folder with a run.json. Killed at any moment, it resumes exactly.
"""

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import write_json
from elmo.checkpoint.location import read_json
from elmo.checkpoint.open import open_checkpoint
from elmo.checkpoint.source import RUN_FILE, list_checkpoints
from elmo.config import ModelConfig, SoftmaxConfig, TokenizationConfig, parse
from elmo.corpus.prepared import PreparedCorpus
from elmo.corpus.settings import TextSettings
from elmo.corpus.text import read_sentences
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.files.durable import is_vacant
from elmo.heap import reuse_large_blocks
from elmo.pretrain.checkpoints import read_model
from elmo.pretrain.distributed import Processes
from elmo.pretrain.metrics import TrainingReport
from elmo.pretrain.run import Run
from elmo.pretrain.settings import TrainSettings, read_settings
from elmo.progress import StatusBar

FORMAT, VERSION = "modern-elmo-run", 1
SECOND_CTRL_C_SECONDS = 1.0  # an earlier second Ctrl-C is the same one, forwarded by torchrun


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training call. Elmo.from_pretrained opens the folder."""

    folder: Path
    num_updates: int
    num_words: int  # training words so far
    perplexity: float | None  # at the last validation of this call, with the full softmax
    stopped_by: int | None  # the signal after which the run saved and stopped; None if it is done
    is_first: bool  # whether this process writes files and reports

    @property
    def is_done(self) -> bool:
        """Whether all updates are done; if not, resume_training continues."""
        return self.stopped_by is None


def train(
    corpus: str | Path,
    output: str | Path,
    *,
    preset: str | None = None,
    config: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    validation: Sequence[str | Path] = (),
    init: str | None = None,
    device: str = "cpu",
    show_progress_bar: bool = False,
) -> TrainingResult:
    """Train a bidirectional language model on a prepared corpus; `output` is the new folder of the run.

    Settings come from a preset, then from `config`, a TOML file, then from `changes` by dotted name, as in
    {"optimizer.learning_rate": 0.1, "teacher.model": "..."}; each overrides the previous. `validation` are files of
    held-out raw text. Training starts from the weights of the model `init`, or from random weights. After SIGINT
    (Ctrl-C) or SIGTERM, training saves and stops after the current update: see TrainingResult.stopped_by.
    """
    changes = dict(changes or {})
    model_settings = [name for name in changes if name.split(".")[0] in ("model", "share_softmax", "softmax_bias")]
    if init is not None and model_settings:
        raise InputError(
            f"A run that starts from a model (--init) has the configuration of that model, so "
            f"{', '.join(model_settings)} cannot be set; leave that out."
        )
    settings = read_settings(preset=preset, file=None if config is None else Path(config), changes=changes)
    run = start_run(Path(output), corpus, settings, validation=validation, start_from=init, device=device)
    return _train(run, show_progress_bar=show_progress_bar)


def resume_training(run: str | Path, *, device: str = "cpu", show_progress_bar: bool = False) -> TrainingResult:
    """Resume a run from its last checkpoint, exactly."""
    return _train(resume_run(Path(run), device=device), show_progress_bar=show_progress_bar)


def _train(run: Run, *, show_progress_bar: bool) -> TrainingResult:
    reuse_large_blocks()
    shown = show_progress_bar and run.is_first
    try:
        with StatusBar(run.num_updates, shown=shown) as bar, catch_signals() as received:
            report = TrainingReport(run, bar) if shown else None
            is_done = run.train(report, should_stop=lambda: bool(received))
    finally:
        run.close()
    # Another process may have received the signal.
    stopped_by = None if is_done else (received or [signal.SIGTERM])[0]
    state = run.state
    return TrainingResult(run.folder, state.num_updates, state.num_words, run.perplexity, stopped_by, run.is_first)


@contextmanager
def catch_signals() -> Iterator[list[int]]:
    """Catch SIGTERM and Ctrl-C, so that a run can save first; yield the list that receives the signal.

    A second Ctrl-C raises KeyboardInterrupt.
    """
    received: list[int] = []
    received_at = 0.0

    def receive(signum: int, frame: FrameType | None) -> None:
        nonlocal received_at
        if not received:
            received.append(signum)
            received_at = time.monotonic()
        elif signum == signal.SIGINT and time.monotonic() - received_at > SECOND_CTRL_C_SECONDS:
            raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()  # only there signals can be caught
    handlers = {signum: signal.signal(signum, receive) for signum in (signal.SIGTERM, signal.SIGINT) if is_main}
    try:
        yield received
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def start_run(
    folder: Path,
    corpus: str | Path,
    settings: TrainSettings,
    *,
    validation: Sequence[str | Path] = (),
    start_from: str | None = None,
    device: str = "cpu",
) -> Run:
    """Start a run in a new or empty folder.

    `validation` are files of raw text, read like the corpus; training starts from the weights of the model
    `start_from`, or from random weights.
    """
    processes = Processes(device)
    if processes.is_first and not is_vacant(folder):
        raise ConfigError(f"{folder} is not empty; give a new folder, or resume the run in it with --resume {folder}.")
    opened = PreparedCorpus.open(corpus)
    initial = None
    if start_from is not None:
        initial, softmax = _open_initial(start_from, opened)
        settings = replace(settings, model=replace(initial.config, softmax=None), share_softmax=softmax.shared)
    config = _add_tokenization(settings.model, opened, is_new=initial is None)
    record = RunRecord(
        corpus=str(Path(corpus).resolve()),
        corpus_hash=opened.content_hash(),
        validation=tuple(str(Path(name).resolve()) for name in validation),
        start_from=start_from and _absolute(start_from),
        settings=_make_absolute(replace(settings, model=config)),
    )
    run = _open_run(folder, record, opened, initial, processes)
    if processes.is_first:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / RUN_FILE, {"format": FORMAT, "version": VERSION, **asdict(record)})
    return run


def resume_run(folder: Path, *, device: str = "cpu") -> Run:
    """Open a run at its last checkpoint, or at its beginning if it has none."""
    processes = Processes(device)
    record = _read_record(folder)
    corpus = PreparedCorpus.open(record.corpus)
    if corpus.content_hash() != record.corpus_hash:
        raise CheckpointError(
            f"The corpus in {record.corpus} is not the one this run was started with; prepare that one again: "
            "with another corpus a run cannot resume exactly."
        )
    initial = None
    if checkpoints := list_checkpoints(folder):
        initial = read_model(checkpoints[-1])
    elif record.start_from is not None:
        initial, _ = _open_initial(record.start_from, corpus)
    return _open_run(folder, record, corpus, initial, processes)


@dataclass(frozen=True)
class RunRecord:
    """The content of run.json. Paths are absolute, so that a run resumes from any folder."""

    corpus: str
    corpus_hash: str
    validation: tuple[str, ...]
    start_from: str | None
    settings: TrainSettings


def _read_record(folder: Path) -> RunRecord:
    path = folder / RUN_FILE
    if not path.is_file():
        raise CheckpointError(f"{folder} holds no training run ({RUN_FILE} is missing).")
    record = read_json(path)
    format_name, version = record.pop("format", None), record.pop("version", None)
    if (format_name, version) != (FORMAT, VERSION):
        raise CheckpointError(
            f"{path} has format {format_name!r}, version {version!r}; {FORMAT!r}, version {VERSION} was expected."
        )
    try:
        return parse(RunRecord, record, str(path))
    except ConfigError as error:
        raise CheckpointError(
            f"{str(error).rstrip('.')}; start a new run, with --init {path.parent} to keep the weights."
        ) from error


def _open_run(
    folder: Path, record: RunRecord, corpus: PreparedCorpus, initial: Checkpoint | None, processes: Processes
) -> Run:
    settings, names = _read_text_settings(corpus), record.validation
    validation = [words for name in names for words in read_sentences([name], settings, stdin_copy=Path("-"))]
    if names and not validation:
        raise ConfigError(f"The validation text in {', '.join(names)} has no words; give another file.")
    return Run(folder, corpus, record.settings, validation=validation, processes=processes, start_from=initial)


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


def _make_absolute(settings: TrainSettings) -> TrainSettings:
    if (teacher := settings.teacher) is None:
        return settings
    corpus, cache = (name and str(Path(name).resolve()) for name in (teacher.corpus, teacher.cache))
    return replace(settings, teacher=replace(teacher, model=_absolute(teacher.model), corpus=corpus, cache=cache))


def _add_tokenization(config: ModelConfig, corpus: PreparedCorpus, *, is_new: bool) -> ModelConfig:
    """Return the configuration with the tokenization of the corpus; ConfigError if it states another one.

    Only a new model splits text on spaces because its corpus does; a model that is adapted keeps its tokenization.
    """
    text, stated = _read_text_settings(corpus), config.tokenization
    if stated == TokenizationConfig():
        return config if text.split_on_spaces and not is_new else replace(config, tokenization=text.tokenization)
    if stated.scripts != text.tokenization.scripts or (stated.split_on_spaces and not text.split_on_spaces):
        raise ConfigError(
            f"The corpus {corpus.folder} is not tokenized like the model; prepare it again with the model's "
            f"--characters ({', '.join(stated.scripts) or 'none'}) and --split-on-spaces ({stated.split_on_spaces})."
        )
    return config


def _read_text_settings(corpus: PreparedCorpus) -> TextSettings:
    """Return the settings by which the text of the corpus was split into sentences and words."""
    recorded, names = corpus.manifest["settings"], {field.name for field in fields(TextSettings)}
    return TextSettings.from_dict({name: value for name, value in recorded.items() if name in names})
