"""Distinct words of a batch -> their context-free vectors, each word encoded once as long as it is remembered."""

import functools
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from elmo.inference.packed_char_cnn import PackedCharCnn
from elmo.inference.packed_linear import pack_linear
from elmo.inference.precision import COMPILED_PRECISIONS, Precision
from elmo.inference.word_cache import WordCache, make_keys
from elmo.inference.workers import MAX_WORKERS, Workers
from elmo.kernels.library import find_library
from elmo.nn.token_encoder import TokenEncoder
from elmo.text.batch import CharBatch

WORDS_AT_ONCE = 1024
LEAST_WORDS_FOR_TWO, FEW_WORDS = 16, 32


class WordEncoder:
    """What TokenEncoder gives, up to the rounding of the precision; changed weights need a new encoder."""

    def __init__(self, tokens: TokenEncoder, precision: Precision, workers: Workers, *, cache_bytes: int) -> None:
        device = next(tokens.parameters()).device
        self._tokens = tokens
        self._workers = workers
        # A network that encodes words in another way of its own is run as it is.
        on_cpu = device.type == "cpu" and type(tokens) is TokenEncoder
        self._characters: PackedCharCnn | None = None
        self._projection: Callable[[Tensor], Tensor] | None = None
        if on_cpu and tokens.characters is not None:
            self._characters = PackedCharCnn(tokens.characters, precision)
        if on_cpu and tokens.projection is not None:
            self._projection = pack_linear(tokens.projection.weight, tokens.projection.bias, precision)
        self._is_compiled = on_cpu and precision in COMPILED_PRECISIONS and find_library() is not None
        self.cache = WordCache(_output_dim(tokens), max_bytes=cache_bytes, device=device)

    def encode(self, batch: CharBatch) -> Tensor:
        """Return the vectors (U, D) of a batch's distinct words."""
        return self.cache.look_up(
            make_keys(batch.char_ids, batch.word_ids), lambda positions: self._encode_new(batch, positions)
        )

    def _encode_new(self, batch: CharBatch, positions: list[int]) -> Tensor:
        wanted = torch.tensor(positions, device=batch.word_index.device)
        tasks = []
        for window in torch.split(wanted, WORDS_AT_ONCE):
            # The same parts for any number of threads: how torch rounds a product may depend on its rows.
            for part in window.chunk(MAX_WORKERS if len(window) >= LEAST_WORDS_FOR_TWO else 1):
                ids = [
                    None if all_ids is None else all_ids.index_select(0, part)
                    for all_ids in (batch.char_ids, batch.word_ids)
                ]
                tasks.append(functools.partial(self._encode_part, *ids))
        # Few words are encoded before another thread has woken up.
        return torch.cat(self._workers.run(tasks, first_here=self._is_compiled and len(positions) < FEW_WORDS))

    def _encode_part(self, char_ids: Tensor | None, word_ids: Tensor | None) -> Tensor:
        if self._characters is None and self._projection is None:
            return cast(Tensor, self._tokens(char_ids, word_ids))
        parts = []
        if self._tokens.words is not None:
            parts.append(self._tokens.words(word_ids))
        if self._characters is not None and char_ids is not None:
            parts.append(self._characters(char_ids))
        features = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        return features if self._projection is None else self._projection(features)


def _output_dim(tokens: TokenEncoder) -> int:
    if tokens.projection is not None:
        return tokens.projection.out_features
    dims = [] if tokens.words is None else [tokens.words.embedding_dim]
    if tokens.characters is not None:
        dims += [module.out_channels for module in tokens.characters.convolutions if isinstance(module, nn.Conv1d)]
    return sum(dims)
