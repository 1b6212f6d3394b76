"""Settings -> the opened models, indexes and tasks, by name. No request adds to them.

What a visitor of the page learns about a model, from its card and configuration, is described here too.
"""

import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from elmo.analysis import CorpusIndex, find_neighbors
from elmo.checkpoint.checkpoint import context_fingerprint, fingerprint
from elmo.checkpoint.derived import license_of
from elmo.checkpoint.source import DEFAULT_MODEL, DEFAULT_NAME
from elmo.checkpoint.weights import shapes_of
from elmo.errors import ConfigError, InputError
from elmo.inference.scoring import require_softmax
from elmo.model import Elmo
from elmo.serve.errors import Problem
from elmo.serve.schemas import ModelCard, ModelEntry, ServedIndex
from elmo.serve.settings import Settings
from elmo.tasks import Task, load
from elmo.tasks.task import read_task
from elmo.text.units import count_scripts

FIRST_MODEL = "default"  # an alias of the first model, whatever its name


@dataclass
class ServedModel:
    """A model with its name and its index, if any; `source` is what it was opened from."""

    name: str
    elmo: Elmo
    index: CorpusIndex | None = None
    source: str | None = None

    @cached_property
    def sentence_dim(self) -> int:
        """The length of the vectors of whole texts."""
        return self.elmo.get_sentence_embedding_dimension()

    @property
    def predicts_words(self) -> bool:
        """Whether it can score sentences and find substitutes."""
        try:
            require_softmax(self.elmo.runtime.softmaxes, self.elmo.vocabulary)
        except InputError:
            return False
        return True

    @cached_property
    def card(self) -> ModelCard:
        """What the page says about it."""
        return describe_card(self.elmo)

    def describe(self) -> ModelEntry:
        """Return its entry in GET /models."""
        index = None
        if self.index is not None:
            layers: list[int | str] = [*self.index.manifest.layers]
            index = ServedIndex(num_occurrences=self.index.num_occurrences, layers=layers)
        return ModelEntry(
            name=self.name,
            source=public_source(self.source),
            card=self.card,
            dim=self.elmo.dim,
            num_layers=self.elmo.num_layers,
            precision=str(self.elmo.precision),
            predicts_words=self.predicts_words,
            scripts=sorted(self.elmo.scripts.learned or ()),
            units=self.elmo.config.tokenization.units,
            has_context=self.elmo.context is not None,
            index=index,
        )


@dataclass
class Served:
    """Everything that requests can name; the first model is used where a request names none."""

    models: dict[str, ServedModel]
    tasks: dict[str, Task] = field(default_factory=dict)

    @property
    def has_index(self) -> bool:
        """Whether any model has one."""
        return any(model.index is not None for model in self.models.values())

    def model(self, name: str | None) -> ServedModel:
        """Return the model of a name or of the source it was opened from; the first one without a name."""
        if name in self.models:
            return self.models[name]
        if name is None or name == FIRST_MODEL:
            return next(iter(self.models.values()))
        for model in self.models.values():
            if name == model.source:
                return model
        known = ", ".join(self.models)
        raise Problem(
            404, "model_not_found", f"There is no model {name!r:.80} here; known: {known}.", field="model"
        )

    def model_with_index(self, name: str | None) -> tuple[ServedModel, CorpusIndex]:
        """Return the model of a name and its index; without a name, the first model that has one."""
        indexed = [model for model in self.models.values() if model.index is not None]
        model = self.model(name) if name is not None else indexed[0]
        if model.index is None:
            known = ", ".join(each.name for each in indexed)
            raise Problem(404, "index_not_found", f"{model.name} has no index here; {known} has.", field="model")
        return model, model.index

    def task(self, name: str) -> Task:
        """Return the task of a name."""
        if name not in self.tasks:
            known = ", ".join(self.tasks)
            raise Problem(404, "task_not_found", f"There is no task {name!r:.80} here; known: {known}.")
        return self.tasks[name]


def open_served(settings: Settings) -> Served:
    """Open everything that the settings name; ElmoError if something cannot be opened."""
    models: dict[str, ServedModel] = {}
    for given in settings.models or (f"{DEFAULT_NAME}={DEFAULT_MODEL}",):
        name, source = split_name(given)
        elmo = Elmo.from_pretrained(
            source,
            precision=settings.precision,
            device=settings.device,
            num_threads=settings.threads,
            local_files_only=settings.local_files_only,
        )
        _put(models, name, ServedModel(name, elmo, source=source), "models")
    tasks: dict[str, Task] = {}
    for given in settings.tasks:
        name, source = split_name(given)
        _put(tasks, name, _open_task(source, models, settings), "tasks")
    if settings.indexes:
        _attach(models, settings.indexes)
    served = Served(models, tasks)
    _warm(served)
    return served


