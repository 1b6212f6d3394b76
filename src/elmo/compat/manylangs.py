"""The API of ELMoForManyLangs: Embedder, lists of words -> one array per sentence.

`from elmo.compat.manylangs import Embedder` replaces the import from elmoformanylangs.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from elmo.checkpoint.open import open_checkpoint
from elmo.compat import engine
from elmo.compat.engine import Array, open_model, read_word_lists
from elmo.errors import InputError
from elmo.inference.layers import Layers
from elmo.text.sentence_input import check_batch_size

AVERAGE, ALL_LAYERS = -1, -2


class Embedder(engine.Embedder):
    """Computes vectors of sentences with a model of one of the 44 languages.

    Sentences are sorted by length, longest first, and computed in batches of `batch_size`. Each batch starts from the
    final state of the previous one. The original also shuffles the batches; this class does not. `stateful=False`
    starts every sentence from a zero state, so its vectors do not depend on the batches or on earlier calls.
    """

    def __init__(self, model_dir: str | Path, batch_size: int = 64, *, stateful: bool = True) -> None:
        check_batch_size(batch_size)
        self.model_dir = model_dir
        self.batch_size = batch_size
        super().__init__(stateful=stateful)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._opened = open_model(open_checkpoint(model_dir), stateful=stateful, device=device)

    def sents2elmo(self, sents: Iterable[Sequence[str]], output_layer: int = AVERAGE) -> list[Array]:
        """Return one array per sentence, in input order.

        `output_layer`: -1 for the average of the layers, (T, 2D); -2 for all layers, (L+1, T, 2D); or the index of
        a layer, (T, 2D).
        """
        top = self._model.num_layers - 1
        if output_layer not in range(ALL_LAYERS, top + 1):
            raise InputError(
                f"output_layer is {output_layer!r}; give -1 for the average of the layers, -2 for all of them, or "
                f"one from 0 to {top}."
            )
        names: dict[int, Layers] = {AVERAGE: "average", ALL_LAYERS: "all"}
        layers = names.get(output_layer, output_layer)
        sentences = read_word_lists(sents)
        order = sorted(range(len(sentences)), key=lambda index: -len(sentences[index]))
        arrays = self._embed([sentences[index] for index in order], self.batch_size, layers)
        return [arrays[position] for position in np.argsort(order)]
