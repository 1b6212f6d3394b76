"""The Task class and its folder: task.json, words.json, weights.safetensors and, for some tasks, bilm/.

`load_task` opens the folder that training wrote; only build_network turns settings into a network.
"""

import dataclasses
import json
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmo.checkpoint.location import read_json
from elmo.checkpoint.source import DEFAULT_MODEL
from elmo.config import parse
from elmo.errors import CheckpointError, ConfigError, first_line
from elmo.files.durable import current_folder, replacing_folder
from elmo.layer import ElmoLayer, LayerMixes
from elmo.model import Elmo
from elmo.tasks.examples import Words
from elmo.tasks.families import choose_family
from elmo.tasks.families.blocks import (
    BilmReference,
    Encoder,
    NetworkInputs,
    Vocabularies,
    WordFeatures,
    WordList,
)
from elmo.tasks.families.network import Labels, TaskNetwork
from elmo.tasks.families.pooled import PooledClassifier
from elmo.tasks.fit import BILM_PREFIX, limit_threads
from elmo.tasks.layer_store import Values, compute_layers
from elmo.tasks.predict import TrainedTask
from elmo.tasks.settings import ReadSettings, TaskSettings
from elmo.text.tokenize import Word

SCORES_FILE = "scores.json"
TASK_FILE, WORDS_FILE, WEIGHTS_FILE, BILM_FOLDER = "task.json", "words.json", "weights.safetensors", "bilm"
FORMAT_VERSION = 1
PRETRAINED_WEIGHT = "encoder.words.pretrained.weight"


@dataclass(frozen=True)
class TaskDescription:
    """The content of task.json."""

    family: str
    settings: TaskSettings
    labels: Labels
    read: ReadSettings
    bilm: BilmReference | None

    @property
    def targets(self) -> list[str]:
        """The labels or tags that are predicted; empty for scores, answers and senses."""
        return list(self.labels.get("tags") or self.labels.get("labels") or ())


def build_network(
    family: str,
    settings: TaskSettings,
    labels: Labels,
    inputs: NetworkInputs,
    *,
    tuned: Elmo | None = None,
    pretrained: Tensor | None = None,
) -> TaskNetwork:
    """Build a network with random weights; `tuned` is a model to fine-tune, `pretrained` holds word vectors."""
    if settings.network.kind == "pooled":
        return PooledClassifier(labels, inputs)
    num_mixes = 2 if settings.elmo.where == "both" else 1
    mixing: dict[str, Any] = {"num_mixes": num_mixes, "dropout": settings.elmo.dropout, "layers": settings.elmo.layers}

    def make_encoder(extra_dim: int) -> Encoder:
        words = WordFeatures(settings.words, inputs.words, pretrained)
        elmo: LayerMixes | ElmoLayer | None = None
        if tuned is not None:
            elmo = ElmoLayer(tuned, tune_bilm=True, **mixing)
        elif inputs.bilm is not None:
            elmo = LayerMixes(inputs.bilm.num_layers, inputs.bilm.dim, **mixing)
        return Encoder(inputs, words, elmo, settings, extra_dim=extra_dim)

    network: TaskNetwork = choose_family(family)(make_encoder, labels, settings)
    return network


def write_task(folder: Path, description: TaskDescription, words: Vocabularies, weights: dict[str, Tensor]) -> None:
    """Write a task; existing files with the same names are replaced, others are kept."""
    content = {"format_version": FORMAT_VERSION, **dataclasses.asdict(description)}
    word_lists = {"learned": words.learned.words, "pretrained": words.pretrained.words}
    with replacing_folder(folder, (WEIGHTS_FILE, WORDS_FILE, TASK_FILE)) as new:
        (new / WORDS_FILE).write_text(json.dumps(word_lists, ensure_ascii=False), encoding="utf-8")
        save_file({name: weight.contiguous() for name, weight in weights.items()}, new / WEIGHTS_FILE)
        shutil.copymode(new / WORDS_FILE, new / WEIGHTS_FILE)  # safetensors makes it readable only by the owner
        (new / TASK_FILE).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def read_task(folder: Path) -> tuple[TaskDescription, Vocabularies, dict[str, Tensor]]:
    """Read a task that write_task wrote; raise CheckpointError for any other content."""
    folder = current_folder(folder)
    if not (folder / TASK_FILE).is_file():
        raise CheckpointError(
            f"{folder} is not a trained task: it has no {TASK_FILE}; name a folder that elmo task train wrote."
        )
    try:
        content = json.loads((folder / TASK_FILE).read_text(encoding="utf-8"))
        word_lists = json.loads((folder / WORDS_FILE).read_text(encoding="utf-8"))
        # modern-elmo 0.2 called the sequence encoder "between"
        weights = {
            re.sub(r"^encoder\.between\.", "encoder.sequence.", name): weight
            for name, weight in load_file(folder / WEIGHTS_FILE).items()
        }
        if content["format_version"] != FORMAT_VERSION:
            raise CheckpointError(
                f"{folder} has format version {content['format_version']}, but this program reads version "
                f"{FORMAT_VERSION}; use the program that wrote it, or train again."
            )
        bilm = content["bilm"]
        description = TaskDescription(
            content["family"],
            TaskSettings.from_dict(content["settings"]),
            dict(content["labels"]),
            ReadSettings.from_dict(content["read"]),
            None if bilm is None else parse(BilmReference, bilm, f"{folder / TASK_FILE}"),
        )
        words = Vocabularies(WordList(word_lists["learned"]), WordList(word_lists["pretrained"]))
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError, ConfigError
    ) as error:  # fmt: skip
        raise CheckpointError(f"{folder} is damaged: {first_line(error)}; copy it again or train again.") from error
    return description, words, weights


