"""What AllenNLP's Elmo saved -> the names of ours: the mixes and the biLM of a state dict, as it is loaded."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from elmo.errors import CheckpointError
from elmo.layer import ElmoLayer
from elmo.nn.bilm import BiLM
from elmo.nn.char_cnn import CharCnn
from elmo.nn.projected_lstm import LstmStack, ProjectedLstm
from elmo.nn.scalar_mix import ScalarMix

CACHED_WORDS = "tokens.cached"
# One entry of theirs, and each of ours that is made of it.
Row = tuple[str, dict[str, Callable[[Tensor], Tensor]]]


class SavedMix:
    """One mix by AllenNLP's names; the tensors are views, so writing into them changes the mix."""

    def __init__(self, mix: ScalarMix) -> None:
        self._mix = mix

    @property
    def scalar_parameters(self) -> tuple[Tensor, ...]:
        """The weights before the softmax, one tensor (1,) for each layer."""
        return torch.split(self._mix.weights, 1)

    @property
    def gamma(self) -> Tensor:
        """The scale, (1,)."""
        return self._mix.gamma.reshape(1)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Give what an optimizer takes: the weights as one tensor, and the scale."""
        return self._mix.parameters()


def rename_saved_entries(layer: ElmoLayer, state: dict[str, Any], prefix: str, layer_name: str) -> None:
    """Replace AllenNLP's entries under `prefix` by those of `layer`, which is called `layer_name` there.

    Entries that are not known stay, so that a strict load names them.
    """
    for number, mix in enumerate(layer.mixes):
        assert isinstance(mix, ScalarMix)
        _rename_mix(
            f"{prefix}scalar_mix_{number}", f"{prefix}{layer_name}.mixes.{number}", len(mix.weights), state
        )
    for theirs, made in _bilm_rows(layer.bilm):
        tensor = state.pop(f"{prefix}_elmo_lstm.{theirs}", None)
        if tensor is not None:
            state.update({f"{prefix}{layer_name}.bilm.{name}": make(tensor) for name, make in made.items()})


def _rename_mix(theirs: str, ours: str, num_layers: int, state: dict[str, Any]) -> None:
    names = [name for name in state if name.startswith(f"{theirs}.scalar_parameters.")]
    if names:
        wanted = [f"{theirs}.scalar_parameters.{layer}" for layer in range(num_layers)]
        if set(names) != set(wanted):
            raise CheckpointError(
                f"The state dict has {len(names)} weights {theirs}.scalar_parameters, but this model has "
                f"{num_layers} layers; load what was saved with the same model."
            )
        state[f"{ours}.weights"] = torch.cat([state.pop(name).reshape(1) for name in wanted])
    if f"{theirs}.gamma" in state:
        state[f"{ours}.gamma"] = state.pop(f"{theirs}.gamma").reshape(())


def _bilm_rows(bilm: BiLM) -> Iterator[Row]:
    characters = bilm.tokens.characters
    assert characters is not None
    yield from _token_rows(characters)
    if bilm.tokens.projection is not None:
        for kind in ("weight", "bias"):
            yield f"_token_embedder._projection.{kind}", {f"tokens.projection.{kind}": _same}
    if isinstance(cached := getattr(bilm.tokens, "cached", None), Tensor):
        # AllenNLP does not save the vectors of the boundaries, which are our first two.
        yield "_word_embedding.weight", {CACHED_WORDS: lambda words: torch.cat([cached[:2].to(words), words])}
    for theirs, ours, stack in (
        ("forward", "left_to_right", bilm.left_to_right),
        ("backward", "right_to_left", bilm.right_to_left),
    ):
        assert isinstance(stack, LstmStack)
        for number, lstm in enumerate(stack.layers):
            assert isinstance(lstm, ProjectedLstm)
            yield from _lstm_rows(f"_elmo_lstm.{theirs}_layer_{number}", f"{ours}.layers.{number}", lstm)


def _token_rows(characters: CharCnn) -> Iterator[Row]:
    num_characters = characters.embedding.num_embeddings
    yield (
        "_token_embedder._char_embedding_weights",
        # Files with 262 characters have one there that is never used.
        {"tokens.characters.embedding.weight": lambda w: w[:-1] if len(w) == num_characters + 1 else w},
    )
    for number in range(len(characters.convolutions)):
        for kind in ("weight", "bias"):
            ours = f"tokens.characters.convolutions.{number}.{kind}"
            yield f"_token_embedder.char_conv_{number}.{kind}", {ours: _same}
    for number in range(len(characters.highways)):
        for kind in ("weight", "bias"):
            ours = f"tokens.characters.highways.{number}"
            yield (
                f"_token_embedder._highways._layers.{number}.{kind}",
                {f"{ours}.transform.{kind}": _first_half, f"{ours}.gate.{kind}": _second_half_negated},
            )


def _lstm_rows(theirs: str, ours: str, lstm: ProjectedLstm) -> Iterator[Row]:
    def without_forget_bias(bias: Tensor) -> Tensor:
        bias = bias.clone()
        bias[lstm.cell_dim : 2 * lstm.cell_dim] -= lstm.forget_bias
        return bias

    yield f"{theirs}.input_linearity.weight", {f"{ours}.input_weight": _same}
    yield f"{theirs}.state_linearity.weight", {f"{ours}.state_weight": _same}
    yield f"{theirs}.state_linearity.bias", {f"{ours}.bias": without_forget_bias}
    if lstm.projection_weight is not None:
        yield f"{theirs}.state_projection.weight", {f"{ours}.projection_weight": _same}


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _first_half(tensor: Tensor) -> Tensor:
    return tensor[: len(tensor) // 2]


def _second_half_negated(tensor: Tensor) -> Tensor:
    # Their gate lets the input through, ours the transformed input.
    return -tensor[len(tensor) // 2 :]
