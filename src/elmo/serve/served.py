"""The models and tasks that a server has opened, by name; requests cannot open others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.checkpoint.folder import card_field
from elmo.checkpoint.source import DEFAULT_MODEL, DEFAULT_NAME, MODELS_BY_SCRIPT, choose_model
from elmo.errors import ConfigError
from elmo.model import Elmo
from elmo.serve.errors import ApiError
from elmo.serve.schemas import Text
from elmo.serve.settings import Settings
from elmo.tasks.taggers import Tagger, open_taggers

if TYPE_CHECKING:
    from elmo.tasks import Task

FIRST_MODEL = "default"  # an alias of the first model, whatever its name
_LANGUAGE_CHARACTERS = 20_000  # at the beginning of a request, which decide its language
_SCRIPT_LANGUAGES = {"Han": "zh", "Latin": "en"}  # the page has examples in these languages


@dataclass
class ServedModel:
    """A model with its name and the source it was opened from."""

    name: str
    elmo: Elmo
    source: str | None = None

    @property
    def predicts_words(self) -> bool:
        """Whether it can score sentences and find substitutes."""
        vocabulary = self.elmo.vocabulary
        has_softmax = self.elmo.config.softmax is not None
        return has_softmax and vocabulary is not None and not vocabulary.missing_special_words()

    @property
    def scripts(self) -> list[str]:
        """The scripts of its training text."""
        return sorted(self.elmo._scripts.learned or ())

    @property
    def card(self) -> dict[str, Any]:
        """Facts from the model card (README.md) and the configuration for the page; None if unknown."""
        card, vocabulary = self.elmo.checkpoint().card, self.elmo.vocabulary
        language = next((name for script, name in _SCRIPT_LANGUAGES.items() if script in self.scripts), None)
        return {
            "language": card_field(card, "language") or language,
            "license": card_field(card, "license"),
            "reads": "characters" if self.elmo.config.characters is not None else "words",
            "num_words": None if vocabulary is None else len(vocabulary.words),
        }

    def describe(self) -> dict[str, Any]:
        """Return its entry in GET /models."""
        return {
            "name": self.name,
            "source": public_source(self.source),
            "card": self.card,
            "dim": self.elmo.dim,
            "num_layers": self.elmo.num_layers,
            "precision": str(self.elmo.precision),
            "predicts_words": self.predicts_words,
            "scripts": self.scripts,
            "units": self.elmo.config.tokenization.units,
            "has_context": self.elmo.context is not None,
        }


@dataclass
class Served:
    """The models and tasks that requests can name."""

    models: dict[str, ServedModel]
    tasks: dict[str, Task | Tagger] = field(default_factory=dict)

    def model(self, name: str | None, texts: Iterable[Text] = ()) -> ServedModel:
        """Return a model by its name or source; without a name, the model for the language of the texts."""
        first = next(iter(self.models.values()))
        by_source = {model.source: model for model in reversed(self.models.values())}
        known = {**by_source, FIRST_MODEL: first, **self.models}
        if name is None:
            text = " ".join(text if isinstance(text, str) else " ".join(text) for text in texts)
            return known.get(choose_model([text[:_LANGUAGE_CHARACTERS]]) or FIRST_MODEL, first)
        if name not in known:
            message = f"Unknown model {name!r:.80}; available models: {', '.join(self.models)}."
            raise ApiError(404, "model_not_found", message, field="model")
        return known[name]

    def describe_tasks(self) -> list[dict[str, Any]]:
        """Return the tasks in the response of GET /models."""
        return [
            {
                "name": name, "source": task.name if isinstance(task, Tagger) else None, "family": task.family,
                "labels": list(task.labels),
            }
            for name, task in self.tasks.items()
        ]  # fmt: skip

    def task(self, name: str) -> Task | Tagger:
        """Return a task by its name."""
        if name not in self.tasks:
            message = f"Unknown task {name!r:.80}; available tasks: {', '.join(self.tasks)}."
            raise ApiError(404, "task_not_found", message)
        return self.tasks[name]


def open_served(settings: Settings) -> Served:
    """Open everything that the settings name; ElmoError if something cannot be opened."""
    options: dict[str, Any] = {
        "device": settings.device, "num_threads": settings.threads, "local_files_only": settings.local_files_only,
    }  # fmt: skip
    others = [name for name in MODELS_BY_SCRIPT.values() if name != DEFAULT_NAME]
    models: dict[str, ServedModel] = {}
    for entry in settings.models or (f"{DEFAULT_NAME}={DEFAULT_MODEL}", *others):
        name, source = split_name(entry)
        elmo = Elmo.from_pretrained(source, precision=settings.precision, **options)
        _add(models, name, ServedModel(name, elmo, source=source), "models")
        elmo.embed([["the"]])  # prepares the weights before the first request
    tasks: dict[str, Task | Tagger] = dict(open_taggers(model.elmo for model in models.values()))
    for entry in settings.tasks:
        name, source = split_name(entry)
        _add(tasks, name, _open_task(source, models, settings.precision, options), "tasks")
    return Served(models, tasks)


def _open_task(folder: str, models: dict[str, ServedModel], precision: str, options: dict[str, Any]) -> Task:
    """Open a task with the served model that it was trained with, or else with a separate copy of that model."""
    tasks = import_module("elmo.tasks")  # by name: only a server with tasks needs torch
    description, *_ = import_module("elmo.tasks.task").read_task(Path(folder))
    if description.bilm is not None:
        for model in models.values():
            if model.elmo.checkpoint().fingerprint() == description.bilm.hash:
                return tasks.load(folder, bilm=model.elmo)  # type: ignore[no-any-return]
    tuned = description.settings.elmo.tune
    return tasks.load(folder, precision=None if tuned else precision, **options)  # type: ignore[no-any-return]


def split_name(entry: str) -> tuple[str, str]:
    """Return the name and the source of NAME=SOURCE; without a name, it is the last part of the source."""
    name, separator, source = entry.partition("=")
    if separator and name and "/" not in name:
        return name, source
    return Path(entry).name, entry


def _add(entries: dict[str, Any], name: str, entry: Any, plural: str) -> None:
    if name in entries:
        raise ConfigError(f"Two {plural} would have the name {name!r}; rename one, as in NAME={name}.")
    entries[name] = entry


def public_source(source: str | None) -> str | None:
    """Return the alias or hub id of a model; None for a local path."""
    if source == str(DEFAULT_MODEL):
        return DEFAULT_NAME
    return None if source is None or Path(source).exists() else source