class Task(TrainedTask):
    """A trained network with its vocabularies and its biLM. Thread-safe: calls from several threads are serialized."""

    def __init__(
        self,
        description: TaskDescription,
        network: TaskNetwork,
        encode: Callable[[list[Words]], None] | None,
        *,
        num_threads: int = 1,
    ) -> None:
        super().__init__(description.family, description.targets, description.read)
        self.description = description
        self._network, self._encode, self._num_threads = network, encode, num_threads
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        shown = f", {len(self.labels)} labels: {', '.join(self.labels[:5])}{', …' if len(self.labels) > 5 else ''}"
        return f"Task({self.family}{shown if self.labels else ''})"

    @property
    def metric(self) -> str:
        """The name of the main score."""
        return self._network.metric

    @property
    def mixing_weights(self) -> list[dict[str, Any]]:
        """The learned s_j ("weights", which sum to 1) and γ ("gamma") of each mix, the input's first."""
        return self._network.mixing_weights

    def tokenize(self, text: str) -> list[Word]:
        """Split a text into words with their offsets, as in training."""
        return self.read.tokenizer(self.family)(text)

    def texts(self, example: Any) -> tuple[Words, ...]:
        """Return the words of each text of an example."""
        return self._network.texts(example)

    def _predict(self, examples: list[Any]) -> list[Any]:
        with self._lock:
            if self._encode is not None:
                self._encode(list(dict.fromkeys(text for example in examples for text in self.texts(example))))
            with limit_threads(self._num_threads):
                return self._network.predict(examples)

    def _score(self, examples: list[Any], predictions: list[Any]) -> dict[str, float]:
        self._network.warn_of_unknown(examples, "given")
        return self._network.score(examples, predictions)


def describe(folder: str | Path) -> dict[str, Any]:
    """Describe a trained task in a folder as a JSON object: its labels, network, biLM, data and scores."""
    folder = Path(folder)
    description, words, weights = read_task(folder)
    settings, bilm = description.settings, description.bilm
    scores = read_json(folder / SCORES_FILE) if (folder / SCORES_FILE).is_file() else {}
    result_names = ("metric", "dev", "test", "num_train", "num_dev", "best_epoch", "elapsed_seconds")
    return {
        "family": description.family,
        "labels": description.targets,
        "network": settings.network.kind,
        "num_weights": sum(weight.numel() for weight in weights.values()),
        "num_words": len(words.learned.words) + len(words.pretrained.words),
        "bilm": None if bilm is None else {**dataclasses.asdict(bilm), "source": bilm.source or DEFAULT_MODEL},
        "format": description.read.format,
        "columns": dict(description.read.columns),
        **{name: scores[name] for name in result_names if name in scores},
    }


def load_task(
    folder: str | Path,
    *,
    bilm: str | Path | Elmo | None = None,
    precision: str | None = None,
    device: str = "cpu",
    num_threads: int | None = None,
    local_files_only: bool = False,
) -> Task:
    """Open the folder of a trained task; see taggers.load for the arguments."""
    folder = Path(folder)
    description, words, weights = read_task(folder)
    settings, reference = description.settings, description.bilm
    model = None
    if reference is not None:
        options = {"device": device, "num_threads": num_threads, "local_files_only": local_files_only}
        model = _open_bilm(folder, reference, bilm, {**options, "precision": precision or reference.precision})
        if settings.network.kind == "pooled" and model.checkpoint().context_hash() != reference.context_hash:
            raise CheckpointError(
                f"{folder} was trained with a different context layer than its biLM has now; restore the original."
            )
    is_frozen = model is not None and not settings.elmo.tune
    layers: dict[Words, Values] = {}  # of the sentences encoded last
    inputs = NetworkInputs(words, reference, layers.__getitem__ if is_frozen else None)
    try:
        network = build_network(
            description.family, settings, description.labels, inputs,
            tuned=model if settings.elmo.tune else None, pretrained=weights.get(PRETRAINED_WEIGHT),
        )  # fmt: skip
        missing, unexpected = network.load_state_dict(weights, strict=False)
        if faults := [name for name in (*missing, *unexpected) if not name.startswith(BILM_PREFIX)]:
            raise KeyError(", ".join(faults))
    except (RuntimeError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CheckpointError(
            f"{folder} is damaged: its settings, labels and weights do not fit together "
            f"({first_line(error):.120}); copy it again or train again."
        ) from error
    network.eval().requires_grad_(False)

    def encode(sentences: list[Words]) -> None:
        """Compute layers, rounded as in the layer store, so that both give the same scores."""
        assert model is not None
        arrays = compute_layers(model, sentences, pooled=settings.network.kind == "pooled")
        layers.clear()
        layers.update(zip(sentences, arrays, strict=True))

    return Task(description, network, encode if is_frozen else None, num_threads=num_threads or 1)


def _open_bilm(
    folder: Path, reference: BilmReference, override: str | Path | Elmo | None, options: dict[str, Any]
) -> Elmo:
    recorded = folder / BILM_FOLDER if reference.is_carried else reference.source
    source = recorded if override is None else override
    if isinstance(source, Elmo):
        model = source
    else:
        try:
            model = Elmo.from_pretrained(source, **options)
        except CheckpointError as error:
            raise CheckpointError(f"The biLM of {folder} could not be opened: {error}") from error
    if model.checkpoint().fingerprint() != reference.hash:
        raise CheckpointError(
            f"{folder} was trained with another biLM than {source or 'the default model'}; name the right one with "
            "--bilm or bilm=."
        )
    return model