def _open_task(folder: str, models: dict[str, ServedModel], settings: Settings) -> Task:
    """Open a task on the served model it was trained with, or on another copy if that one is not served."""
    description, *_ = read_task(Path(folder))
    if description.bilm is not None:
        for model in models.values():
            if fingerprint(model.elmo) == description.bilm.hash:
                return load(folder, bilm=model.elmo)
    return load(
        folder,
        precision=None if description.settings.elmo.tune else settings.precision,
        device=settings.device,
        num_threads=settings.threads,
        local_files_only=settings.local_files_only,
    )


def split_name(given: str) -> tuple[str, str]:
    """Return the name and the source of NAME=SOURCE; without a name, it is the last part of the source."""
    name, separator, source = given.partition("=")
    if separator and name and "/" not in name:
        return name, source
    stem = Path(given).name
    for ending in (".hdf5", ".h5", ".zip"):
        stem = stem.removesuffix(ending)
    return stem, given


def _put(known: dict[str, Any], name: str, value: Any, what: str) -> None:
    if name in known:
        raise ConfigError(f"Two {what} would have the name {name!r}; rename one, as in NAME={name}.")
    known[name] = value


def _attach(models: dict[str, ServedModel], folders: tuple[str, ...]) -> None:
    hashes = [(fingerprint(model.elmo), context_fingerprint(model.elmo), model) for model in models.values()]
    for folder in folders:
        index = CorpusIndex(folder)
        fitting = [model for model_hash, own_context, model in hashes if index.is_of(model_hash, own_context)]
        if not fitting:
            raise ConfigError(
                f"{folder} was built with another model than those served "
                f"({index.manifest.model or 'the default one'}); serve that one too."
            )
        model = fitting[0]
        if model.index is not None:
            raise ConfigError(
                f"{model.index.folder} and {folder} are both indexes of the model {model.name}; leave one out."
            )
        model.index = index


def _warm(served: Served) -> None:
    """Prepare weights and open the files of indexes now, so that no request has to."""
    for model in served.models.values():
        model.elmo.embed([["the"]])
        if model.index is not None:
            find_neighbors(model.elmo, ["the"], model.index, index=0, top_k=1)


_FRONT_MATTER = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)
_LANGUAGE = re.compile(r"^language:\s*(?:\n\s*-\s*)?['\"]?([\w-]+)", re.MULTILINE)
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_SCRIPT_LANGUAGES = {"Han": "zh", "Latin": "en"}  # examples in these languages come with the page


def describe_card(elmo: Elmo) -> ModelCard:
    """Return the facts of a model; what its card does not say is None."""
    card = elmo.checkpoint().card
    front = _FRONT_MATTER.match(card or "")
    language = _LANGUAGE.search(front[0]) if front else None
    body = (card or "")[front.end() if front else 0 :]
    config = elmo.config
    return ModelCard(
        language=language[1] if language else _guess_language(elmo),
        license=license_of(card),
        summary=_first_paragraph(body),
        training=_section_paragraph(body, "train"),
        summary_zh=_first_paragraph(body, is_chinese=True),
        training_zh=_section_paragraph(body, "训练", is_chinese=True),
        encoder=config.encoder.kind,
        reads="characters" if config.characters is not None else "words",
        num_parameters=sum(map(math.prod, shapes_of(elmo.checkpoint().weights).values())),
        num_words=None if elmo.vocabulary is None else len(elmo.vocabulary.words),
    )


def public_source(source: str | None) -> str | None:
    """Return what others can open the model by: an alias or a hub id, but no path of this machine."""
    if source is None:
        return None
    if source == str(DEFAULT_MODEL):
        return DEFAULT_NAME
    return None if Path(source).exists() else source


def _guess_language(elmo: Elmo) -> str | None:
    scripts = elmo.scripts.learned or frozenset()
    return next((language for script, language in _SCRIPT_LANGUAGES.items() if script in scripts), None)


def _first_paragraph(text: str, *, is_chinese: bool = False) -> str | None:
    """Return the first paragraph that is prose, in one line and without the marks of Markdown.

    `is_chinese` asks for the first one whose letters are mostly Chinese characters.
    """
    for paragraph in re.split(r"\n\s*\n", _HEADING.sub("\n", text)):
        counts = count_scripts([paragraph])
        if is_chinese and 2 * counts["Han"] <= counts.total():
            continue
        if paragraph.strip() and not re.match(r"\s*[|!<>`-]", paragraph):
            # Chinese has no spaces, also not where a line ends.
            joined = re.sub(r"(?<=[^\x00-\xff])\n(?=[^\x00-\xff])", "", paragraph.strip())
            plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(joined.split()))
            return re.sub(r"[`*]", "", plain)
    return None


def _section_paragraph(body: str, title: str, *, is_chinese: bool = False) -> str | None:
    """Return the first paragraph of the section whose heading contains a word."""
    sections = re.split(r"^(#+ .*)$", body, flags=re.MULTILINE)[1:]
    for heading, text in zip(sections[::2], sections[1::2], strict=True):
        if title in heading.lower() and (found := _first_paragraph(text, is_chinese=is_chinese)) is not None:
            return found
    return None
