"""AllenNLP's Elmo, batch_to_ids and ElmoEmbedder on this engine.

`from elmo.compat.allennlp import Elmo, batch_to_ids, ElmoEmbedder` replaces the imports from
allennlp.modules.elmo and allennlp.commands.elmo.
"""

import logging
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch import Tensor, nn

from elmo.compat.allennlp_embedder import ElmoEmbedder
from elmo.compat.allennlp_weights import SavedMix, rename_saved_entries
from elmo.compat.character_ids import batch_of_characters, batch_of_words, batch_to_ids, encode_literally
from elmo.compat.engine import BatchReader, open_files, open_model
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.inference.runtime import WORDS_AT_ONCE
from elmo.layer import ElmoLayer
from elmo.nn.bilm import BiLM, TokenEncoder
from elmo.nn.scalar_mix import ScalarMix
from elmo.text.batch import CharBatch
from elmo.text.sentence_input import as_plain, check_words

__all__ = ["Elmo", "ElmoEmbedder", "ElmoRepresentations", "batch_to_ids"]

LAYER_NORM_EPSILON = 1e-13
logger = logging.getLogger(__name__)


class ElmoRepresentations(TypedDict):
    """What a forward pass gives: each mix (..., T, 2D), and the mask (..., T), True at words."""

    elmo_representations: list[Tensor]
    mask: Tensor


