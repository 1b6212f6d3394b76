"""How a task network is made and trained: frozen, validated settings <-> JSON, with defaults for each family."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from elmo.config import list_not_positive, parse
from elmo.errors import ConfigError

FAMILY_NAMES = ("tagging", "classification", "pairs", "relations", "spans", "senses")
# What people call tasks -> the family, and the target of pairs.
FAMILY_ALIASES = {
    "ner": ("tagging", "auto"), "pos": ("tagging", "auto"), "chunking": ("tagging", "auto"),
    "sentiment": ("classification", "auto"), "topic": ("classification", "auto"),
    "similarity": ("pairs", "score"), "entailment": ("pairs", "label"),
    "qa": ("spans", "auto"), "wsd": ("senses", "auto"),
}  # fmt: skip
WORD_KINDS = ("pretrained", "learned", "characters")


@dataclass(frozen=True)
class WordSettings:
    """x: the vectors of words without context."""

    kinds: tuple[str, ...] = ("learned",)  # of pretrained, learned, characters; none of them: no x
    dim: int = 50  # of learned vectors; pretrained ones have their own
    min_count: int = 2  # a rarer word has no learned vector of its own
    tune: bool = False  # whether pretrained vectors are learned further
    num_kept: int = 50_000  # pretrained vectors of the file's first words, kept besides those of the data
    character_filters: int = 50
    dropout: float = 0.3  # of x and ELMo together, where they enter the network

    def faults(self) -> list[str]:
        """What is wrong with these settings, a phrase each."""
        found = list_not_positive(self, "dim", "min_count", "character_filters")
        for kind in self.kinds:
            if kind not in WORD_KINDS:
                found.append(f"kinds has {kind!r}; known are {', '.join(WORD_KINDS)}")
        return [*found, *_wrong_shares(self, "dropout")]


@dataclass(frozen=True)
class ElmoSettings:
    """How ELMo enters."""

    where: Literal["none", "input", "output", "both"] = "input"  # [x; ELMo], [h; ELMo]
    layers: Literal["learned", "top", "concat"] = "learned"
    tune: bool = False  # train the biLM along
    dropout: float = 0.5
    mix_penalty: float = 0.001  # λ of λ‖w‖²
    learning_rate: float = 1e-4  # of a tuned biLM

    def faults(self) -> list[str]:
        """What is wrong with these settings, a phrase each."""
        found = list_not_positive(self, "learning_rate")
        if self.mix_penalty < 0:
            found.append(f"mix_penalty is {self.mix_penalty}; it must be 0 or more")
        if self.tune and self.where == "none":
            found.append("tune is true, but where is 'none', so there is no biLM to tune")
        return [*found, *_wrong_shares(self, "dropout")]


@dataclass(frozen=True)
class NetworkSettings:
    """The network between the words and the answer."""

    kind: Literal["bilstm", "cnn", "linear"] = "bilstm"
    dim: int = 128  # of h; a bilstm has half of it a direction
    num_layers: int = 1
    width: int = 5  # words a filter of the cnn sees, an odd number
    dropout: float = 0.3  # of h
    crf: Literal["auto", "yes", "no"] = "auto"  # tagging; auto: where the tags mark spans
    pooling: Literal["attention", "max"] = "max"  # classification
    phrases: bool = True  # classification: learn from the labels of phrases too
    max_answer_words: int = 20  # spans
    method: Literal["linear", "nearest"] = "linear"  # senses

    def faults(self) -> list[str]:
        """What is wrong with these settings, a phrase each."""
        found = list_not_positive(self, "dim", "num_layers", "width", "max_answer_words")
        if self.width % 2 == 0:
            found.append(f"width is {self.width}; it must be odd, so that a filter has a middle")
        if self.kind == "bilstm" and self.dim % 2:
            found.append(f"dim is {self.dim}; it must be even, for half of it is each direction's")
        return [*found, *_wrong_shares(self, "dropout")]


@dataclass(frozen=True)
class FitSettings:
    """How the network is trained."""

    num_epochs: int = 30
    patience: int = 5  # epochs without a better dev score before training stops
    batch_size: int = 32
    min_batches: int = 50  # of an epoch: fewer examples are passed over several times
    learning_rate: float = 1e-3
    cooling: bool = False  # let the learning rate fall evenly, to 0 at the end of num_epochs
    weight_decay: float = 0.0
    clip_norm: float = 5.0
    fraction: float = 1.0  # of the training examples, drawn by the seed
    dev_fraction: float = 0.1  # taken from the training examples where there is no dev file
    seed: int = 0

    def faults(self) -> list[str]:
        """What is wrong with these settings, a phrase each."""
        found = list_not_positive(
            self, "num_epochs", "patience", "batch_size", "min_batches", "learning_rate", "clip_norm"
        )
        if not 0 < self.fraction <= 1:
            found.append(f"fraction is {self.fraction}; it must be above 0 and at most 1")
        if not 0 < self.dev_fraction < 1:
            found.append(f"dev_fraction is {self.dev_fraction}; it must be above 0 and below 1")
        if self.weight_decay < 0:
            found.append(f"weight_decay is {self.weight_decay}; it must be 0 or more")
        return found


@dataclass(frozen=True)
class TaskSettings:
    """Everything that decides a task network and its training, besides the data and the biLM."""

    words: WordSettings = field(default_factory=WordSettings)
    elmo: ElmoSettings = field(default_factory=ElmoSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    fit: FitSettings = field(default_factory=FitSettings)

    def faults(self) -> list[str]:
        """What is wrong with these settings together, a phrase each."""
        if not self.words.kinds and self.elmo.where in ("none", "output"):
            return ["words.kinds is empty and ELMo does not enter at the input, so the network would see nothing"]
        return []

    def to_dict(self) -> dict[str, Any]:
        """Give the mapping that make_settings takes."""
        return dataclasses.asdict(self)


DEFAULTS: dict[str, dict[str, Any]] = {
    "tagging": {"network.dim": 200},
    "classification": {"network.dim": 200, "network.dropout": 0.5},
    "pairs": {"network.dim": 200, "words.dropout": 0.4, "network.dropout": 0.4},
    "relations": {"network.dim": 200, "words.dropout": 0.5, "network.dropout": 0.5},
    "spans": {"network.dim": 128, "fit.batch_size": 16, "fit.patience": 4},
    "senses": {"network.kind": "linear", "network.dim": 256, "fit.num_epochs": 10, "fit.patience": 2},
}


def make_settings(family: str, values: Mapping[str, Any] | None = None) -> TaskSettings:
    """Make settings of a family's defaults and of changes, nested or by dotted names."""
    if family not in FAMILY_NAMES:
        raise ConfigError(
            f"The family is {family!r}; choose one of {', '.join(FAMILY_NAMES)}, or the name of a task: "
            f"{', '.join(FAMILY_ALIASES)}."
        )
    merged: dict[str, Any] = {}
    for change in (DEFAULTS[family], values or {}):
        _merge(merged, change)
    return parse(TaskSettings, merged, "The settings of the task")


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        part, *rest = name.split(".", 1)
        if rest:
            inner = into.setdefault(part, {})
            _merge(inner if isinstance(inner, dict) else {}, {rest[0]: value})
        elif isinstance(value, Mapping):
            _merge(into.setdefault(part, {}), value)
        else:
            into[part] = value


def _wrong_shares(part: object, *names: str) -> list[str]:
    return [
        f"{name} is {getattr(part, name)}; it must be at least 0 and below 1"
        for name in names
        if not 0 <= getattr(part, name) < 1
    ]
