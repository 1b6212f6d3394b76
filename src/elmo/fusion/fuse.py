"""A model and a prepared corpus -> the same model with a context layer. Nothing is trained by gradients.

Static vectors come from the corpus or a file; the vectors of words outside their table are estimated from layer 0.
"""

import logging
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.components import ContextLayer
from elmo.checkpoint.folder import derived_card
from elmo.checkpoint.weights import Float32
from elmo.config import NEW_CONTEXT, ContextConfig
from elmo.corpus.prepared import BOS_ID, PreparedCorpus
from elmo.errors import ConfigError, InputError
from elmo.fusion.static_vectors import (
    DIM,
    NUM_WORDS,
    StaticVectors,
    make_static_vectors,
    read_static_vectors,
)
from elmo.inference.context import StaticTable
from elmo.kernels.int8 import quantize_rows
from elmo.model import Elmo

logger = logging.getLogger(__name__)

FREQUENCY = 1e-4  # relative frequency of a word that gets half of the weight
_RIDGE = 1e-3  # of the mean squared length of layer 0
_SENTENCES = 20_000  # of the corpus, used to find the directions common to all sentences


def fuse(
    model: Elmo,
    corpus: str | Path | PreparedCorpus,
    *,
    vectors: str | Path | StaticVectors | None = None,
    num_words: int = NUM_WORDS,
    dim: int | None = None,
    lowercase: bool = True,
    window: int = ContextConfig.window,
    focus: float = NEW_CONTEXT["focus"],
    decay: float = NEW_CONTEXT["decay"],
    share: float = NEW_CONTEXT["share"],
    substitutes: float = NEW_CONTEXT["substitutes"],
    word: float = NEW_CONTEXT["word"],
    frequency: float = FREQUENCY,
    seed: int = 0,
    show_progress_bar: bool = False,
) -> Elmo:
    """Return the model with a context layer, which enables layers="meaning" and better sentence vectors.

    The layer is built from a prepared corpus (see elmo prepare) in the model's language. By default, static vectors
    with `dim` (256) dimensions are computed from the corpus; `vectors` are used instead: a GloVe or word2vec text
    file, or StaticVectors. The language model does not change. `window`, `focus`, `decay` and the shares are settings
    of the layer, see ContextConfig; a word with the relative `frequency` has half the weight of a rare word.
    Character-level models need a wider window, no decay and a higher frequency. An existing context layer is
    replaced.
    """
    if not 0 < frequency <= 1:
        raise ConfigError(f"frequency is {frequency}; it must be above 0 and at most 1.")
    opened = corpus if isinstance(corpus, PreparedCorpus) else PreparedCorpus.open(corpus)
    if vectors is not None and dim is not None:
        raise InputError(f"dim is {dim}, but `vectors` are given, so none are computed; leave dim out.")
    if vectors is None:
        static = make_static_vectors(
            opened, num_words=num_words, dim=DIM if dim is None else dim, lowercase=lowercase, seed=seed,
            show_progress_bar=show_progress_bar,
        )  # fmt: skip
    elif isinstance(vectors, StaticVectors):
        static = vectors
    else:
        static = read_static_vectors(vectors, opened, num_words=num_words, lowercase=lowercase)
    settings = {"focus": focus, "decay": decay, "share": share, "substitutes": substitutes, "word": word}
    layer = _make_layer(model, static, frequency, window=window, **settings)
    return _with_context(model, find_common_directions(model, layer, opened, seed))


def _make_layer(model: Elmo, static: StaticVectors, frequency: float, **settings: float) -> ContextLayer:
    """Return the layer without the common directions of sentences.

    The weight of the rarest word in a context is 1, and that of a word with the relative `frequency` is half of it.
    """
    num_words, dim = static.vectors.shape
    quantized, scales = quantize_rows(static.vectors)
    weights = frequency / (frequency + static.frequencies)
    weights /= weights.max()  # in a small corpus all words are frequent
    encoded = model.word_vectors(static.forms)
    unknown_map, bias = fit_map(encoded, static.vectors)
    # Dimensions with a large variance would dominate the sentence vectors, so all are scaled to the same variance.
    spread = static.vectors.std(axis=0)
    scale = 1 / np.maximum(spread, 1e-3 * max(float(spread.mean()), np.finfo(np.float32).tiny))
    arrays: dict[str, npt.NDArray[Any]] = {
        "vectors": quantized,
        "scales": scales,
        "weights": weights.astype(np.float32),
        "unknown_map": unknown_map,
        "unknown_bias": bias,
        "sentence_scale": (scale / scale.mean()).astype(np.float32),
        "sentence_components": np.zeros((0, dim), np.float32),
        "word_mean": encoded.mean(axis=0),
        "word_components": np.zeros((0, encoded.shape[1]), np.float32),
    }
    values = {"num_words": num_words, "dim": dim, "lowercase": static.lowercase, "num_components": 0, **settings}
    return ContextLayer(ContextConfig.from_dict(values), static.words, arrays)


