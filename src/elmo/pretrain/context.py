"""The context objective: beside the language model, both directions together predict what surrounds each word.

What surrounds a word is its vector in the context layer (inference/context.py), which leaves out the word itself.
One linear head reads the top layer, [left to right; right to left], each having read the word; it is trained
beside the model and is not part of it. Words outside the table of static vectors add nothing to a sum.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.checkpoint.components import ContextLayer
from elmo.checkpoint.open import open_checkpoint
from elmo.corpus.prepared import MARK, PreparedCorpus
from elmo.corpus.static_vectors import read_static_vectors
from elmo.errors import ConfigError
from elmo.inference.context import Array, ContextReader
from elmo.model import Elmo
from elmo.nn import draw_glorot
from elmo.pretrain.distillation import choose_sentences
from elmo.pretrain.settings import ContextSettings
from elmo.pretrain.stream import ContextTargets, Ids, Span

MAX_VALIDATION_WORDS = 48  # of a sentence
_SENTENCES_AT_ONCE = 256  # bounds memory


class ContextObjective:
    """Computes the vectors to predict, and measures the predictions on held-out text."""

    def __init__(self, settings: ContextSettings, corpus: PreparedCorpus) -> None:
        layer = _open_layer(settings, corpus)
        self._corpus, self.dim, self._window = corpus, layer.config.dim, layer.config.window
        self.fingerprint = layer.content_hash()
        self._reader = ContextReader(layer, lambda words: np.zeros((len(words), layer.word_dim), np.float32))

    def find_targets(self, spans: Iterable[Span], num_rows: int) -> ContextTargets:
        """Return the targets of a window: the words that both directions read in it, with what surrounds them.

        Of a sentence that extends beyond the window, both directions read only a part in its middle there, so the
        share of words with a target grows with num_steps.
        """
        ids: list[Ids] = []  # of the words and their neighbours, sentence by sentence
        wanted: list[slice] = []
        places = [np.empty((2, 0), dtype=np.int64)]
        for span in spans:
            marks = np.flatnonzero(span.tokens == MARK)
            ends = np.append(marks[1:], len(span.tokens))
            stop = span.offset + span.size
            inside = (marks < stop) & (ends > span.offset)
            for mark, end in zip(marks[inside].tolist(), ends[inside].tolist(), strict=True):
                # Right to left reads the word at p when left to right reads the one at mark + end - p.
                first = max(span.offset, mark + end - stop + 1, mark + 1)
                last = min(stop - 1, mark + end - span.offset, end - 1)
                if first > last:
                    continue
                left = max(mark + 1, first - self._window)
                ids.append(span.tokens[left : min(end, last + 1 + self._window)])
                wanted.append(slice(first - left, last + 1 - left))
                steps = np.arange(first, last + 1) - span.offset + span.step
                places.append(np.stack([steps, steps[::-1]]) * num_rows + span.row)
        vectors = [np.zeros((0, self.dim), np.float32)]
        for found, part in zip(self._read(self._spell(ids)), wanted, strict=True):
            vectors.append(found[part])
        return _drop_empty(
            torch.from_numpy(np.concatenate(places, axis=1)), torch.from_numpy(np.concatenate(vectors))
        )

    def _spell(self, ids: Sequence[Ids]) -> list[list[str]]:
        """Return the words of some sentences; each distinct word is looked up once."""
        if not ids:
            return []
        distinct, which = np.unique(np.concatenate(ids), return_inverse=True)
        words = np.array(self._corpus.words(distinct), dtype=object)[which]
        return [part.tolist() for part in np.split(words, np.cumsum([len(each) for each in ids])[:-1])]

    def validate(self, model: Elmo, head: "ContextHead", sentences: Sequence[Sequence[str]]) -> float:
        """Return the mean cosine of the head's vectors with the true ones over some words of a text."""
        chosen = choose_sentences(sentences, MAX_VALIDATION_WORDS)
        states = torch.from_numpy(np.concatenate(model.embed(chosen, layers="top")))
        vectors = torch.from_numpy(np.concatenate(self._read(chosen)))
        numbers = torch.arange(len(vectors)).expand(2, -1)
        targets = _drop_empty(numbers, vectors)
        device = head.linear.weight.device
        with torch.no_grad():
            return float(head(states[targets.places[0]].to(device), targets.vectors.to(device)).mean())

    def _read(self, sentences: Sequence[Sequence[str]]) -> list[Array]:
        starts = range(0, len(sentences), _SENTENCES_AT_ONCE)
        return [
            found for start in starts for found in self._reader.read(sentences[start : start + _SENTENCES_AT_ONCE])
        ]


class ContextHead(nn.Module):
    """The linear fusion of both directions that predicts what surrounds a word."""

    def __init__(self, input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(input_dim, output_dim)
        draw_glorot(self.linear.weight)

    def forward(self, states: Tensor, vectors: Tensor) -> Tensor:
        """States (N, 2D) of the top layer and vectors (N, d) of length 1 -> cosines (N,)."""
        return (F.normalize(self.linear(states), dim=-1) * vectors).sum(dim=-1)


def _drop_empty(places: Tensor, vectors: Tensor) -> ContextTargets:
    """Leave out words that nothing known surrounds; scale the other vectors to length 1."""
    lengths = torch.linalg.vector_norm(vectors, dim=1)
    is_there = lengths > 0
    return ContextTargets(places[:, is_there], vectors[is_there] / lengths[is_there, None])


def _open_layer(settings: ContextSettings, corpus: PreparedCorpus) -> ContextLayer:
    """Open the context layer of a model, or build one from a file; words outside its table have no vector."""
    if settings.vectors is not None:
        static = read_static_vectors(settings.vectors, corpus)
        dim = static.vectors.shape[1]
        arrays = {
            "unknown_map": np.zeros((1, dim), np.float32),
            "unknown_bias": np.zeros(dim, np.float32),
            # For sentence vectors, which are not needed here.
            "sentence_scale": np.ones(dim, np.float32),
            "word_mean": np.zeros(1, np.float32),
        }
        layer = static.to_layer(arrays)
    else:
        assert settings.model is not None
        found = open_checkpoint(settings.model).context
        if found is None:
            raise ConfigError(
                f"context.model is {settings.model}, which has no context layer; add one with elmo fuse, or set "
                "context.vectors to a file of static vectors."
            )
        layer = found
    no_map = {name: np.zeros_like(layer.arrays[name]) for name in ("unknown_map", "unknown_bias")}
    return replace(layer, arrays={**layer.arrays, **no_map})
