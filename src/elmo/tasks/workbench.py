"""What several runs on the same inputs share: examples, word vectors, the frozen biLM and its layers on disk."""

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.model import Elmo
from elmo.tasks.data import Parts, draw_training, read_parts
from elmo.tasks.examples import Words
from elmo.tasks.families.family import choose_family
from elmo.tasks.layer_store import LayerStore
from elmo.tasks.readers.wsd import read_first_senses
from elmo.tasks.run_folder import TaskInputs
from elmo.tasks.settings import TaskSettings
from elmo.tasks.word_vectors import WordList, read_pretrained


class Workbench:
    """What several runs on the same inputs share: examples, word vectors, the frozen biLM and its layers."""

    def __init__(
        self, inputs: TaskInputs, *, on_words: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """`on_words` is told how many words of all the biLM has read."""
        self.inputs, self.family = inputs, choose_family(inputs.family)
        self._on_words = on_words
        self._pretrained: dict[int, tuple[WordList, npt.NDArray[np.float32]]] = {}

    @cached_property
    def parts(self) -> Parts:
        """The examples of all files."""
        given = self.inputs
        return read_parts(given.family, given.train, given.dev, given.test, given.read, given.label_map)

    def read_pretrained(self, num_kept: int) -> tuple[WordList, npt.NDArray[np.float32]]:
        """Give the words and vectors of the file of word vectors: the data's and the first `num_kept`."""
        if self.inputs.word_vectors is None:
            raise InputError("words.kinds has 'pretrained', but there is no file; give --word-vectors FILE.")
        if num_kept not in self._pretrained:
            path = Path(self.inputs.word_vectors)
            self._pretrained[num_kept] = read_pretrained(path, self.texts(), num_kept=num_kept)
        return self._pretrained[num_kept]

    @cached_property
    def first_senses(self) -> dict[str, str]:
        """The first sense of every lemma of WordNet."""
        if self.family.name != "senses" or self.inputs.sense_index is None:
            raise InputError(f"--sense-index is for senses, but the family is {self.family.name}.")
        return read_first_senses(self.inputs.sense_index)

    def open_model(self) -> Elmo:
        """Open the biLM anew, so that it may be changed."""
        return Elmo.from_pretrained(self.inputs.model, precision=self.inputs.precision, device=self.inputs.device)

    @cached_property
    def frozen(self) -> Elmo:
        """The biLM as it is."""
        return self.open_model()

    @cached_property
    def store(self) -> LayerStore:
        """The layers of all sentences, computed where they were not yet."""
        folder = None if self.inputs.cache_folder is None else Path(self.inputs.cache_folder)
        store = LayerStore(self.frozen, folder, max_bytes=self.inputs.cache_bytes)
        total, done = store.num_missing_words(self.texts()), 0

        def advance(num_words: int) -> None:
            nonlocal done
            done += num_words
            self._on_words(done, total)

        store.add(self.texts(), advance)
        return store

    def prepare(self, settings: TaskSettings) -> None:
        """Read and compute now what a run with these settings needs, so that mistakes show before it begins."""
        draw_training(self.parts, settings.fit)
        if settings.elmo.tune and (self.inputs.precision, self.inputs.device) != ("float32", "cpu"):
            raise InputError(
                "A biLM is tuned in float32 on the CPU, where the task network runs; leave out --precision and "
                "--device, or keep the biLM frozen."
            )
        if self.inputs.sense_index is not None:
            _ = self.first_senses
        if "pretrained" in settings.words.kinds:
            self.read_pretrained(settings.words.num_kept)
        if settings.elmo.where != "none":
            _ = self.frozen if settings.elmo.tune else self.store

    def texts(self) -> Iterator[Words]:
        """Give every sentence of every example."""
        for part in (self.parts.train, self.parts.dev, self.parts.test):
            for example in part:
                yield from self.family.texts(example)
