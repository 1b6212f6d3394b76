"""The ready-made taggers for parts of speech and entities, in English and Chinese; they do not need torch.

A tagger is one small file in models/taggers: a mix of the layers of a packaged model, two convolutions over
three words, a linear layer, and the transitions of a CRF. recipes/taggers trains them.
"""

import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from elmo.checkpoint.source import MODELS_FOLDER, choose_model
from elmo.errors import CheckpointError, InputError, first_line
from elmo.extras import require
from elmo.model import Elmo
from elmo.tasks.examples import TaggedSentence, TagPrediction, Words
from elmo.tasks.families.metrics import score_tags
from elmo.tasks.predict import TrainedTask
from elmo.tasks.settings import ReadSettings
from elmo.text.tokenize import Word

if TYPE_CHECKING:
    from elmo.tasks import Task

Array = npt.NDArray[np.float32]
TAGGERS_FOLDER = MODELS_FOLDER / "taggers"
TASKS = ("entities", "pos")


def list_taggers() -> list[str]:
    """Return the names of the ready-made taggers, such as en-entities."""
    return sorted(path.stem for path in TAGGERS_FOLDER.glob("*.safetensors"))


def describe_tagger(name: str) -> dict[str, Any]:
    """Return the tags of a ready-made tagger, its model, its data, their license and its test scores."""
    return _read_tagger(name)[0]


def choose_tagger(task: str, texts: Iterable[str]) -> str:
    """Return the name of the tagger for a task, entities or pos, and the language of some texts."""
    name = task if task in list_taggers() else f"{(choose_model(texts) or 'en-small').split('-')[0]}-{task}"
    if name not in list_taggers():
        raise InputError(f"There is no tagger {task!r}; choose {', '.join((*TASKS, *list_taggers()))}.")
    return name


def load(task: str | Path, *, bilm: str | Path | Elmo | None = None, **options: Any) -> "Task | Tagger":
    """Open a ready-made tagger by its name, such as "en-entities", or the folder of a trained task.

    `bilm` is the location of a task's biLM if it has moved since training, or an open model, which several tasks may
    share; it must be the biLM of the training. The options are those of Elmo.from_pretrained: `precision` (a trained
    task defaults to the precision of the training), `device`, `local_files_only`, and `num_threads`, which also
    applies to the task network (default: one thread).
    """
    if str(task) in list_taggers() and not Path(task).exists():
        return _open_tagger(str(task), bilm, options)
    require("torch", "tasks", "A trained task")
    opened: Task = import_module("elmo.tasks.task").load_task(task, bilm=bilm, **options)
    return opened


def open_taggers(models: Iterable[Elmo]) -> "dict[str, Tagger]":
    """Open the ready-made taggers of some open models, by name."""
    by_hash, taggers = {model.checkpoint().fingerprint(): model for model in models}, {}
    for name in list_taggers():
        description, weights = _read_tagger(name)
        if description["model_hash"] in by_hash:
            taggers[name] = Tagger(name, description, weights, by_hash[description["model_hash"]])
    return taggers


def _open_tagger(name: str, bilm: str | Path | Elmo | None, options: dict[str, Any]) -> "Tagger":
    description, weights = _read_tagger(name)
    source = description["model"] if bilm is None else bilm
    settings = {key: value for key, value in options.items() if value is not None}
    model = source if isinstance(source, Elmo) else Elmo.from_pretrained(source, **settings)
    if model.checkpoint().fingerprint() != description["model_hash"]:
        raise CheckpointError(
            f"The tagger {name} was trained with other weights than {source} has; leave out "
            "bilm=, or train it again with recipes/taggers/run.py."
        )
    return Tagger(name, description, weights, model)


def _read_tagger(name: str) -> tuple[dict[str, Any], dict[str, Array]]:
    path = TAGGERS_FOLDER / f"{name}.safetensors"
    try:
        with safe_open(path, framework="numpy") as file:
            weights = {key: file.get_tensor(key).astype(np.float32) for key in file.keys()}  # noqa: SIM118
            return json.loads(file.metadata()["tagger"]), weights
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is not a tagger: {first_line(error)}; install the package again.") from error


