"""The inputs that several runs share: examples, word vectors, the frozen biLM and its layers on disk."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.model import Elmo
from elmo.tasks.examples import Words
from elmo.tasks.families import choose_family
from elmo.tasks.families.blocks import WordList, read_pretrained
from elmo.tasks.families.network import TaskNetwork
from elmo.tasks.fit import TaskReport
from elmo.tasks.layer_store import LayerStore
from elmo.tasks.readers import read_examples
from elmo.tasks.readers.datasets import read_first_senses
from elmo.tasks.settings import FitSettings, ReadSettings, TaskInputs

DEV_FRACTION, MIN_DEV = 0.1, 50  # of the training examples, held out if there is no dev file
_DEV_SEED = 20180215  # the same for all runs, so that their scores are comparable


@dataclass(frozen=True)
class Splits:
    """Labelled examples: `dev` decides when to stop, `test` is measured once at the end; both may be empty."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]
    read: ReadSettings  # with everything that was detected

    def draw(self, settings: FitSettings, *, needs_dev: bool = True) -> tuple[list[Any], list[Any]]:
        """Return the training and dev examples of a run; without a dev file, some training examples are held out.

        A tenth of a small training set would be too few, so up to a quarter is held out to reach MIN_DEV.
        """
        train, dev = self.train, self.dev
        if not dev and needs_dev:
            if len(train) < 2:
                raise InputError("One training example is too few to hold out dev examples; give a dev file.")
            order = list(range(len(train)))
            random.Random(_DEV_SEED).shuffle(order)
            num_dev = max(1, round(max(len(train) * DEV_FRACTION, min(MIN_DEV, len(train) / 4))))
            dev, train = ([train[number] for number in sorted(side)] for side in (order[:num_dev], order[num_dev:]))
        if settings.fraction < 1:
            numbers = range(len(train))
            num_kept = max(1, round(len(train) * settings.fraction))
            train = [train[number] for number in sorted(random.Random(settings.seed).sample(numbers, num_kept))]
        return train, dev


class SharedInputs:
    """The inputs of one or several runs, each read or computed when it is first needed."""

    def __init__(self, inputs: TaskInputs, report: TaskReport | None = None) -> None:
        self.inputs = inputs
        self.family: type[TaskNetwork] = choose_family(inputs.family)
        self.report = report or TaskReport()
        self._pretrained: dict[int, tuple[WordList, npt.NDArray[np.float32]]] = {}
        self._stores: dict[bool, LayerStore] = {}

    @cached_property
    def splits(self) -> Splits:
        """The examples of all files; dev and test are read like the training file."""
        source, family, read = self.inputs.train, self.inputs.family, self.inputs.options.read
        train, detected = read_examples(source, family, read)
        if detected.columns and detected.columns != dict(read.columns) and isinstance(source, str):
            listed = ", ".join(f"{role}={name}" for role, name in detected.columns.items())
            target = f", whose target is a {detected.pair_target}" if family == "pairs" else ""
            self.report.say(
                f"{source} is read as {detected.format} with columns {listed}{target}; change that with "
                "--text-column, --label-column or --column."
            )
        dev, test = (
            [] if source is None else read_examples(source, family, read, trained=detected)[0]
            for source in (self.inputs.dev, self.inputs.test)
        )
        return Splits(train, dev, test, detected)

    def texts(self, examples: Iterable[Any]) -> list[Words]:
        """Return the sentences of examples that a biLM encodes."""
        return [text for example in examples for text in self.family.texts(example)]

    @cached_property
    def first_senses(self) -> dict[str, str]:
        """The first sense of every lemma of WordNet; empty without its index."""
        if self.inputs.options.sense_index is None:
            return {}
        if self.inputs.family != "senses":
            raise InputError(f"--sense-index is for senses, but the family is {self.inputs.family}.")
        return read_first_senses(self.inputs.options.sense_index)

    @cached_property
    def frozen(self) -> Elmo:
        """The frozen biLM, which must not be modified."""
        return self.open_model()

    @cached_property
    def frozen_fingerprint(self) -> str:
        """The fingerprint of the frozen biLM."""
        return self.frozen.checkpoint().fingerprint()

    def open_model(self) -> Elmo:
        """Open another copy of the biLM, which may be modified."""
        options = self.inputs.options
        return Elmo.from_pretrained(self.inputs.model, precision=options.precision, device=options.device)

    def read_pretrained(self, num_kept: int) -> tuple[WordList, npt.NDArray[np.float32]]:
        """Return words and vectors of the vector file: the words in the data and the first `num_kept`."""
        path = self.inputs.options.word_vectors
        if path is None:
            raise InputError("words.kinds has 'pretrained', but there is no file; give --word-vectors FILE.")
        if num_kept not in self._pretrained:
            texts = self.texts([*self.splits.train, *self.splits.dev, *self.splits.test])
            self._pretrained[num_kept] = read_pretrained(Path(path), texts, num_kept=num_kept)
        return self._pretrained[num_kept]

    def embed_texts(self, examples: Iterable[Any], *, pooled: bool) -> LayerStore:
        """Return the store with the layers of the examples' texts, after computing the missing ones."""
        if pooled not in self._stores:
            cache = self.inputs.options.cache_folder
            self._stores[pooled] = LayerStore(self.frozen, None if cache is None else Path(cache), pooled=pooled)
        self._stores[pooled].add(self.texts(examples), partial(self.report.show, "biLM layers", "words"))
        return self._stores[pooled]
