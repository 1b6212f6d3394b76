"""Word vectors -> all layers of contextual vectors, by two independent language models, one per direction."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from elmo.nn.char_cnn import CharCnn
from elmo.nn.encoder import EncoderState
from elmo.nn.projected_lstm import LstmStack
from elmo.nn.softmax import WordSoftmax
from elmo.nn.transformer import TransformerStack

STEPS_AT_ONCE = 256

# One direction.
Encoder: TypeAlias = LstmStack | TransformerStack


@dataclass(frozen=True)
class LayerStates:
    """The layers of a batch at every position, zero where padded."""

    layers: Tensor  # (L+1, B, T, 2D): layer 0 is the word vector twice
    mask: Tensor  # (B, T)

    def without_boundaries(self) -> "LayerStates":
        """Drop the begin and the end of each sentence: T becomes T - 2."""
        mask = self.mask[:, 2:]
        layers = self.layers[:, :, 1:-1] * mask[..., None]
        return LayerStates(layers, mask)


class BiLMState(EncoderState):
    """The states of both directions, row by row."""

    def __init__(self, left_to_right: EncoderState, right_to_left: EncoderState) -> None:
        super().__init__(*left_to_right.tensors, *right_to_left.tensors)
        self.left_to_right, self.right_to_left = left_to_right, right_to_left

    def join(self, other: "BiLMState") -> "BiLMState":
        """Return these rows followed by the rows of `other`."""
        return BiLMState(self.left_to_right.join(other.left_to_right), self.right_to_left.join(other.right_to_left))

    def map(self, change: Callable[[Tensor], Tensor]) -> "BiLMState":
        """Apply a function to each tensor."""
        return BiLMState(self.left_to_right.map(change), self.right_to_left.map(change))


class TokenEncoder(nn.Module):
    """A word's embedding, its character features, or both, projected to D values."""

    def __init__(self, words: nn.Embedding | None, characters: CharCnn | None, projection: nn.Linear | None) -> None:
        super().__init__()
        self.words = words
        self.characters = characters
        self.projection = projection

    def forward(self, char_ids: Tensor | None, word_ids: Tensor | None) -> Tensor:
        """(U, C) and (U,) -> (U, D)."""
        parts = []
        if self.words is not None:
            parts.append(self.words(word_ids))
        if self.characters is not None:
            parts.append(self.characters(char_ids))
        features = torch.cat(parts, dim=1)
        return features if self.projection is None else self.projection(features)


class BiLM(nn.Module):
    """Word vectors, language models in both directions, and the softmax that predicts words."""

    def __init__(
        self,
        tokens: TokenEncoder,
        left_to_right: Encoder,
        right_to_left: Encoder,
        softmax: WordSoftmax | None,
        right_to_left_softmax: WordSoftmax | None = None,
    ) -> None:
        """`softmax` is for both directions, unless right to left has its own."""
        super().__init__()
        self.tokens = tokens
        self.left_to_right = left_to_right
        self.right_to_left = right_to_left
        self.softmax = softmax
        self.right_to_left_softmax = right_to_left_softmax

    @property
    def num_layers(self) -> int:
        """L + 1: the word vectors, and the layers of each direction."""
        return self.left_to_right.num_layers + 1

    @property
    def softmaxes(self) -> tuple[WordSoftmax, WordSoftmax] | None:
        """The softmax of left to right and that of right to left, which may be the same."""
        return None if self.softmax is None else (self.softmax, self.right_to_left_softmax or self.softmax)

    def zero_state(self, num_rows: int) -> BiLMState:
        """Return the state at the start of a text."""
        return BiLMState(self.left_to_right.zero_state(num_rows), self.right_to_left.zero_state(num_rows))

    def forward(
        self, words: Tensor, lengths: Tensor, state: BiLMState | None = None, num_read: Tensor | None = None
    ) -> tuple[LayerStates, BiLMState]:
        """Run over word vectors (B, T, D) of sentences of the given lengths (B,), from `state` or from zero.

        With `num_read` (B,), each direction runs only over that many words from its start; the other layers are zero.
        """
        mask = torch.arange(words.shape[1], device=words.device) < lengths.to(words.device)[:, None]
        words = words * mask[..., None]
        state = self.zero_state(words.shape[0]) if state is None else state
        num_read = lengths if num_read is None else num_read
        reverse = _reversing_index(lengths, words.shape[1]).to(words.device)
        left_to_right, left_state = run_windows(self.left_to_right, words, num_read, state.left_to_right)
        reversed_layers, right_state = run_windows(
            self.right_to_left, _reverse(words, reverse), num_read, state.right_to_left
        )
        right_to_left = [_reverse(layer, reverse) for layer in reversed_layers]
        # (B, T, (L+1)·2D), viewed as (L+1, B, T, 2D) without a copy.
        sides = [words, words, *itertools.chain.from_iterable(zip(left_to_right, right_to_left, strict=True))]
        joined = torch.cat(sides, dim=2).view(*words.shape[:2], self.num_layers, 2 * words.shape[2])
        return LayerStates(joined.permute(2, 0, 1, 3), mask), BiLMState(left_state, right_state)


def run_windows(
    encoder: Encoder, words: Tensor, num_read: Tensor, state: EncoderState
) -> tuple[list[Tensor], EncoderState]:
    """Run an encoder over the first `num_read` (B,) of word vectors (B, T, D).

    Windows of time steps bound the memory of a long sentence.
    """
    windows = []
    for start in range(0, words.shape[1], STEPS_AT_ONCE):
        window = words[:, start : start + STEPS_AT_ONCE]
        outputs, state = encoder(window, state, lengths=(num_read - start).clamp(0, window.shape[1]))
        windows.append(outputs)
    return [torch.cat(parts, dim=1) for parts in zip(*windows, strict=True)], state


def _reversing_index(lengths: Tensor, num_steps: int) -> Tensor:
    """Return the index (B, T) that reverses each row within its own length."""
    steps = torch.arange(num_steps)[None]
    return torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)


def _reverse(inputs: Tensor, index: Tensor) -> Tensor:
    return inputs.gather(1, index[..., None].expand_as(inputs))
