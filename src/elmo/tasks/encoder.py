"""Words -> h: x and ELMo side by side, a sequence encoder, and ELMo once more beside its output if wanted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.layer import ElmoLayer, LayerMixes
from elmo.tasks.examples import Words
from elmo.tasks.networks import build_sequence_encoder
from elmo.tasks.settings import TaskSettings
from elmo.tasks.word_features import Characters, Vocabularies, WordFeatures, spell

LayersOf = Callable[[Words], npt.NDArray[np.float16]]  # a sentence -> its values (T, BilmShape.num_values)


@dataclass(frozen=True)
class BilmShape:
    """The layers of a biLM that a task reads, their dimensions, and those of its context layer (0: not read)."""

    num_layers: int
    dim: int
    context_dim: int = 0

    @property
    def num_values(self) -> int:
        """The values of one word: all layers, then the context vector."""
        return self.num_layers * self.dim + self.context_dim


@dataclass(frozen=True)
class WordBatch:
    """Sentences ready for an Encoder. T is at least 1, even if all are empty."""

    sentences: tuple[Words, ...]
    mask: Tensor  # (B, T)
    learned_ids: Tensor  # (B, T)
    pretrained_ids: Tensor  # (B, T)
    characters: Characters | None
    layers: Tensor | None  # (L+1, B, T, 2D) of a frozen biLM
    context: Tensor | None  # (B, T, d) of its context layer


class Batcher:
    """Builds batches of words: ids, characters if the settings use them, and the layers of a frozen biLM."""

    def __init__(
        self,
        settings: TaskSettings,
        words: Vocabularies,
        bilm: BilmShape | None = None,
        layers_of: LayersOf | None = None,
    ) -> None:
        """`layers_of` returns the values of a sentence; None if no frozen biLM is read."""
        self._words, self._bilm, self._layers_of = words, bilm, layers_of
        self._spells = "characters" in settings.words.kinds

    def __call__(self, sentences: Sequence[Words]) -> WordBatch:
        """Build one batch of the sentences, in the order given."""
        length = max(1, *(len(words) for words in sentences))
        lengths = torch.tensor([len(words) for words in sentences])
        layers, context = self._stack(sentences, length)
        return WordBatch(
            tuple(sentences),
            torch.arange(length) < lengths[:, None],
            _pad([self._words.learned.ids(words) for words in sentences], length),
            _pad([self._words.pretrained.ids(words) for words in sentences], length),
            spell(sentences, length) if self._spells else None,
            layers,
            context,
        )

    def _stack(self, sentences: Sequence[Words], length: int) -> tuple[Tensor | None, Tensor | None]:
        if self._bilm is None or self._layers_of is None:
            return None, None
        shape = self._bilm
        stacked = np.zeros((len(sentences), length, shape.num_values), dtype=np.float32)
        for row, words in zip(stacked, sentences, strict=True):
            row[: len(words)] = self._layers_of(words)
        values = torch.from_numpy(stacked)
        layers = values[..., : shape.num_layers * shape.dim].view(*values.shape[:2], shape.num_layers, shape.dim)
        context = values[..., shape.num_layers * shape.dim :] if shape.context_dim else None
        return layers.permute(2, 0, 1, 3), context


class Encoder(nn.Module):
    """[x; ELMo] -> sequence encoder -> [h; ELMo], as far as the settings put ELMo there."""

    def __init__(
        self,
        words: WordFeatures,
        elmo: LayerMixes | ElmoLayer | None,
        settings: TaskSettings,
        bilm: BilmShape | None = None,
        *,
        extra_dim: int = 0,
    ) -> None:
        """`elmo` mixes given layers or, tuned, reads the words itself; `extra_dim`: further features of words."""
        super().__init__()
        self.words = words
        self.elmo = elmo
        self._where, self._context = settings.elmo.where, settings.elmo.context
        elmo_dim = 0 if elmo is None else elmo.output_dim
        if self._context == "concat" and bilm is not None:
            elmo_dim += bilm.context_dim
        self.input_dim = words.dim + extra_dim + (elmo_dim if self._where in ("input", "both") else 0)
        # Dropped features are the same at every word of a sentence (B, D, T), as suits a recurrent network.
        self.input_dropout = nn.Dropout1d(settings.words.dropout)
        self.output_dropout = nn.Dropout(settings.network.dropout)
        self.between = build_sequence_encoder(settings.network, self.input_dim)  # its name in saved weights
        self.output_dim = settings.network.dim + (elmo_dim if self._where in ("output", "both") else 0)
        if self._context == "mix" and bilm is not None:
            self.context_layer = nn.Linear(bilm.context_dim, bilm.dim, bias=False)

    if TYPE_CHECKING:

        def __call__(self, batch: WordBatch, extra: Tensor | None = None) -> Tensor:
            """Return h; nn.Module's own signature would hide the result's type."""

    def forward(self, batch: WordBatch, extra: Tensor | None = None) -> Tensor:
        """Return h (B, T, output_dim), zero where padded; `extra` (B, T, extra_dim) enters with the words."""
        mixes = self._mix(batch)
        inputs = self._inputs(batch, mixes, extra)
        states = self.between(self.input_dropout(inputs.transpose(1, 2)).transpose(1, 2), batch.mask)
        if self._where in ("output", "both"):
            states = torch.cat([states, mixes[-1]], dim=-1)
        dropped: Tensor = self.output_dropout(states)
        return dropped * batch.mask[..., None]

    def read_inputs(self, batch: WordBatch) -> Tensor:
        """Return what enters the sequence encoder (B, T, input_dim), before its dropout."""
        return self._inputs(batch, self._mix(batch), None)

    @property
    def mixes(self) -> LayerMixes | None:
        """The module that mixes the layers, if ELMo enters at all."""
        return self.elmo.mixes if isinstance(self.elmo, ElmoLayer) else self.elmo

    def _mix(self, batch: WordBatch) -> tuple[Tensor, ...]:
        if self.elmo is None:
            return ()
        if isinstance(self.elmo, ElmoLayer):
            mixed = self.elmo([list(words) for words in batch.sentences]).mixes
            return tuple(F.pad(mix, (0, 0, 0, batch.mask.shape[1] - mix.shape[1])) for mix in mixed)
        layers, context = batch.layers, batch.context
        assert layers is not None
        if self._context == "none" or context is None:
            return self.elmo(layers, batch.mask)
        if self._context == "mix":
            return self.elmo(torch.cat([layers, self.context_layer(context)[None]]), batch.mask)
        dropped = F.dropout(context, self.elmo.dropout, self.training)
        return tuple(torch.cat([mix, dropped], dim=-1) for mix in self.elmo(layers, batch.mask))

    def _inputs(self, batch: WordBatch, mixes: tuple[Tensor, ...], extra: Tensor | None) -> Tensor:
        parts = [self.words(batch.learned_ids, batch.pretrained_ids, batch.characters)]
        parts += [] if extra is None else [extra]
        parts += [mixes[0]] if self._where in ("input", "both") else []
        return torch.cat(parts, dim=-1)


def _pad(rows: list[list[int]], length: int) -> Tensor:
    return torch.tensor([row + [0] * (length - len(row)) for row in rows], dtype=torch.int64)
