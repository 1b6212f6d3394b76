"""Shared by the modules of this folder: open a model with a carried or zero state, and check lists of words."""

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.download import fetch_url
from elmo.checkpoint.formats.hdf5 import read_hdf5
from elmo.checkpoint.source import OFFICIAL, fetch_official, official_alias_of
from elmo.errors import CheckpointError, InputError
from elmo.inference.layers import Layers
from elmo.model import Elmo
from elmo.text.sentence_input import as_plain, check_words, describe_value

Array = npt.NDArray[np.float32]


def open_model(checkpoint: Checkpoint, *, stateful: bool, device: str = "cpu") -> Elmo:
    """Return a model with the literal boundaries and, if `stateful`, the carried state of the original programs."""
    return Elmo(checkpoint, device=device, state="carry" if stateful else "zero", literal_boundaries=True)


def open_files(options_file: str | Path, weight_file: str | Path) -> Checkpoint:
    """Open a model from two files, each a path or a URL; they may be in different folders."""
    paths = []
    for name, file in (("options_file", options_file), ("weight_file", weight_file)):
        alias = official_alias_of(str(file))
        if alias is not None:
            paths.append(fetch_official(alias) / PurePosixPath(str(file)).name)
        elif is_url(file):
            paths.append(fetch_url(str(file)))
        elif isinstance(file, str | Path) and Path(file).expanduser().is_file():
            paths.append(Path(file).expanduser())
        else:
            raise CheckpointError(
                f"{name} is {file!r}, which is not a file; give the path or URL of a model's file, or a URL of the "
                f"official models ({', '.join(OFFICIAL)})."
            )
    return read_hdf5(*paths)


def is_url(source: str | Path) -> bool:
    """Return whether a source has to be downloaded."""
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def read_word_lists(sentences: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return sentences that are lists of words; InputError for anything else.

    In a flat list of words, a common mistake, each letter would become a word.
    """
    if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
        raise InputError(
            f"The sentences are {describe_value(sentences)}; give lists of words, such as [['I', 'went']]."
        )
    word_lists = [as_plain(sentence) for sentence in as_plain(sentences)]
    if not word_lists:
        raise InputError("An empty list was given; give at least one sentence, such as [['I', 'went']].")
    for position, words in enumerate(word_lists):
        if not isinstance(words, list | tuple):
            raise InputError(
                f"Sentence {position} is {describe_value(words)}; put the words in a list: [['I', 'went']]."
            )
        check_words(words, f"Sentence {position}")
    return list(map(list, word_lists))


class Embedder:
    """The base of the embedders: a model, whose state is carried from call to call if it is `stateful`."""

    def __init__(self, *, stateful: bool) -> None:
        self._stateful = stateful
        self._opened: Elmo | None = None

    @property
    def _model(self) -> Elmo:
        if self._opened is None:
            raise InputError("No model is loaded; call load(directory) first.")
        return self._opened

    def reset_state(self) -> None:
        """Set the LSTM state to zero."""
        if self._stateful and self._opened is not None:
            self._opened.reset_state()

    def _embed(self, sentences: Sequence[list[str]], batch_size: int, layers: Layers) -> list[Array]:
        """Return the vectors of sentences, computed in order in batches of `batch_size`."""
        batches = [sentences[start : start + batch_size] for start in range(0, len(sentences), batch_size)]
        return [array for batch in batches for array in self._model.embed(batch, layers=layers)]
