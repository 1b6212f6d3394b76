"""Start a run in a new folder, or resume one from its last checkpoint. run.json says what a run is made of."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import write_json
from elmo.checkpoint.location import read_json
from elmo.checkpoint.open import open_checkpoint
from elmo.checkpoint.run_folder import RUN_FILE, list_checkpoints
from elmo.config import parse
from elmo.corpus.prepared import PreparedCorpus
from elmo.corpus.settings import PrepareSettings
from elmo.corpus.text import read_sentences
from elmo.errors import CheckpointError, ConfigError
from elmo.files.durable import is_vacant
from elmo.pretrain.distributed import Processes
from elmo.pretrain.run import Run, holding_run
from elmo.pretrain.settings import TrainSettings
from elmo.text.word_vectors import read_word_vectors

FORMAT, VERSION = "modern-elmo-run", 1


@dataclass(frozen=True)
class Inputs:
    """What a run reads besides its settings."""

    corpus: str  # folder that `elmo prepare` wrote
    validation: tuple[str, ...] = ()  # files of raw text, read as the corpus was
    start_from: str | None = None  # a model whose weights training begins with
    word_vectors: str | None = None  # a text file of vectors that the word embedding begins with


def start(folder: Path, inputs: Inputs, settings: TrainSettings, *, device: str = "cpu") -> Run:
    """Make a new run; its folder must be new or empty."""
    processes = Processes(device)
    if processes.is_first:
        _check_vacant(folder)
    corpus = PreparedCorpus.open(inputs.corpus)
    if inputs.start_from is not None:
        # What the model is made of is given with its weights.
        config = open_checkpoint(inputs.start_from).config
        shared = config.softmax is None or config.softmax.shared
        settings = replace(settings, model=config, share_softmax=shared)
    if settings.teacher is not None and Path(settings.teacher.model).exists():
        # A run may be resumed from anywhere.
        folder_of_teacher = str(Path(settings.teacher.model).resolve())
        settings = replace(settings, teacher=replace(settings.teacher, model=folder_of_teacher))
    run = _make(folder, inputs, settings, corpus, processes)
    if inputs.word_vectors is not None:
        _set_word_vectors(run, Path(inputs.word_vectors))
    if processes.is_first:
        record = {
            "format": FORMAT,
            "version": VERSION,
            "corpus_hash": _identity(corpus),
            "corpus": str(Path(inputs.corpus).resolve()),
            "validation": [str(Path(name).resolve()) for name in inputs.validation],
            "start_from": _absolute(inputs.start_from),
            "word_vectors": _absolute(inputs.word_vectors),
            "settings": settings.to_dict(),
        }
        folder.mkdir(parents=True, exist_ok=True)
        with holding_run(folder):
            _check_vacant(folder)  # now that we are alone
            write_json(folder / RUN_FILE, record)
    processes.wait()
    return run


def _check_vacant(folder: Path) -> None:
    if not is_vacant(folder):
        raise ConfigError(
            f"{folder} is not empty; give a new folder, or go on with the run in it by --resume {folder}."
        )


def resume(folder: Path, *, device: str = "cpu") -> Run:
    """Open a run where its last checkpoint was written; from the beginning if it wrote none."""
    return reopen(folder, Processes(device))


def reopen(folder: Path, processes: Processes) -> Run:
    """Do what resume does, as one of some processes."""
    record = read_inputs(folder)
    settings = parse(TrainSettings, record["settings"], f"The settings in {folder / RUN_FILE}")
    corpus = PreparedCorpus.open(record["corpus"])
    if _identity(corpus) != record["corpus_hash"]:
        raise CheckpointError(
            f"The corpus in {record['corpus']} is not the one this run was started with; prepare that one again, "
            "for a run cannot go on exactly with another."
        )
    # What training began with is in the checkpoints, if there is one already.
    start_from = None if list_checkpoints(folder) else record["start_from"]
    inputs = Inputs(record["corpus"], tuple(record["validation"]), start_from, record["word_vectors"])
    run = _make(folder, inputs, settings, corpus, processes)
    if not run.resume() and inputs.word_vectors is not None:
        _set_word_vectors(run, Path(inputs.word_vectors))
    return run


def _absolute(given: str | None) -> str | None:
    """Give the whole path of a file or folder, for a run may be resumed from anywhere; other names as they are."""
    return str(Path(given).resolve()) if given is not None and Path(given).exists() else given


def read_run(folder: Path) -> dict[str, Any]:
    """Read the record of a run, or say that there is none."""
    if not (folder / RUN_FILE).is_file():
        raise CheckpointError(f"{folder} holds no training run (there is no {RUN_FILE}).")
    record = read_json(folder / RUN_FILE)
    if record.get("format") != FORMAT or record.get("version") != VERSION:
        raise CheckpointError(
            f"{folder / RUN_FILE} says format {record.get('format')!r}, version {record.get('version')!r}; "
            f"{FORMAT!r}, version {VERSION} was expected."
        )
    return record


def read_inputs(folder: Path) -> dict[str, Any]:
    """Read the record of a run with all that is needed to resume it; CheckpointError if something is missing."""
    record = read_run(folder)
    kinds: dict[str, Any] = {
        "corpus": str, "corpus_hash": str, "validation": list, "settings": dict,
        "start_from": str | None, "word_vectors": str | None,
    }  # fmt: skip
    wrong = [name for name, kind in kinds.items() if name not in record or not isinstance(record[name], kind)]
    if wrong or not all(isinstance(name, str) for name in record["validation"]):
        raise CheckpointError(
            f"{folder / RUN_FILE} is damaged: {', '.join(wrong or ['validation'])} is missing or of another kind; "
            "copy the run again."
        )
    return record


def _make(
    folder: Path, inputs: Inputs, settings: TrainSettings, corpus: PreparedCorpus, processes: Processes
) -> Run:
    validation = _read_validation(inputs.validation, corpus)
    start_from = None
    if inputs.start_from is not None:
        start_from = open_checkpoint(inputs.start_from)
        _check_vocabulary(start_from, corpus, inputs.start_from)
    return Run(folder, corpus, settings, validation=validation, processes=processes, start_from=start_from)


def _read_validation(names: Sequence[str], corpus: PreparedCorpus) -> list[list[str]]:
    stated = corpus.manifest["settings"]
    settings = PrepareSettings(
        **{name: stated[name] for name in ("field", "split", "language", "split_on_spaces")}
    )
    found = [words for name in names for words in read_sentences([name], settings, stdin_copy=Path("-"))]
    if names and not found:
        raise ConfigError(f"The validation text in {', '.join(names)} has no words; give another file.")
    return found


def _set_word_vectors(run: Run, path: Path) -> None:
    """Put given vectors in the rows of the words that have one; the others stay random."""
    embedding = run.state.bilm.tokens.words
    if embedding is None:
        raise ConfigError(
            "word_vectors was given, but the model has no word embedding to begin with them; set model.words, for "
            "example by --set model.words.embedding_dim=50."
        )
    found = read_word_vectors(path, run.corpus.vocabulary, embedding.embedding_dim)
    with torch.no_grad():
        for number, word in enumerate(run.corpus.vocabulary):
            if word in found:
                embedding.weight[number] = torch.from_numpy(found[word])


def _check_vocabulary(checkpoint: Checkpoint, corpus: PreparedCorpus, source: str) -> None:
    if checkpoint.config.softmax is None:
        raise ConfigError(
            f"{source} has no softmax, so its language model cannot be trained further; add one with elmo vocab."
        )
    if checkpoint.vocabulary != corpus.vocabulary:
        raise ConfigError(
            f"{source} and the corpus have different vocabularies; prepare the corpus with --vocabulary "
            "vocabulary.txt of the model, or change the model's with elmo vocab."
        )


def _identity(corpus: PreparedCorpus) -> str:
    """Give the hash of what a corpus holds; its manifest has the hash of every file."""
    content = {name: corpus.manifest[name] for name in ("counts", "files", "shards")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
