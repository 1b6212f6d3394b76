"""The settings of a task: frozen, validated dataclasses <-> JSON, with defaults for each family.

Fields declared with `option` are also options of `elmo task train`; their flags and help texts are defined here only.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from elmo.config import Script, Settings, TokenizationConfig, merge, number, option, parse
from elmo.errors import ConfigError, InputError
from elmo.text.sentence_input import Tokenizer
from elmo.text.units import Tokenization

FAMILY_NAMES = ("tagging", "classification", "pairs", "relations", "question_answering", "senses")
# Common names of tasks -> the family, and the target of pairs.
KINDS = {
    **{name: (name, "auto") for name in FAMILY_NAMES},
    "ner": ("tagging", "auto"), "pos": ("tagging", "auto"), "chunking": ("tagging", "auto"),
    "sentiment": ("classification", "auto"), "topic": ("classification", "auto"),
    "similarity": ("pairs", "score"), "entailment": ("pairs", "label"),
    "qa": ("question_answering", "auto"), "wsd": ("senses", "auto"),
}  # fmt: skip
# Answers and marks are positions in running text, so --split-on-spaces does not apply to these families.
_ALWAYS_TOKENIZED = ("question_answering", "relations")
# The roles of the text column and of the target column in each family.
TEXT_ROLES = {"tagging": "word", "classification": "text", "relations": "text"}
TARGETS = {
    "tagging": "tag", "classification": "label", "pairs": "label", "relations": "label",
    "question_answering": "answer",
}  # fmt: skip
PairTarget: TypeAlias = Literal["auto", "label", "score"]


def keep_known(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are fields of a dataclass; stored settings may include fields since removed."""
    names = {field.name for field in dataclasses.fields(cls)}
    return {name: value for name, value in values.items() if name in names}


count = partial(number, above=0)
dropout_rate = partial(number, least=0, most=0.99)


@dataclass(frozen=True)
class WordSettings(Settings):
    """The word vectors without context, x."""

    kinds: tuple[Literal["pretrained", "learned", "characters"], ...] = option(
        ("learned",),
        "Word vectors in addition to ELMo: learned, pretrained, characters, several separated by commas, or none.",
        "--word-features KINDS",
    )
    dim: int = count(50)  # of learned vectors
    min_count: int = count(2)  # rarer words share one learned vector
    num_kept: int = 50_000  # number of words kept from the start of the vector file, besides those in the data
    dropout: float = dropout_rate(0.3)  # of [x; ELMo], the input of the network


@dataclass(frozen=True)
class ElmoSettings(Settings):
    """How ELMo enters the network."""

    where: Literal["none", "input", "output", "both"] = option(
        "input", "Where ELMo enters: none, input ([x; ELMo]), output ([h; ELMo]) or both.", "--elmo"
    )
    layers: Literal["learned", "top", "concat"] = option(
        "learned", "Layers of the biLM: learned (mixed by learned weights), top or concat."
    )
    tune: bool = option(False, "Fine-tune the biLM with the task instead of keeping it frozen.")
    dropout: float = dropout_rate(0.5)
    mix_penalty: float = number(0.001, least=0)  # λ of λ‖w‖²
    learning_rate: float = count(1e-4)  # of a tuned biLM


@dataclass(frozen=True)
class NetworkSettings(Settings):
    """The network between the word vectors and the prediction."""

    kind: Literal["auto", "bilstm", "cnn", "linear", "pooled"] = option(
        "bilstm",
        "Network between the words and the answer: bilstm, cnn or linear; for classification also pooled (linear, "
        "on pooled vectors and TF-IDF) or auto (pooled for long or few texts, else the better on dev).",
        "--network",
    )
    dim: int = count(128)  # of h; each direction of a bilstm has half of it
    num_layers: int = count(1)
    width: int = count(5)  # of a cnn's filters, in words; odd
    dropout: float = dropout_rate(0.3)  # of h
    crf: Literal["auto", "no"] = "auto"  # tagging; auto: if the tags mark spans

    def faults(self) -> list[str]:
        """Return what is wrong with these settings, one phrase each."""
        wrong = super().faults()
        if self.width % 2 == 0:
            wrong.append(f"width is {self.width}; it must be odd, so that a filter has a middle")
        if self.kind == "bilstm" and self.dim % 2:
            wrong.append(f"dim is {self.dim}; it must be even, because each direction has half of it")
        return wrong


