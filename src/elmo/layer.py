"""ElmoLayer, the module that task networks contain: sentences or a batch in, mixes of the biLM's layers out.

LayerMixes is its last step, for layers that were computed elsewhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.device import ModuleRuntime, run_frozen
from elmo.errors import ConfigError, InputError
from elmo.model import Elmo
from elmo.nn.build import load_bilm, weights_of
from elmo.nn.scalar_mix import ScalarMix
from elmo.text.batch import CharBatch
from elmo.text.sentence_input import Sentence, read_sentences

MixedLayers: TypeAlias = Literal["learned", "top", "concat"]


@dataclass(frozen=True)
class ElmoOutput:
    """The input of a task: each mix (B, T, 2D), zero at padding, and the mask (B, T)."""

    mixes: tuple[Tensor, ...]
    mask: Tensor


class LayerMixes(nn.ModuleList):
    """`num_mixes` independent mixes γ · Σ s_j · h_j of layers, with dropout.

    `layers`: "learned" mixes all layers; "top" uses the last layer and "concat" concatenates all layers, and only γ
    is learned.
    """

    def __init__(
        self,
        num_layers: int,
        dim: int,
        *,
        num_mixes: int = 1,
        dropout: float = 0.5,
        layers: MixedLayers = "learned",
        layer_norm: bool = False,
        mix_weights: Sequence[float] | None = None,
        learn_mixes: bool = True,
    ) -> None:
        """`dim` is the length of one layer's vectors."""
        if not isinstance(num_mixes, int) or num_mixes < 1:
            raise ConfigError(f"num_mixes is {num_mixes!r}; it must be a whole number, 1 or more.")
        if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
            raise ConfigError(f"dropout is {dropout!r}; it must be a number, at least 0 and below 1.")
        if layers not in ("learned", "top", "concat"):
            raise ConfigError(f"layers is {layers!r}; choose 'learned', 'top' or 'concat'.")
        num_mixed = num_layers if layers == "learned" else 1
        super().__init__(
            ScalarMix(num_mixed, layer_norm=layer_norm, weights=mix_weights, learned=learn_mixes)
            for _ in range(num_mixes)
        )
        self.layers = layers
        self.dropout = dropout
        self.output_dim = dim * num_layers if layers == "concat" else dim

    if TYPE_CHECKING:

        def __call__(self, layers: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
            """Mix the layers; nn.Module's own signature would hide the result's type."""

    def forward(self, layers: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Mix the layers: (L+1, B, T, 2D) and mask (B, T) -> each mix (B, T, output_dim), zero at padding."""
        if self.layers == "top":
            layers = layers[-1:]
        elif self.layers == "concat":
            layers = layers.permute(1, 2, 0, 3).flatten(start_dim=2)[None]
        real = mask[..., None]
        return tuple(F.dropout(mix(layers, mask) * real, self.dropout, self.training) for mix in self)

    @property
    def device(self) -> torch.device:
        """The device of the mixing weights."""
        return next(self.parameters()).device

    def penalty(self, strength: float) -> Tensor:
        """Return λ‖w‖² over the raw mixing weights of all mixes."""
        total = sum(cast(ScalarMix, mix).squared_norm() for mix in self)
        return strength * torch.as_tensor(total)


class ElmoLayer(nn.Module):
    """`num_mixes` independent mixes γ · Σ s_j · h_j of the layers of one biLM pass; see LayerMixes.

    By default the biLM is frozen: it runs on the model's runtime, as fast as Elmo.embed, with the precision and state
    of the model, and the state_dict contains only the mixes. With `tune_bilm`, the layer trains a copy of the biLM,
    `bilm`, which starts from the model's weights; `to_elmo` returns a model with its current weights.
    """

    def __init__(
        self,
        model: Elmo,
        *,
        num_mixes: int = 1,
        dropout: float = 0.5,
        tune_bilm: bool = False,
        layer_norm: bool = False,
        layers: MixedLayers = "learned",
    ) -> None:
        super().__init__()
        self.mixes = LayerMixes(
            model.num_layers, model.dim, num_mixes=num_mixes, dropout=dropout, layers=layers, layer_norm=layer_norm
        )
        self.output_dim = self.mixes.output_dim
        self.indexer = model._indexer
        self._model = model
        self.tune_bilm = tune_bilm
        self.bilm = load_bilm(model.config, model.checkpoint().weights).requires_grad_() if tune_bilm else None
        self._tuned = None if self.bilm is None else ModuleRuntime(self.bilm, model.config, gradients=True)

    if TYPE_CHECKING:

        def __call__(self, sentences: Iterable[Sentence] | CharBatch) -> ElmoOutput:
            """Mix the layers; nn.Module's own signature would hide the result's type."""

    def mix_penalty(self, strength: float) -> Tensor:
        """Return λ‖w‖² over the raw mixing weights of all mixes, to be added to the task's loss."""
        return self.mixes.penalty(strength)

    def forward(self, sentences: Iterable[Sentence] | CharBatch) -> ElmoOutput:
        """Mix the layers of sentences, or of a batch made by this layer's `indexer`."""
        if isinstance(sentences, str):
            raise InputError("A layer takes a list of sentences or a batch; put a single sentence in a list.")
        if not isinstance(sentences, CharBatch):
            words = read_sentences(sentences, self.indexer.tokenization)
            if not words:
                raise InputError("The list of sentences is empty; a layer needs at least one, which may be [].")
            sentences = self.indexer.batch(words)
        tuned = self._tuned
        states = run_frozen(self._model._runtime, sentences) if tuned is None else tuned.run(sentences)
        words_only = states.without_boundaries()
        mask = words_only.mask.to(self.mixes.device)
        return ElmoOutput(self.mixes(words_only.layers.to(self.mixes.device), mask), mask)

    def to_elmo(self) -> Elmo:
        """Return the model with the layer's current weights, ready for embed and save_pretrained."""
        if self.bilm is None:
            return self._model
        return self._model._with_weights(weights_of(self.bilm))
