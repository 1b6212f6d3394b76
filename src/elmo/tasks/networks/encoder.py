"""Words -> h: x and ELMo side by side, the network between, and ELMo again behind it if asked for."""

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
from elmo.tasks.networks.between import build_between
from elmo.tasks.settings import TaskSettings
from elmo.tasks.word_vectors import Characters, WordInput, WordList, spell

LayersOf = Callable[[Words], npt.NDArray[np.float16]]


@dataclass(frozen=True)
class WordBatch:
    """Sentences ready for an Encoder. T is at least 1, even if all are empty."""

    sentences: tuple[Words, ...]
    mask: Tensor  # (B, T)
    learned_ids: Tensor  # (B, T)
    pretrained_ids: Tensor  # (B, T)
    characters: Characters | None
    layers: Tensor | None  # (L+1, B, T, 2D) of a frozen biLM


class Batcher:
    """Makes batches of words: ids by word lists, characters if wanted, layers from where they are kept."""

    def __init__(
        self, learned: WordList, pretrained: WordList, *, with_characters: bool, layers_of: LayersOf | None
    ) -> None:
        """`layers_of` gives the layers (T, L+1, 2D) of a sentence; None where no frozen biLM is read."""
        self._learned, self._pretrained = learned, pretrained
        self._with_characters, self._layers_of = with_characters, layers_of

    def __call__(self, sentences: Sequence[Words]) -> WordBatch:
        """Make one batch of the sentences, in the order given."""
        length = max(1, *(len(words) for words in sentences))
        lengths = torch.tensor([len(words) for words in sentences])
        return WordBatch(
            tuple(sentences),
            torch.arange(length) < lengths[:, None],
            _pad([self._learned.ids(words) for words in sentences], length),
            _pad([self._pretrained.ids(words) for words in sentences], length),
            spell(sentences, length) if self._with_characters else None,
            None if self._layers_of is None else self._stack(sentences, length, self._layers_of),
        )

    def _stack(self, sentences: Sequence[Words], length: int, layers_of: LayersOf) -> Tensor:
        arrays = [layers_of(words) for words in sentences]
        num_layers, dim = arrays[0].shape[1:]
        stacked = np.zeros((len(sentences), length, num_layers, dim), dtype=np.float32)
        for row, array in zip(stacked, arrays, strict=True):
            row[: len(array)] = array
        return torch.from_numpy(stacked).permute(2, 0, 1, 3)


class Encoder(nn.Module):
    """[x; ELMo] -> network -> [h; ELMo], as far as the settings put ELMo there."""

    def __init__(
        self, words: WordInput, elmo: LayerMixes | ElmoLayer | None, settings: TaskSettings, *, extra_dim: int = 0
    ) -> None:
        """`elmo` mixes given layers or, tuned, reads the words itself; `extra_dim`: further features of words."""
        super().__init__()
        self.words = words
        self.elmo = elmo
        self._where = settings.elmo.where
        elmo_dim = 0 if elmo is None else elmo.output_dim
        self.input_dim = words.dim + extra_dim + (elmo_dim if self._where in ("input", "both") else 0)
        # Dropped features are the same at every word of a sentence (B, D, T), as suits a recurrent network.
        self.input_dropout = nn.Dropout1d(settings.words.dropout)
        self.output_dropout = nn.Dropout(settings.network.dropout)
        self.between = build_between(settings.network, self.input_dim)
        self.output_dim = settings.network.dim + (elmo_dim if self._where in ("output", "both") else 0)

    if TYPE_CHECKING:

        def __call__(self, batch: WordBatch, extra: Tensor | None = None) -> Tensor:
            """Give h; nn.Module's own signature would hide the result's type."""

    def forward(self, batch: WordBatch, extra: Tensor | None = None) -> Tensor:
        """Give h (B, T, output_dim), zero where padded; `extra` (B, T, extra_dim) goes in with the words."""
        mixes = self._mixes(batch)
        inputs = self._inputs(batch, mixes, extra)
        states = self.between(self.input_dropout(inputs.transpose(1, 2)).transpose(1, 2), batch.mask)
        if self._where in ("output", "both"):
            states = torch.cat([states, mixes[-1]], dim=-1)
        dropped: Tensor = self.output_dropout(states)
        return dropped * batch.mask[..., None]

    def read_inputs(self, batch: WordBatch) -> Tensor:
        """Give what enters the network between (B, T, input_dim), without dropout of its own."""
        return self._inputs(batch, self._mixes(batch), None)

    @property
    def mixes(self) -> LayerMixes | None:
        """What mixes the layers, if ELMo enters at all."""
        return self.elmo.mixes if isinstance(self.elmo, ElmoLayer) else self.elmo

    def _mixes(self, batch: WordBatch) -> tuple[Tensor, ...]:
        if self.elmo is None:
            return ()
        if isinstance(self.elmo, LayerMixes):
            assert batch.layers is not None
            return self.elmo(batch.layers, batch.mask)
        mixed = self.elmo([list(words) for words in batch.sentences]).mixes
        return tuple(F.pad(mix, (0, 0, 0, batch.mask.shape[1] - mix.shape[1])) for mix in mixed)

    def _inputs(self, batch: WordBatch, mixes: tuple[Tensor, ...], extra: Tensor | None) -> Tensor:
        parts = [self.words(batch.learned_ids, batch.pretrained_ids, batch.characters)]
        parts += [] if extra is None else [extra]
        parts += [mixes[0]] if self._where in ("input", "both") else []
        return torch.cat(parts, dim=-1)


def _pad(rows: list[list[int]], length: int) -> Tensor:
    return torch.tensor([row + [0] * (length - len(row)) for row in rows], dtype=torch.int64)
