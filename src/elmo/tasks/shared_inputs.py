"""What several runs on the same inputs share: examples, word vectors, the frozen biLM and its layers on disk."""

import dataclasses
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.checkpoint import fingerprint
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.tasks.examples import Words
from elmo.tasks.families import choose_family
from elmo.tasks.layer_store import LayerStore
from elmo.tasks.networks import WordList, read_pretrained
from elmo.tasks.readers import open_reader
from elmo.tasks.readers.datasets import read_first_senses
from elmo.tasks.settings import FitSettings, ReadSettings, TaskInputs

logger = logging.getLogger(__name__)

_DEV_SEED = 20180215  # the same for all runs, so that runs with different seeds are measured alike


@dataclass(frozen=True)
class Splits:
    """Labelled examples: `dev` decides when to stop, `test` is measured once at the end; both may be empty."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]
    read: ReadSettings  # with everything that was detected
    notes: tuple[str, ...] = ()  # what was decided for the user, in sentences

    def draw(self, settings: FitSettings) -> tuple[list[Any], list[Any]]:
        """Return the training and dev examples of a run; without a dev file, some training examples are dev."""
        train, dev = self.train, self.dev
        if not dev:
            if len(train) < 2:
                raise InputError("One training example is too few to take dev examples from; give a dev file.")
            order = list(range(len(train)))
            random.Random(_DEV_SEED).shuffle(order)
            num_dev = min(len(train) - 1, max(1, round(len(train) * settings.dev_fraction)))
            taken = set(order[:num_dev])
            dev = [train[number] for number in sorted(taken)]
            train = [example for number, example in enumerate(train) if number not in taken]
        if settings.fraction < 1:
            num_kept = max(1, round(len(train) * settings.fraction))
            train = [
                train[number]
                for number in sorted(random.Random(settings.seed).sample(range(len(train)), num_kept))
            ]
        return train, dev


def read_splits(inputs: TaskInputs) -> Splits:
    """Read the files of a task, dev and test like the training file."""
    family, read, label_map = inputs.family, inputs.options.read, inputs.options.label_map
    train, found = read_examples(inputs.train, family, read, label_map)
    notes = []
    if found.columns and found.columns != dict(read.columns):
        listed = ", ".join(f"{role}={name}" for role, name in found.columns.items())
        kind = f", whose target is a {found.pair_target}" if family == "pairs" else ""
        notes.append(
            f"{inputs.train} is read as {found.format} with columns {listed}{kind}; change that with --column."
        )
    others: list[list[Any]] = []
    for path in (inputs.dev, inputs.test):
        is_alike = path is not None and Path(path).suffixes[-1:] == Path(inputs.train).suffixes[-1:]
        target = found.pair_target if family == "pairs" else "auto"
        settings = found if is_alike else dataclasses.replace(read, pair_target=target)
        others.append([] if path is None else read_examples(path, family, settings, label_map)[0])
    return Splits(train, others[0], others[1], found, tuple(notes))


def read_examples(
    path: str, family: str, read: ReadSettings, label_map: Mapping[str, str] | None = None
) -> tuple[list[Any], ReadSettings]:
    """Read all labelled examples of a file, and return them with how they were read."""
    reader, settings = open_reader(path, family, read)
    examples = list(map_labels(reader, label_map) if label_map else reader)
    if family == "pairs":
        examples = _leave_out_disputed(examples, path)
    if not examples:
        raise InputError(f"{path} has no examples with a label; nothing can be learned or measured.")
    return examples, settings


def map_labels(examples: Iterable[Any], label_map: Mapping[str, str]) -> Iterator[Any]:
    """Rename labels; an example or a phrase whose label becomes empty is left out."""
    for example in examples:
        name = "target" if hasattr(example, "target") else "label"
        if not hasattr(example, name):
            raise InputError("--map-label is for labels of texts, pairs and relations; these examples have none.")
        label = label_map.get(getattr(example, name), getattr(example, name))
        changes: dict[str, Any] = {name: label}
        if getattr(example, "phrases", ()):
            phrases = ((span, label_map.get(value, value)) for span, value in example.phrases)
            changes["phrases"] = tuple((span, value) for span, value in phrases if value)
        if label:
            yield dataclasses.replace(example, **changes)


def _leave_out_disputed(pairs: list[Any], path: str) -> list[Any]:
    """Leave out pairs whose annotators did not agree: SNLI marks them by -, or by -1 beside 0 to 2."""
    labels = {pair.target for pair in pairs}
    mark = "-" if "-" in labels else "-1" if labels == {"-1", "0", "1", "2"} else None
    kept = [pair for pair in pairs if pair.target != mark]
    if mark is not None and kept:
        logger.warning("%s: %d pair(s) without a label (%s) are left out.", path, len(pairs) - len(kept), mark)
        return kept
    return pairs


class SharedInputs:
    """The inputs of one or several runs; each is read or computed when a run first needs it."""

    def __init__(
        self, inputs: TaskInputs, *, on_words: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """`on_words` gets how many words, and of how many, the biLM has read."""
        self.inputs, self.family = inputs, choose_family(inputs.family)
        self._on_words = on_words
        self._pretrained: dict[int, tuple[WordList, npt.NDArray[np.float32]]] = {}
        self._stores: dict[bool, LayerStore] = {}

    @cached_property
    def splits(self) -> Splits:
        """The examples of all files."""
        return read_splits(self.inputs)

    @cached_property
    def first_senses(self) -> dict[str, str]:
        """The first sense of every lemma of WordNet; empty without its index."""
        if self.inputs.options.sense_index is None:
            return {}
        if self.family.name != "senses":
            raise InputError(f"--sense-index is for senses, but the family is {self.family.name}.")
        return read_first_senses(self.inputs.options.sense_index)

    @cached_property
    def frozen(self) -> Elmo:
        """The biLM, not to be changed."""
        return self.open_model()

    @cached_property
    def frozen_fingerprint(self) -> str:
        """The fingerprint of the frozen biLM."""
        return fingerprint(self.frozen)

    def open_model(self) -> Elmo:
        """Open the biLM again, so that it may be changed."""
        options = self.inputs.options
        return Elmo.from_pretrained(self.inputs.model, precision=options.precision, device=options.device)

    def read_pretrained(self, num_kept: int) -> tuple[WordList, npt.NDArray[np.float32]]:
        """Return the words and vectors of the vector file: the data's and the first `num_kept`."""
        path = self.inputs.options.word_vectors
        if path is None:
            raise InputError("words.kinds has 'pretrained', but there is no file; give --word-vectors FILE.")
        if num_kept not in self._pretrained:
            self._pretrained[num_kept] = read_pretrained(Path(path), self.texts(), num_kept=num_kept)
        return self._pretrained[num_kept]

    def embed_texts(self, *, with_context: bool) -> LayerStore:
        """Return the store with the frozen biLM's layers of all sentences; what is missing is computed now."""
        if with_context not in self._stores:
            options = self.inputs.options
            store = LayerStore(
                self.frozen,
                None if options.cache_folder is None else Path(options.cache_folder),
                max_bytes=options.cache_bytes,
                with_context=with_context,
                model_fingerprint=self.frozen_fingerprint,
            )
            store.add(self.texts(), self._on_words)
            self._stores[with_context] = store
        return self._stores[with_context]

    def texts(self) -> Iterator[Words]:
        """Yield every sentence of every example."""
        for split in (self.splits.train, self.splits.dev, self.splits.test):
            for example in split:
                yield from self.family.texts(example)
