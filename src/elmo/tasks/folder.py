"""A trained task at rest: task.json, words.json, weights.safetensors, and bilm/ if it carries its biLM."""

import dataclasses
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmo.config import LARGEST_DIM, parse
from elmo.errors import CheckpointError, ConfigError, first_line
from elmo.files.durable import writing_files
from elmo.tasks.build import BilmShape, Vocabularies
from elmo.tasks.families.family import Labels
from elmo.tasks.readers.formats import ReadSettings
from elmo.tasks.settings import FAMILY_NAMES, TaskSettings
from elmo.tasks.word_vectors import WordList

TASK_FILE, WORDS_FILE, WEIGHTS_FILE, BILM_FOLDER = "task.json", "words.json", "weights.safetensors", "bilm"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class BilmReference:
    """The biLM a task was trained with: where it was, and the hash of what it is."""

    source: str | None  # None: the default model
    hash: str
    num_layers: int
    dim: int
    is_carried: bool = False
    precision: str = "float32"

    @property
    def shape(self) -> BilmShape:
        """Its layers and their size."""
        return BilmShape(self.num_layers, self.dim)


@dataclass(frozen=True)
class TaskDescription:
    """What task.json says."""

    family: str
    settings: TaskSettings
    labels: Labels
    read: ReadSettings
    bilm: BilmReference | None
    label_map: dict[str, str] = field(default_factory=dict)


def write_task(
    folder: Path, description: TaskDescription, words: Vocabularies, weights: dict[str, Tensor]
) -> None:
    """Write a task; files of the same names are replaced, others stay."""
    content = {
        "format_version": FORMAT_VERSION,
        "family": description.family,
        "settings": description.settings.to_dict(),
        "labels": description.labels,
        "read": dataclasses.asdict(description.read),
        "bilm": None if description.bilm is None else dataclasses.asdict(description.bilm),
        "label_map": description.label_map,
    }
    listed = {
        "learned": words.learned.words,
        "pretrained": words.pretrained.words,
        "pretrained_dim": words.pretrained_dim,
    }
    # task.json last: a folder that has it has everything.
    with writing_files(folder, (WEIGHTS_FILE, WORDS_FILE, TASK_FILE)) as aside:
        (aside / WORDS_FILE).write_text(json.dumps(listed, ensure_ascii=False), encoding="utf-8")
        save_file({name: weight.contiguous() for name, weight in weights.items()}, aside / WEIGHTS_FILE)
        shutil.copymode(aside / WORDS_FILE, aside / WEIGHTS_FILE)  # safetensors writes for the owner alone
        (aside / TASK_FILE).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def read_task(folder: Path) -> tuple[TaskDescription, Vocabularies, dict[str, Tensor]]:
    """Read what write_task wrote."""
    if not (folder / TASK_FILE).is_file():
        raise CheckpointError(f"{folder} is no trained task: it has no {TASK_FILE}.")
    try:
        content = json.loads((folder / TASK_FILE).read_text(encoding="utf-8"))
        listed = json.loads((folder / WORDS_FILE).read_text(encoding="utf-8"))
        weights = load_file(folder / WEIGHTS_FILE)
        if content["format_version"] != FORMAT_VERSION:
            raise CheckpointError(
                f"{folder} is of version {content['format_version']}, but this program reads version "
                f"{FORMAT_VERSION}; use the program that wrote it, or train again."
            )
        if content["family"] not in FAMILY_NAMES:
            raise CheckpointError(
                f"{folder} has the family {content['family']!r}; known are {', '.join(FAMILY_NAMES)}."
            )
        bilm = content["bilm"]
        description = TaskDescription(
            content["family"],
            parse(TaskSettings, content["settings"], f"{folder / TASK_FILE}"),
            content["labels"],
            ReadSettings(**content["read"]),
            None if bilm is None else parse(BilmReference, bilm, f"{folder / TASK_FILE}"),
            content["label_map"],
        )
        _check(description, listed)
        words = Vocabularies(WordList(listed["learned"]), WordList(listed["pretrained"]), listed["pretrained_dim"])
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError, ConfigError
    ) as error:  # fmt: skip
        raise CheckpointError(
            f"{folder} is damaged: {first_line(error)}; copy it again or train again."
        ) from error
    return description, words, weights


def _check(description: TaskDescription, listed: Any) -> None:
    """Raise ValueError for what no task has."""
    for name in ("learned", "pretrained"):
        words = listed[name]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{WORDS_FILE} has no list of words under {name!r}")
    if type(listed["pretrained_dim"]) is not int or not 0 <= listed["pretrained_dim"] <= LARGEST_DIM:
        raise ValueError(f"{WORDS_FILE} has the pretrained_dim {listed['pretrained_dim']!r:.40}")
    if not isinstance(description.labels, dict):
        raise ValueError(f"{TASK_FILE} has no labels")
    for name in ("labels", "tags"):
        names = description.labels.get(name, [])
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise ValueError(f"{TASK_FILE} has no list of names under {name!r} in its labels")
    renamed, read = description.label_map, description.read
    if not isinstance(renamed, dict) or not all(isinstance(name, str) for name in renamed.values()):
        raise ValueError(f"{TASK_FILE} has a label_map that is none")
    if not isinstance(read.columns, dict) or not all(isinstance(name, str) for name in read.columns.values()):
        raise ValueError(f"{TASK_FILE} has columns that are none")
    if not isinstance(read.format, str | None) or not isinstance(read.delimiter, str | None):
        raise ValueError(f"{TASK_FILE} says in no readable way how files are read")


def read_json(path: Path) -> Any:
    """Read a JSON file that a run wrote."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} could not be read: {first_line(error)}.") from error
