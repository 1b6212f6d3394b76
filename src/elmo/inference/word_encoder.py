"""Distinct tokens of a batch -> their context-free vectors, each encoded once as long as it is in the cache."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.config import ModelConfig
from elmo.errors import InputError
from elmo.inference.word_cache import WordCache
from elmo.inference.workers import Workers
from elmo.kernels.characters import CharWeights, EncodeCharacters, pack_characters
from elmo.kernels.library import find_library
from elmo.kernels.matrix import Multiply, pack_matrix
from elmo.text.batch import CharBatch, TokenIds

Array = npt.NDArray[np.float32]
Weights = Mapping[str, Any]  # by the names of a checkpoint; whatever NumPy makes an array of

WORDS_AT_ONCE = 2048
LEAST_WORDS_FOR_TWO = 4  # fewer are encoded before another thread has begun


def take(weights: Weights, name: str) -> Array:
    """Return a weight as float32."""
    return np.asarray(weights[name], dtype=np.float32)


class WordEncoder:
    """A word's embedding and its character features, whichever the model has, projected to D values."""

    def __init__(
        self, config: ModelConfig, weights: Weights, workers: Workers, *, int8: bool, cache_bytes: int
    ) -> None:
        projection = None
        if config.token_projection:
            projection = take(weights, "tokens.projection.weight"), take(weights, "tokens.projection.bias")
        self._words = take(weights, "tokens.words.weight") if config.words else None
        self._characters: EncodeCharacters | None = None
        self._project: Multiply | None = None
        if config.characters:
            # Of characters alone, the projection is part of the same call.
            last = projection if self._words is None else None
            self._characters = pack_characters(read_characters(config, weights, last), int8=int8)
        if projection is not None and self._words is not None:
            self._project = pack_matrix(*projection, int8=int8)
        self._workers = workers
        library = find_library()
        self._has_helper = library is not None and library.has_helper
        self.cache = WordCache(config.encoder.output_dim, max_bytes=cache_bytes)

    def encode(self, batch: CharBatch) -> Array:
        """Return the vectors (U, D) of a batch's distinct tokens."""
        keys = batch.keys

        def encode_missing(positions: list[int]) -> Array:
            return self.encode_ids(batch.source.look_up([keys[position] for position in positions]))

        return self.cache.look_up(keys, encode_missing)

    def encode_ids(self, ids: TokenIds) -> Array:
        """Return the vectors (U, D) of tokens by their ids."""
        num_tokens = next(len(part) for part in ids if part is not None)
        two = self._workers.num_threads > 1 and num_tokens >= LEAST_WORDS_FOR_TWO
        if num_tokens <= WORDS_AT_ONCE:
            return self._encode(ids, not (two and self._has_helper))
        tasks: list[Callable[[], Array]] = []
        for start in range(0, num_tokens, WORDS_AT_ONCE):
            window = slice(start, start + WORDS_AT_ONCE)
            some = TokenIds(*(None if part is None else part[window] for part in ids))
            tasks.append(functools.partial(self._encode, some, single_threaded=True))
        return np.concatenate(self._workers.run(tasks))

    def _encode(self, ids: TokenIds, single_threaded: bool) -> Array:
        parts: list[Array] = []
        if self._words is not None:
            if ids.words is None:
                raise InputError("This model reads whole words, but the batch has no ids of words.")
            parts.append(self._words[ids.words])
        if self._characters is not None:
            if ids.characters is None:
                raise InputError("This model reads characters, but the batch has no ids of characters.")
            parts.append(self._characters(ids.characters, single_threaded))
        features = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
        return features if self._project is None else self._project(features)


def read_characters(config: ModelConfig, weights: Weights, projection: tuple[Array, Array] | None) -> CharWeights:
    """Return the character network of a checkpoint's weights."""
    characters = config.characters
    if characters is None:
        raise InputError("This model has no character network.")
    prefix = "tokens.characters"
    convolutions = [f"{prefix}.convolutions.{number}" for number in range(len(characters.filters))]
    highways = [f"{prefix}.highways.{number}" for number in range(characters.num_highways)]
    return CharWeights(
        embedding=take(weights, f"{prefix}.embedding.weight"),
        filters=[take(weights, f"{name}.weight") for name in convolutions],
        bias=np.concatenate([take(weights, f"{name}.bias") for name in convolutions]),
        is_tanh=characters.activation == "tanh",
        highways=[
            (
                np.concatenate([take(weights, f"{name}.{half}.weight") for half in ("transform", "gate")]),
                np.concatenate([take(weights, f"{name}.{half}.bias") for half in ("transform", "gate")]),
            )
            for name in highways
        ],
        projection=projection,
    )