@dataclass(frozen=True)
class FitSettings(Settings):
    """How the network is trained."""

    num_epochs: int = option(30, "Maximum number of epochs.", "--epochs", above=0)
    patience: int = count(5)  # epochs without a better dev score before training stops
    batch_size: int = count(32)
    min_batches: int = count(50)  # per epoch; a small training set is repeated
    learning_rate: float = count(1e-3)
    # Lower the learning rate linearly to 0 over num_epochs, without early stopping. It starts higher if there are
    # few epochs, so that the sum of the rates suffices.
    linear_decay: bool = option(False, "Lower the learning rate linearly to 0 over --epochs.")
    fraction: float = number(1.0, above=0, most=1)  # of the training examples, sampled with the seed
    seed: int = option(0, "Random seed.")


@dataclass(frozen=True)
class TaskSettings(Settings):
    """Everything that determines a task network and its training, except the data and the biLM."""

    title = "The configuration of the task"

    words: WordSettings = field(default_factory=WordSettings)
    elmo: ElmoSettings = field(default_factory=ElmoSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    fit: FitSettings = field(default_factory=FitSettings)

    def faults(self) -> list[str]:
        """Return what is wrong with these settings, one phrase each."""
        faults = super().faults()
        if not self.words.kinds and self.elmo.where in ("none", "output"):
            faults.append("words.kinds is empty and ELMo is not at the input, so the network would have no input")
        if self.network.kind == "pooled" and self.elmo.tune:
            faults.append("network.kind is 'pooled', which uses a frozen biLM, but elmo.tune is true; change one")
        return faults

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TaskSettings":
        """Build settings from the result of to_dict, ignoring those that this version does not have."""
        sections = {"words": WordSettings, "elmo": ElmoSettings, "network": NetworkSettings, "fit": FitSettings}
        return super().from_dict({key: keep_known(section, values[key]) for key, section in sections.items()})


@dataclass(frozen=True)
class ReadSettings:
    """How files of examples are read; options that are None or missing are detected."""

    format: str | None = option(
        None,
        "Format of the files if the extension does not determine it: conll, conllu, csv, tsv, jsonl, json, parquet, "
        "folders (a folder per label), trec, trees, semeval, squad, wsd or, for predictions, text (one per line).",
    )
    text_column: str | None = option(None, "Column of the texts, or of the words of tags.", "NAME")
    label_column: str | None = option(None, "Column of the labels, tags, scores or answers.", "NAME")
    columns: Mapping[str, str] = option(
        {},
        "Column of a role: word, tag; text, label; first, second, label; question, passage, answer, start. NAME is a "
        "name or a number from 1; repeatable.",
        "--column ROLE=NAME",
    )
    header: bool | None = option(None, "Whether the first row names the columns.")
    encoding: str = option("utf-8", "Encoding of text files, such as latin-1, cp1252 or gb18030.")
    pair_target: PairTarget = "auto"  # similarity has scores, entailment labels; auto: detected
    split_on_spaces: bool = option(False, "Split words at spaces only.")
    # Each letter of these scripts is a word; training copies them from a biLM whose tokens are characters.
    scripts: tuple[Script, ...] = TokenizationConfig.scripts

    def with_columns(self, family: str) -> "ReadSettings":
        """Return settings with text_column and label_column merged into `columns`."""
        named = {TEXT_ROLES.get(family): self.text_column, TARGETS.get(family): self.label_column}
        columns = {role: name for role, name in named.items() if role is not None and name is not None}
        if self.text_column is not None and family not in TEXT_ROLES:
            raise InputError(
                f"--text-column {self.text_column} is for one text per example; the texts of {family} are named "
                "with --column ROLE=NAME."
            )
        return dataclasses.replace(self, columns={**self.columns, **columns}, text_column=None, label_column=None)

    def with_changes(self, changes: "ReadSettings", format: str | None) -> "ReadSettings":
        """Return the settings for another file; columns and header are inherited if it has the same format."""
        columns, header = changes.columns, changes.header
        if format == self.format:
            inherited = {role: name for role, name in self.columns.items() if name not in columns.values()}
            columns = {**inherited, **columns}
            header = self.header if header is None else header
        return dataclasses.replace(self, format=format, columns=columns, header=header, encoding=changes.encoding)

    def tokenizer(self, family: str) -> Tokenizer:
        """Return the tokenizer of the texts of a family."""
        on_spaces = self.split_on_spaces and family not in _ALWAYS_TOKENIZED
        return Tokenization(TokenizationConfig(scripts=self.scripts)).tokenizer(on_spaces=on_spaces)

    def with_tokenization(self, tokenization: TokenizationConfig) -> "ReadSettings":
        """Return settings that tokenize texts as a model does: into letters of its scripts, or on spaces."""
        if tokenization.split_on_spaces:
            return dataclasses.replace(self, split_on_spaces=True)
        return self if tokenization.units == "words" else dataclasses.replace(self, scripts=tokenization.scripts)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ReadSettings":
        """Build settings from recorded JSON; raise ConfigError or TypeError if they are invalid."""
        scripts = TokenizationConfig.from_dict({"scripts": values["scripts"]}).scripts
        return cls(**{**keep_known(cls, values), "columns": dict(values["columns"]), "scripts": scripts})


@dataclass(frozen=True)
class TaskOptions:
    """How a task's data is read and where its biLM runs, for train and compare."""

    precision: str = option("float32", "Precision of the frozen biLM: float32, bfloat16, int8 or auto.")
    word_vectors: str | None = option(None, "GloVe or word2vec vectors as text, for pretrained words.", "FILE")
    read: ReadSettings = field(default_factory=ReadSettings)
    cache_folder: str | None = option(None, "Folder for the layers of the frozen biLM.", "--cache FOLDER")
    carry_bilm: bool = option(False, "Copy the biLM into the task's folder, so that it needs nothing else.")
    sense_index: str | None = option(
        None, "WordNet's index.sense: the first sense of lemmas that the training data lacks.", "FILE"
    )
    device: str = option("cpu", "Device of the frozen biLM: cpu, cuda, cuda:1 or mps.")
    num_threads: int = 1  # of the task network; more threads help only large networks on an idle machine


@dataclass(frozen=True)
class Records:
    """Labelled examples in memory, as JSON objects; `name` is used in messages."""

    name: str
    rows: tuple[dict[str, Any], ...]


Source: TypeAlias = str | Records  # a file name, a pattern or a folder; or records


@dataclass(frozen=True)
class TaskInputs:
    """The inputs of a run: its family, its data, its biLM and the options."""

    family: str
    train: Source
    dev: Source | None = None
    test: Source | None = None
    model: str | None = None  # None: the default model
    options: TaskOptions = field(default_factory=TaskOptions)

    def to_dict(self) -> dict[str, Any]:
        """Return a flat mapping for the record of a run; records in memory must be stored first."""
        values = dataclasses.asdict(self)
        options = values.pop("options")
        return {**values, **options}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TaskInputs":
        """Build inputs from the result of to_dict; raise KeyError, TypeError, ValueError or ConfigError if invalid."""
        options = {**keep_known(TaskOptions, values), "read": ReadSettings.from_dict(values["read"])}
        return cls(**keep_known(cls, values), options=TaskOptions(**options))


DEFAULTS: dict[str, dict[str, Any]] = {
    "tagging": {"network.dim": 200},
    "classification": {"network.kind": "auto", "network.dim": 200, "network.dropout": 0.5},
    "pairs": {"elmo.where": "both", "network.dim": 200, "words.dropout": 0.4, "network.dropout": 0.4},
    "relations": {"network.dim": 200, "words.dropout": 0.5, "network.dropout": 0.5},
    "question_answering": {"elmo.where": "both", "network.dim": 128, "fit.batch_size": 16, "fit.patience": 4},
    "senses": {"network.kind": "linear", "network.dim": 256, "fit.num_epochs": 10, "fit.patience": 2},
}


def find_family(kind: str) -> tuple[str, str]:
    """Return the family that a kind of task belongs to, and the target of its pairs."""
    if kind not in KINDS:
        others = ", ".join(name for name in KINDS if name not in FAMILY_NAMES)
        raise ConfigError(
            f"The family is {kind!r}; choose one of {', '.join(FAMILY_NAMES)}, or the name of a task: {others}."
        )
    return KINDS[kind]


def make_settings(kind: str, values: Mapping[str, Any] | None = None) -> TaskSettings:
    """Build settings from a family's defaults and from changes, nested or with dotted names."""
    merged: dict[str, Any] = {}
    for changes in (DEFAULTS[find_family(kind)[0]], values or {}):
        merge(merged, changes)
    return parse(TaskSettings, merged, TaskSettings.title)
