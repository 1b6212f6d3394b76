"""A trained task at rest: task.json, words.json, weights.safetensors, and bilm/ if it carries its biLM.

Here, too, its description becomes a network: build_network is the only place for that.
"""

import dataclasses
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmo.config import LARGEST_DIM, parse
from elmo.errors import CheckpointError, ConfigError, first_line
from elmo.files.durable import writing_files
from elmo.layer import ElmoLayer, LayerMixes
from elmo.model import Elmo
from elmo.tasks.encoder import BilmShape, Encoder
from elmo.tasks.families import Labels, TaskNetwork, choose_family
from elmo.tasks.settings import FAMILY_NAMES, KINDS, ReadSettings, TaskSettings
from elmo.tasks.word_features import FIRST_WORD, Vocabularies, WordFeatures, WordList

TASK_FILE, WORDS_FILE, WEIGHTS_FILE, BILM_FOLDER = "task.json", "words.json", "weights.safetensors", "bilm"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class BilmReference:
    """The biLM a task was trained with: where it was, and the fingerprints of what its vectors depend on."""

    source: str | None  # None: the default model
    hash: str
    num_layers: int
    dim: int
    is_carried: bool = False
    precision: str = "float32"
    context_dim: int = 0  # of the context layer, if the task reads it
    context_hash: str | None = None

    @property
    def shape(self) -> BilmShape:
        """Its layers and their dimensions."""
        return BilmShape(self.num_layers, self.dim, self.context_dim)


@dataclass(frozen=True)
class TaskDescription:
    """The content of task.json."""

    family: str
    settings: TaskSettings
    labels: Labels
    read: ReadSettings
    bilm: BilmReference | None
    label_map: dict[str, str] = field(default_factory=dict)


def build_network(
    family: str,
    settings: TaskSettings,
    labels: Labels,
    words: Vocabularies,
    bilm: BilmShape | None,
    *,
    tuned: Elmo | None = None,
    vectors: npt.NDArray[np.float32] | None = None,
) -> TaskNetwork:
    """Build a network with random weights; `tuned` is the model to train along, `vectors` the pretrained ones.

    Without `vectors` the pretrained rows are zeros, to be loaded.
    """
    pretrained = None
    if words.pretrained_dim:
        shape = (len(words.pretrained), words.pretrained_dim)
        pretrained = torch.zeros(shape) if vectors is None else torch.from_numpy(vectors)
    num_learned = len(words.learned) if len(words.learned) > FIRST_WORD else 0

    def make_encoder(extra_dim: int) -> Encoder:
        features = WordFeatures(settings.words, num_learned=num_learned, pretrained=pretrained)
        return Encoder(features, _build_elmo(settings, bilm, tuned), settings, bilm, extra_dim=extra_dim)

    network: TaskNetwork = choose_family(family).network(make_encoder, labels, settings)
    return network


def _build_elmo(
    settings: TaskSettings, bilm: BilmShape | None, tuned: Elmo | None
) -> LayerMixes | ElmoLayer | None:
    elmo = settings.elmo
    if elmo.where == "none":
        return None
    num_mixes = 2 if elmo.where == "both" else 1
    if elmo.tune:
        assert tuned is not None
        return ElmoLayer(tuned, num_mixes=num_mixes, dropout=elmo.dropout, layers=elmo.layers, tune_bilm=True)
    assert bilm is not None
    num_layers = bilm.num_layers + (elmo.context == "mix")
    return LayerMixes(num_layers, bilm.dim, num_mixes=num_mixes, dropout=elmo.dropout, layers=elmo.layers)


def write_task(
    folder: Path, description: TaskDescription, words: Vocabularies, weights: dict[str, Tensor]
) -> None:
    """Write a task; files of the same names are replaced, others stay."""
    content = {"format_version": FORMAT_VERSION, **dataclasses.asdict(description)}
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
    """Read what write_task wrote; CheckpointError for anything else."""
    if not (folder / TASK_FILE).is_file():
        raise CheckpointError(f"{folder} is not a trained task: it has no {TASK_FILE}.")
    try:
        content = json.loads((folder / TASK_FILE).read_text(encoding="utf-8"))
        listed = json.loads((folder / WORDS_FILE).read_text(encoding="utf-8"))
        weights = load_file(folder / WEIGHTS_FILE)
        if content["format_version"] != FORMAT_VERSION:
            raise CheckpointError(
                f"{folder} is of version {content['format_version']}, but this program reads version "
                f"{FORMAT_VERSION}; use the program that wrote it, or train again."
            )
        family, bilm = content["family"], content["bilm"]
        if not isinstance(family, str) or family not in KINDS:
            raise CheckpointError(f"{folder} has the family {family!r}; known are {', '.join(FAMILY_NAMES)}.")
        description = TaskDescription(
            KINDS[family][0],
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
    """Raise ValueError for values that no task has."""
    for name in ("learned", "pretrained"):
        if not _is_list_of_names(listed[name]):
            raise ValueError(f"{WORDS_FILE} has no list of words under {name!r}")
    if type(listed["pretrained_dim"]) is not int or not 0 <= listed["pretrained_dim"] <= LARGEST_DIM:
        raise ValueError(f"{WORDS_FILE} has the pretrained_dim {listed['pretrained_dim']!r:.40}")
    if not isinstance(description.labels, dict):
        raise ValueError(f"{TASK_FILE} has no labels")
    for name in ("labels", "tags"):
        if not _is_list_of_names(description.labels.get(name, [])):
            raise ValueError(f"{TASK_FILE} has no list of names under {name!r} in its labels")
    read = description.read
    for name, mapping in (("label_map", description.label_map), ("columns", read.columns)):
        if not isinstance(mapping, dict) or not all(isinstance(value, str) for value in mapping.values()):
            raise ValueError(f"{TASK_FILE} has an invalid {name}")
    if not isinstance(read.format, str | None) or not isinstance(read.delimiter, str | None):
        raise ValueError(f"{TASK_FILE} does not say how files are read")


def _is_list_of_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def read_json(path: Path) -> Any:
    """Read a JSON file that a run wrote."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} could not be read: {first_line(error)}.") from error