class Elmo(nn.Module):
    """Mixes of a biLM's layers for a task network, from character ids.

    While requires_grad is False the state_dict holds the mixes alone; one that AllenNLP saved loads too.
    `scalar_mix_0`, `scalar_mix_1`, ... are the mixes by AllenNLP's names. `stateful=False` starts every batch
    from zero, so that the same sentence gets the same vectors.
    """

    if TYPE_CHECKING:

        def __call__(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> ElmoRepresentations:
            """Say what forward gives; PyTorch's own signature says nothing."""

    def __init__(
        self,
        options_file: str | Path,
        weight_file: str | Path,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        *,
        stateful: bool = True,
    ) -> None:
        """`vocab_to_cache`: words encoded once and for all; `word_inputs` of forward are ids into this list."""
        super().__init__()
        count = num_output_representations
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ConfigError(f"num_output_representations is {count!r}; it must be a whole number, 1 or more.")
        mix_weights, cached_words = _read_mixing_weights(scalar_mix_parameters), _read_cached_words(vocab_to_cache)
        model = open_model(open_files(options_file, weight_file), stateful=False)
        if model.config.characters is None or model.indexer.alphabet is None:
            raise CheckpointError(
                f"{weight_file} is a model of whole words and reads no character ids; use Elmo.from_pretrained."
            )
        if mix_weights is not None and len(mix_weights) != model.num_layers:
            raise ConfigError(
                f"scalar_mix_parameters has {len(mix_weights)} values, but this model has "
                f"{model.num_layers} layers."
            )
        self._alphabet = model.indexer.alphabet
        self._num_characters = model.config.characters.num_characters
        self._keep_sentence_boundaries = keep_sentence_boundaries
        # The boundaries take part in the layer norm, so they are cut off after mixing.
        self._layer = ElmoLayer(
            model,
            num_mixes=count,
            dropout=dropout,
            tune_bilm=requires_grad,
            layer_norm=do_layer_norm,
            keep_boundaries=True,
            mix_weights=mix_weights,
            learn_mixes=mix_weights is None,
        )
        for number, mix in enumerate(self._layer.mixes):
            assert isinstance(mix, ScalarMix)
            mix.epsilon = LAYER_NORM_EPSILON
            setattr(self, f"scalar_mix_{number}", SavedMix(mix))
        if cached_words:
            self._layer.bilm = _with_cached_words(self._layer.bilm, cached_words)
        self._num_cached_words = len(cached_words)
        self._reader = BatchReader(self._layer.bilm, stateful=stateful, gradients=requires_grad)
        self.register_load_state_dict_pre_hook(_read_saved_names)  # type: ignore[no-untyped-call]

    def get_output_dim(self) -> int:
        """2·D: the length of a word's vector."""
        return self._layer.output_dim

    def reset_state(self) -> None:
        """Forget what was read so far."""
        self._reader.reset_state()

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> ElmoRepresentations:
        """Mix the layers for ids of characters (..., T, 50), or for ids of words of `vocab_to_cache` (..., T).

        The id 0 is padding. Where both are given the words count, unless one of them is not cached.
        """
        batch, shape = self._read_inputs(inputs, word_inputs)
        output = self._layer.mix(self._reader.read(batch))
        mixes, mask = list(output.mixes), output.mask
        if not self._keep_sentence_boundaries:
            mask = mask[:, 2:]
            mixes = [mix[:, 1:-1] * mask[..., None] for mix in mixes]
        return {
            "elmo_representations": [mix.reshape(*shape, *mix.shape[1:]) for mix in mixes],
            "mask": mask.reshape(*shape, mask.shape[1]),
        }

    def _read_inputs(self, inputs: Tensor | None, word_inputs: Tensor | None) -> tuple[CharBatch, torch.Size]:
        """Give the batch and the shape of what comes before its positions."""
        if word_inputs is not None and not self._num_cached_words:
            logger.warning("word_inputs was given to a model without vocab_to_cache; inputs is read instead.")
        elif word_inputs is not None:
            ids = _flatten(word_inputs, 2, "word_inputs", "(sentences, words)")
            if not ids.numel() or 0 <= int(ids.min()) <= int(ids.max()) < self._num_cached_words:
                return batch_of_words(ids), word_inputs.shape[:-1]
            if inputs is None:
                raise InputError(
                    f"word_inputs has ids from {int(ids.min())} to {int(ids.max())}, but vocab_to_cache has "
                    f"{self._num_cached_words} words and there are no character ids in inputs to use instead."
                )
        if inputs is None:
            raise InputError("inputs is None; give character ids, or word_inputs to a model with vocab_to_cache.")
        ids = _flatten(inputs, 3, "inputs", "(sentences, words, 50), as batch_to_ids makes it")
        return batch_of_characters(ids, self._alphabet, self._num_characters), inputs.shape[:-2]


def _read_saved_names(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    assert isinstance(module, Elmo)
    rename_saved_entries(module._layer, state, prefix, "_layer")


def _read_mixing_weights(weights: Any) -> list[float] | None:
    """Give the mixing weights, which may come as a numpy array."""
    weights = as_plain(weights)
    if weights is not None and not (
        isinstance(weights, list | tuple) and all(isinstance(w, Real) for w in weights)
    ):
        raise ConfigError(
            f"scalar_mix_parameters is {weights!r:.60}; it must be a list with a number for each layer."
        )
    return None if weights is None else list(weights)


def _read_cached_words(words: Any) -> list[str]:
    words = as_plain(words)
    if words is None:
        return []
    if not isinstance(words, list | tuple):
        raise InputError(
            f"vocab_to_cache is {words!r:.60}; it must be a list of words, the first of them for padding."
        )
    check_words(words, "vocab_to_cache")
    return list(words)


class _CachedTokenEncoder(TokenEncoder):
    """Vectors of listed words by number, the boundaries first; the character network for all others."""

    def __init__(self, encoder: TokenEncoder, vectors: Tensor, *, learned: bool) -> None:
        super().__init__(None, encoder.characters, encoder.projection)
        self.cached = nn.Parameter(vectors, requires_grad=learned)

    def forward(self, char_ids: Tensor | None, word_ids: Tensor | None) -> Tensor:
        """(U, C) or (U,) -> (U, D)."""
        return super().forward(char_ids, None) if word_ids is None else self.cached[word_ids]


def _with_cached_words(bilm: BiLM, words: Sequence[str]) -> BiLM:
    ids = encode_literally(["<S>", "</S>", *words])
    with torch.no_grad():
        vectors = torch.cat([bilm.tokens(part, None) for part in torch.split(ids, WORDS_AT_ONCE)])
    learned = any(parameter.requires_grad for parameter in bilm.parameters())
    tokens = _CachedTokenEncoder(bilm.tokens, vectors, learned=learned)
    return BiLM(tokens, bilm.left_to_right, bilm.right_to_left, bilm.softmax, bilm.right_to_left_softmax).eval()


def _flatten(ids: Tensor, rank: int, name: str, expected: str) -> Tensor:
    if not isinstance(ids, Tensor) or ids.dim() < rank or ids.is_floating_point():
        came = f"{ids.dtype} of shape {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise InputError(f"{name} is {came}; a tensor of whole numbers {expected} was expected.")
    flat = ids.flatten(0, ids.dim() - rank).long()
    if not len(flat):
        raise InputError(f"{name} has the shape {tuple(ids.shape)}; give at least one sentence.")
    return flat