class Tagger(TrainedTask):
    """A ready-made tagger. For Chinese, the part-of-speech tagger also segments the text into words."""

    def __init__(self, name: str, description: dict[str, Any], weights: dict[str, Array], model: Elmo) -> None:
        """`description` has the tags, the training data and the test scores."""
        self.name, self.description, self.weights, self.elmo = name, description, weights, model
        tags = description["tags"]
        labels = sorted(set(map(_type_of, tags))) if description["joins_words"] else tags
        super().__init__("tagging", labels, ReadSettings())

    def __repr__(self) -> str:
        return f"Tagger({self.name}, {len(self.labels)} labels: {', '.join(self.labels[:5])}, …)"

    def tokenize(self, text: str) -> list[Word]:
        """Return the words of a text with their offsets; for Chinese, its characters."""
        return self.elmo.tokenize(text)

    def texts(self, example: TaggedSentence) -> tuple[Words, ...]:
        """Return the words of an example."""
        return (example.words,)

    def _predict(self, examples: list[TaggedSentence]) -> list[TagPrediction]:
        layers = self.elmo.embed([list(example.words) for example in examples], layers="all")
        predictions = []
        for example, array in zip(examples, layers, strict=True):
            tags = self.tag_layers(np.asarray(array, dtype=np.float32)) if example.words else ()
            prediction = TagPrediction(example.words, tags)
            predictions.append(self._join(example, prediction) if self.description["joins_words"] else prediction)
        return predictions

    def _score(self, examples: list[TaggedSentence], predictions: list[TagPrediction]) -> dict[str, float]:
        gold = [example.tags or () for example in examples]
        predicted = [prediction.tags for prediction in predictions]
        return score_tags(gold, predicted, marks_spans="O" in self.labels)

    def tag_layers(self, layers: Array) -> Words:
        """Return the tags of a sentence, given its layers (L+1, T, 2D)."""
        tags, weights = self.description["tags"], self.weights
        mixed = np.tensordot(weights["mix"], layers, axes=1)
        states = self._convolve(mixed, "filters0")
        hidden = states + self._convolve(states, "filters1")
        scores = np.asarray(hidden @ weights["scores"] + weights["scores_bias"], dtype=np.float32)
        path = decode(scores, weights["transitions"], weights["first"], weights["last"])
        return tuple(tags[number] for number in path)

    def _convolve(self, states: Array, name: str) -> Array:
        """Apply filters (3·D, H) to each window of three words of (T, D), followed by ReLU."""
        padded = np.pad(states, ((1, 1), (0, 0)))
        windows = np.concatenate([padded[:-2], states, padded[2:]], axis=1)
        filtered: Array = np.maximum(windows @ self.weights[name] + self.weights[f"{name}_bias"], 0)
        return filtered

    def _join(self, example: TaggedSentence, characters: TagPrediction) -> TagPrediction:
        """Join the characters of a text into words; pretokenized words only get the type of their tag."""
        if not isinstance(example.record, str):
            return TagPrediction(example.words, tuple(map(_type_of, characters.tags)))
        words = tuple("".join(example.words[start:end]) for _, start, end in characters.spans)
        return TagPrediction(words, tuple(name for name, _, _ in characters.spans))


def decode(scores: Array, transitions: Array, first: Array, last: Array) -> list[int]:
    """Return the best sequence of tags, given scores of words (T, K), of tag pairs (K, K) and of both ends (K,)."""
    total, pointers = first + scores[0], []
    for row in scores[1:]:
        pairs = total[:, None] + transitions
        pointers.append(pairs.argmax(axis=0))
        total = pairs.max(axis=0) + row
    path = [int((total + last).argmax())]
    for pointer in reversed(pointers):
        path.append(int(pointer[path[-1]]))
    return path[::-1]


def _type_of(tag: str) -> str:
    return tag.partition("-")[2] or tag