def find_common_directions(model: Elmo, layer: ContextLayer, corpus: PreparedCorpus, seed: int) -> ContextLayer:
    """Add the first singular directions of the vectors of sampled sentences of the corpus."""
    # If there are few dimensions, fewer are removed.
    num_components = min(ContextConfig.num_components, layer.config.dim // 16, layer.word_dim // 16)
    table = StaticTable(layer, model.word_vectors, model.tokenization)
    sentences = [sentence for sentence in _draw_sentences(corpus, seed) if sentence]
    encoded = (table.encode(sentences) if sentences else np.zeros((0, table.sentence_dim))).astype(np.float64)
    num_components = min(num_components, len(sentences))
    static, words = np.split(encoded, [layer.config.dim], axis=1)
    components = {
        "sentence_components": _first_directions(static, num_components),
        "word_components": _first_directions(words, num_components),
    }
    config = replace(layer.config, num_components=num_components)
    return replace(layer, config=config, arrays={**layer.arrays, **components})


def _first_directions(vectors: npt.NDArray[np.float64], num_directions: int) -> Float32:
    """Return the first right singular vectors (k, d) of vectors (N, d)."""
    directions = np.linalg.eigh(vectors.T @ vectors).eigenvectors[:, ::-1]
    return np.ascontiguousarray(directions[:, :num_directions].T, np.float32)


def _draw_sentences(corpus: PreparedCorpus, seed: int) -> Iterator[list[str]]:
    """Yield about _SENTENCES sentences from randomly drawn blocks."""
    blocks = corpus.blocks().tolist()
    random.Random(seed).shuffle(blocks)
    num_drawn = 0
    for shard, start, stop in blocks:
        ids = corpus.read_block(shard, start, stop)
        for sentence in np.split(ids, np.flatnonzero(ids == BOS_ID)):
            yield corpus.words(sentence[sentence != BOS_ID])
            num_drawn += 1
        if num_drawn >= _SENTENCES:
            return


def fit_map(encoded: Float32, vectors: Float32) -> tuple[Float32, Float32]:
    """Fit a linear map from layer 0 (V, D) to vectors (V, d) by ridge regression; return the map and the bias."""
    inputs, targets = encoded.astype(np.float64), vectors.astype(np.float64)
    center, target_center = inputs.mean(axis=0), targets.mean(axis=0)
    centered = inputs - center
    products = centered.T @ centered
    ridge = _RIDGE * max(float(products.diagonal().mean()), float(np.finfo(np.float32).tiny))
    fitted = np.linalg.solve(products + ridge * np.eye(len(products)), centered.T @ (targets - target_center))
    return fitted.astype(np.float32), (target_center - center @ fitted).astype(np.float32)


def _is_same_table(old: ContextLayer, new: ContextLayer) -> bool:
    """Return whether two layers have the same static vectors in int8, up to the rounding of a text file."""
    before, after = (np.asarray(layer.arrays["vectors"], dtype=np.float32) for layer in (old, new))
    return old.words == new.words and before.shape == after.shape and bool(abs(before - after).mean() < 1)


def _with_context(model: Elmo, layer: ContextLayer) -> Elmo:
    before = model.checkpoint()
    card = derived_card(before.card, "elmo fuse, which added a context layer")
    sentence = before.sentence
    if sentence is not None and before.context is not None and not _is_same_table(before.context, layer):
        logger.warning("The sentence head was trained with other static vectors, so the model loses it.")
        sentence = None
    checkpoint: Checkpoint = replace(before, context=layer, card=card, sentence=sentence)
    return Elmo(
        checkpoint,
        precision=model.precision,
        device=model.device,
        state=model.state,
        num_threads=model.num_threads,
    )
