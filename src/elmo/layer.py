"""ElmoLayer: the module a task network embeds. Sentences or a batch in, mixes of the biLM's layers out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from elmo.errors import ConfigError, InputError
from elmo.inference.runtime import run_bilm
from elmo.model import Elmo
from elmo.nn.bilm import LayerStates
from elmo.nn.scalar_mix import ScalarMix
from elmo.text.batch import CharBatch
from elmo.text.sentence_input import Sentence, read_sentences
from elmo.text.tokenize import tokenize


@dataclass(frozen=True)
class ElmoOutput:
    """What a task gets: each mix (B, T, 2D), zero where padded, and the mask (B, T)."""

    mixes: tuple[Tensor, ...]
    mask: Tensor


class ElmoLayer(nn.Module):
    """γ · Σ s_j · h_j of one biLM pass, `num_mixes` times with weights of their own.

    While the biLM is frozen, the state_dict holds the mixes alone and no gradient reaches it. With
    `tune_bilm` the model that was given is trained along.
    """

    def __init__(
        self,
        model: Elmo,
        *,
        num_mixes: int = 1,
        dropout: float = 0.5,
        tune_bilm: bool = False,
        layer_norm: bool = False,
        keep_boundaries: bool = False,
        mix_weights: Sequence[float] | None = None,
        learn_mixes: bool = True,
    ) -> None:
        """`mix_weights`: the w_j to start from, before the softmax; `learn_mixes=False` keeps them."""
        super().__init__()
        if not isinstance(num_mixes, int) or num_mixes < 1:
            raise ConfigError(f"num_mixes is {num_mixes!r}; it must be a whole number, 1 or more.")
        if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
            raise ConfigError(f"dropout is {dropout!r}; it must be a number, at least 0 and below 1.")
        if mix_weights is not None and len(mix_weights) != model.num_layers:
            raise ConfigError(
                f"mix_weights has {len(mix_weights)} values, but this model has {model.num_layers} layers."
            )
        self.indexer = model.indexer
        # A frozen layer runs without gradients; another layer on this model may be tuning it.
        self.bilm = model.bilm.requires_grad_() if tune_bilm else model.bilm
        self.tune_bilm = tune_bilm
        self.keep_boundaries = keep_boundaries
        self.output_dim = model.dim
        self.dropout = nn.Dropout(dropout)
        self.mixes = nn.ModuleList(
            ScalarMix(model.num_layers, layer_norm=layer_norm, weights=mix_weights, learned=learn_mixes)
            for _ in range(num_mixes)
        )
        self.register_state_dict_post_hook(_drop_frozen_bilm)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_add_frozen_bilm)  # type: ignore[no-untyped-call]

    if TYPE_CHECKING:

        def __call__(self, sentences: Iterable[Sentence] | CharBatch) -> ElmoOutput:
            """Mix the layers; nn.Module's own signature would hide the result's type."""

    def mix_penalty(self, strength: float) -> Tensor:
        """λ‖w‖² over the raw mixing weights of all mixes, to be added to the task's loss."""
        total = sum(mix.squared_norm() for mix in self.mixes if isinstance(mix, ScalarMix))
        return strength * torch.as_tensor(total)

    def forward(self, sentences: Iterable[Sentence] | CharBatch) -> ElmoOutput:
        """Mix the layers of sentences, or of a batch made by this layer's `indexer`."""
        if isinstance(sentences, str):
            raise InputError("A layer takes a list of sentences or a batch; put the one sentence in a list.")
        if not isinstance(sentences, CharBatch):
            sentences = self.indexer.batch(read_sentences(sentences, tokenize))
        with torch.set_grad_enabled(self.tune_bilm and torch.is_grad_enabled()):
            states, _ = run_bilm(self.bilm, sentences)
        return self.mix(states)

    def mix(self, states: LayerStates) -> ElmoOutput:
        """Mix layers computed elsewhere (a cache, another process), boundaries included."""
        if not self.keep_boundaries:
            states = states.without_boundaries()
        real = states.mask[..., None]
        return ElmoOutput(
            tuple(self.dropout(mix(states.layers, states.mask) * real) for mix in self.mixes), states.mask
        )


def _drop_frozen_bilm(layer: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    assert isinstance(layer, ElmoLayer)
    if not layer.tune_bilm:
        for name in [name for name in state if name.startswith(f"{prefix}bilm.")]:
            del state[name]


def _add_frozen_bilm(layer: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    assert isinstance(layer, ElmoLayer)
    if not layer.tune_bilm and not any(name.startswith(f"{prefix}bilm.") for name in state):
        # The weights stay what they are; without an entry a strict load would call them missing.
        state.update({f"{prefix}bilm.{name}": tensor for name, tensor in layer.bilm.state_dict().items()})
