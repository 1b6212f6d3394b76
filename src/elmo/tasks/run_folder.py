"""The folder of a run while it trains: what it was started with, and where it stands after its last epoch."""

import dataclasses
import hashlib
import io
import json
import pickle
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from elmo.config import parse
from elmo.errors import CheckpointError, InputError, first_line
from elmo.files.durable import holding, is_vacant, remove, replace_file
from elmo.tasks.fit import FitState
from elmo.tasks.folder import BILM_FOLDER, read_json
from elmo.tasks.layer_store import DEFAULT_CACHE_BYTES
from elmo.tasks.readers.formats import ReadSettings
from elmo.tasks.settings import TaskSettings

TRAINING, RUN_FILE, STATE_FILE, SCORES_FILE = "training", "run.json", "state.pt", "scores.json"


@dataclass(frozen=True)
class TaskInputs:
    """What a run is trained on, besides its settings."""

    family: str
    train: str
    dev: str | None = None
    test: str | None = None
    model: str | None = None  # None: the default model
    precision: str = "float32"
    word_vectors: str | None = None
    read: ReadSettings = field(default_factory=ReadSettings)
    label_map: dict[str, str] = field(default_factory=dict)
    cache_folder: str | None = None
    cache_bytes: int = DEFAULT_CACHE_BYTES
    carry_bilm: bool = False
    sense_index: str | None = None  # WordNet's index.sense, for lemmas that training does not have
    device: str = "cpu"


def check_new(folder: Path) -> None:
    """Refuse a folder that holds something."""
    if not is_vacant(folder, TRAINING):
        raise InputError(f"{folder} exists already; give a new folder, or --resume it to go on with its run.")


def start(inputs: TaskInputs, settings: TaskSettings, folder: Path) -> None:
    """Make the folder of a new run; what a process left that was killed before it wrote anything is removed."""
    check_new(folder)
    found = absolute(inputs)  # a run may be resumed from anywhere
    run = {"inputs": dataclasses.asdict(found), "settings": settings.to_dict(), "data": hash_inputs(found)}
    (folder / TRAINING).mkdir(parents=True, exist_ok=True)
    with holding_run(folder):
        check_new(folder)  # now that we are alone
        replace_file(folder / TRAINING / RUN_FILE, json.dumps(run, indent=1, ensure_ascii=False).encode())


def holding_run(folder: Path) -> AbstractContextManager[None]:
    """Keep other processes out of the folder of a run."""
    refusal = f"Another process is training in {folder}; wait for it, or stop it first."
    return holding(folder / TRAINING, refusal, folder, folder / BILM_FOLDER)


def absolute(inputs: TaskInputs) -> TaskInputs:
    """Return the inputs with the whole path of every file or folder that exists."""
    names = ("train", "dev", "test", "model", "word_vectors", "cache_folder", "sense_index")
    given = {name: getattr(inputs, name) for name in names}
    found: dict[str, Any] = {
        name: str(Path(path).expanduser().resolve())
        for name, path in given.items()
        if path is not None and (name == "cache_folder" or Path(path).expanduser().exists())
    }
    return dataclasses.replace(inputs, **found)


def is_started(folder: Path) -> bool:
    """Whether a folder holds a run that can be resumed."""
    return (folder / TRAINING / RUN_FILE).is_file()


def read_run(folder: Path) -> tuple[TaskInputs, TaskSettings]:
    """Give what a run was started with; its files must be as they were."""
    if not is_started(folder):
        raise InputError(f"{folder} is no run to go on with: it has no {TRAINING}/{RUN_FILE}.")
    path = folder / TRAINING / RUN_FILE
    run = read_json(path)
    try:
        inputs = TaskInputs(**{**run["inputs"], "read": ReadSettings(**run["inputs"]["read"])})
        data, settings = dict(run["data"]), run["settings"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged ({first_line(error)}); start a new run.") from error
    for name, known in data.items():
        if hash_file(name) != known:
            raise InputError(f"{name} has changed since the run in {folder} began; start a new run.")
    return inputs, parse(TaskSettings, settings, f"{folder / TRAINING / RUN_FILE}")


def hash_inputs(inputs: TaskInputs) -> dict[str, str]:
    """Give the hash of each file that is read."""
    paths = (inputs.train, inputs.dev, inputs.test, inputs.word_vectors, inputs.sense_index)
    return {path: hash_file(path) for path in paths if path is not None}


def hash_file(path: str) -> str:
    """Give the SHA-256 of a file."""
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            for block in iter(lambda: file.read(2**20), b""):
                digest.update(block)
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}.") from error
    return digest.hexdigest()


def is_done(folder: Path) -> bool:
    """Tell whether a run has ended."""
    return (folder / SCORES_FILE).is_file()


def finish(folder: Path) -> dict[str, Any]:
    """Return the scores of a run that has ended, and remove the state that a kill right after its end left."""
    with holding_run(folder):
        remove(folder / TRAINING / STATE_FILE)
    scores = read_json(folder / SCORES_FILE)
    if not isinstance(scores, dict) or not {"dev", "test", "best_epoch"} <= scores.keys():
        raise CheckpointError(f"{folder / SCORES_FILE} is damaged; start a new run.")
    return scores


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
