"""The API of simple_elmo: ElmoModel, lists of words -> one padded array.

`from elmo.compat.simple_elmo import ElmoModel` replaces the import from simple_elmo.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from elmo.checkpoint.open import open_checkpoint
from elmo.compat.engine import Array, Embedder, open_model, read_word_lists
from elmo.errors import InputError
from elmo.text.sentence_input import check_batch_size

Texts: TypeAlias = Iterable[Sequence[str]]
LayerChoice = Literal["average", "top", "all"]

PREFERRED_WEIGHTS = "model.hdf5"


class ElmoModel(Embedder):
    """Computes vectors with the model that `load` opens. `stateful=False` starts every sentence from a zero state."""

    def __init__(self, *, stateful: bool = True) -> None:
        super().__init__(stateful=stateful)
        self.batch_size: int | None = None
        self.max_chars: int | None = None
        self.vector_size: int | None = None
        self.n_layers: int | None = None

    def load(self, directory: str | Path, max_batch_size: int = 32, full: bool = False) -> str:
        """Open a folder or a zip archive; `full` opens its TensorFlow checkpoint, with the softmax."""
        check_batch_size(max_batch_size, "max_batch_size")
        path = Path(directory) / PREFERRED_WEIGHTS
        source = path if path.is_file() and not full else directory
        checkpoint = open_checkpoint(source, format="tensorflow" if full else None)
        self._opened = open_model(checkpoint, stateful=self._stateful)
        characters = self._model.config.characters
        self.batch_size = max_batch_size
        self.max_chars = characters.max_characters if characters else None
        self.vector_size = self._model.dim
        self.n_layers = self._model.num_layers
        return "The model is now loaded."

    def get_elmo_vectors(self, texts: Texts, warmup: bool = True, layers: LayerChoice = "average") -> Array:
        """Return (N, T, 2D), or (N, L+1, T, 2D) for layers="all"; zero after a sentence's last word.

        `warmup` first runs the first batch only for its final state; it has no effect without a carried state.
        """
        arrays = self._embed_texts(texts, warmup, layers)
        width = max(array.shape[-2] for array in arrays)
        padded = np.zeros((len(arrays), *arrays[0].shape[:-2], width, arrays[0].shape[-1]), dtype=np.float32)
        for row, array in zip(padded, arrays, strict=True):
            row[..., : array.shape[-2], :] = array
        return padded

    def get_elmo_vector_average(self, texts: Texts, warmup: bool = True, layers: LayerChoice = "average") -> Array:
        """Return the mean vector of each sentence's words, scaled to length 1: (N, 2D).

        With layers="all", return (N, L+1, 2D); the layers of a sentence are scaled together. An empty sentence has
        zeros.
        """
        arrays = self._embed_texts(texts, warmup, layers)
        means = [array.sum(axis=-2) / max(1, array.shape[-2]) for array in arrays]
        lengths = [float(np.linalg.norm(mean)) or 1.0 for mean in means]
        return np.stack([mean / length for mean, length in zip(means, lengths, strict=True)])

    def _embed_texts(self, texts: Texts, warmup: bool, layers: LayerChoice) -> list[Array]:
        model, batch_size = self._model, self.batch_size or 1
        if layers not in get_args(LayerChoice):
            raise InputError(f"layers is {layers!r}; choose 'average', 'top' or 'all'.")
        sentences = read_word_lists(texts)
        if warmup and self._stateful:
            model.embed(sentences[:batch_size], layers="top")
        return self._embed(sentences, batch_size, layers)
