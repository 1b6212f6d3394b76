"""Meaning vectors of words in their sentences, and nearest candidates, in the compiled library or in NumPy.

A meaning vector is the top layer, scaled to length 1, concatenated with a weighted sum of three vectors: the context
(the words around the word; rare, near and related ones have the highest weights), the substitutes (candidates that
both directions predict and that are related to the word and its context, minus their mean without a sentence), and
the static vector of the word.
"""

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo.config import ContextConfig
from elmo.kernels.int8 import quantize_rows
from elmo.kernels.library import KernelError, Library, address_of, struct_fields

Array = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.int8]
Ids = npt.NDArray[np.int64]
_TINY = np.finfo(np.float32).tiny
_pointer, _int, _float = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


# The weight of the cosine between a candidate and the context. Candidates whose score is lower than the best by CUTOFF
# are left out; substitutes of length n are scaled to length n / (n + SUBSTITUTE_SHRINKAGE).
TOPIC, CUTOFF, SUBSTITUTE_SHRINKAGE = 3.0, 5.0, 0.2


@dataclass(frozen=True, eq=False)
class Candidates:
    """The words that may replace others: static vectors with their scales, and softmax rows, in int8."""

    vectors: Bytes  # (C, d)
    scales: Array  # (C,)
    softmax: Bytes  # (C, D) if both directions have the same rows, else (C, 2D)


@dataclass(frozen=True, eq=False)
class Lists:
    """The K candidates of n words, the factors and offsets of their scores, and their mean vector without a sentence.

    The score of a candidate is factor · (softmax row · LSTM states) + offset.
    """

    words: Candidates
    candidates: npt.NDArray[np.uint16]  # (n, K)
    factors: Array  # (n, K)
    offsets: Array  # (n, K)
    priors: Array  # (n, d)


@dataclass(frozen=True, eq=False)
class Tokens:
    """The distinct tokens of a batch: static vectors in int8 with their scales, and weights in a context."""

    vectors: Bytes  # (U, d)
    scales: Array  # (U,)
    weights: Array  # (U,)


@dataclass(frozen=True, eq=False)
class MeaningInputs:
    """A batch, and the words or phrases in it whose meanings are computed.

    A row of `spans` holds the start and end positions of the sentence, the start and end positions of the word or
    phrase (ends are exclusive), its distinct token, and the number of its list of candidates (-1 for none).
    """

    top: Array  # (N, 2D): the top layer of all positions, boundaries included
    positions: Ids  # (N,): the distinct token at each position
    tokens: Tokens
    spans: Ids  # (n, 6)
    lists: Lists | None  # None: no word has candidates


class _ModelStruct(ctypes.Structure):
    """elmo_meaning of csrc/kernels.h."""

    _fields_ = (
        *struct_fields(_int, "dim top_dim state_dim num_candidates window"),
        *struct_fields(_pointer, "vectors scales softmax"),
        *struct_fields(_float, "focus decay shrinkage topic cutoff substitute_shrinkage"),
        *struct_fields(_float, "top_share context_share substitute_share word_share"),
    )


class _BatchStruct(ctypes.Structure):
    """elmo_meaning_batch of csrc/kernels.h."""

    _fields_ = (
        *struct_fields(_pointer, "top tokens token_vectors token_scales token_weights"),
        ("num_spans", _int),
        ("spans", _pointer),
        ("longest", _int),
        *struct_fields(_pointer, "candidates factors offsets priors"),
    )


def find_meanings(
    library: Library | None,
    config: ContextConfig,
    shares: Array,
    inputs: MeaningInputs,
    *,
    single_threaded: bool = False,
) -> Array:
    """Return the meanings (n, 2D + d) of words or phrases.

    `shares` (4,) are the factors of the top layer, context, substitutes and word.
    """
    _check(inputs)
    top, tokens, spans, lists = inputs.top, inputs.tokens, inputs.spans, inputs.lists
    (num_positions, top_dim), (num_tokens, dim), num_spans = top.shape, tokens.vectors.shape, len(spans)
    meanings = np.empty((num_spans, top_dim + dim), dtype=np.float32)
    if library is None:
        _find_by_numpy(config, shares, inputs, meanings)
        return meanings
    if not num_spans:
        return meanings
    numbers = spans[:, 5]
    model = _ModelStruct(
        dim=dim, top_dim=top_dim, window=config.window, focus=config.focus, decay=config.decay,
        shrinkage=config.shrinkage, topic=TOPIC, cutoff=CUTOFF, substitute_shrinkage=SUBSTITUTE_SHRINKAGE,
    )  # fmt: skip
    model.top_share, model.context_share, model.substitute_share, model.word_share = shares.tolist()
    batch = _BatchStruct(
        top=address_of(top, "top", np.float32, (num_positions, top_dim)),
        tokens=address_of(inputs.positions, "positions", np.int64, (num_positions,)),
        token_vectors=address_of(tokens.vectors, "token vectors", np.int8, (num_tokens, dim)),
        token_scales=address_of(tokens.scales, "token scales", np.float32, (num_tokens,)),
        token_weights=address_of(tokens.weights, "token weights", np.float32, (num_tokens,)),
        num_spans=num_spans,
        longest=int((spans[:, 3] - spans[:, 2]).max()) + 2 * config.window,
    )
    if lists is not None:
        (num_lists, model.num_candidates), words = lists.candidates.shape, lists.words
        num_words, model.state_dim = words.softmax.shape
        model.vectors = address_of(words.vectors, "vectors", np.int8, (num_words, dim))
        model.scales = address_of(words.scales, "scales", np.float32, (num_words,))
        model.softmax = address_of(words.softmax, "softmax", np.int8, words.softmax.shape)
        batch.candidates = address_of(lists.candidates, "candidates", np.uint16, lists.candidates.shape)
        batch.factors = address_of(lists.factors, "factors", np.float32, lists.candidates.shape)
        batch.offsets = address_of(lists.offsets, "offsets", np.float32, lists.candidates.shape)
        batch.priors = address_of(lists.priors, "priors", np.float32, (num_lists, dim))
    # Lists with the same first candidate share many candidates; processing them together keeps these in the cache.
    similar = numbers if lists is None else np.where(numbers < 0, -1, lists.candidates[numbers, 0])
    addresses = meanings.ctypes.data + meanings.strides[0] * np.arange(num_spans)
    located = np.column_stack([spans, addresses])[np.lexsort((numbers, similar))]
    batch.spans = address_of(located, "spans", np.int64, (num_spans, 7))
    library.run_with_scratch(library.meanings, ctypes.addressof(model), ctypes.addressof(batch), int(single_threaded))
    return meanings


def find_nearest(
    library: Library | None, candidates: Candidates, queries: Bytes, scales: Array, number: int
) -> tuple[npt.NDArray[np.int32], Array]:
    """Return the `number` nearest candidates of each query (n, d), and their cosines."""
    (num_words, dim), num_queries = candidates.vectors.shape, len(queries)
    if not 0 < number <= num_words:
        raise KernelError(f"{number} candidates of {num_words} were requested.")
    if library is None:
        # Products of int8 values are exact in float32 up to 2^24, whatever their order.
        dots = queries.astype(np.float64) @ candidates.vectors.T.astype(np.float64)
        cosines = np.clip(dots.astype(np.float32) * (scales[:, None] * candidates.scales), -1, 1)
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :number].astype(np.int32)
        return nearest, np.take_along_axis(cosines, nearest, axis=1)
    chosen = np.empty((num_queries, number), dtype=np.int32)
    cosines = np.empty((num_queries, number), dtype=np.float32)
    scratch = np.empty(num_words, dtype=np.float32)
    library.nearest(
        address_of(candidates.vectors, "vectors", np.int8, (num_words, dim)),
        address_of(candidates.scales, "scales", np.float32, (num_words,)),
        num_words,
        dim,
        address_of(queries, "queries", np.int8, (num_queries, dim)),
        address_of(scales, "query scales", np.float32, (num_queries,)),
        num_queries,
        number,
        address_of(scratch, "scratch", np.float32, (num_words,)),
        address_of(chosen, "chosen", np.int32, (num_queries, number)),
        address_of(cosines, "cosines", np.float32, (num_queries, number)),
    )
    return chosen, cosines


def _check(inputs: MeaningInputs) -> None:
    """Raise KernelError for indices that are out of range."""
    top, positions, lists = inputs.top, inputs.positions, inputs.lists
    num_tokens, num_lists = len(inputs.tokens.vectors), 0 if lists is None else len(lists.candidates)
    starts, ends, first, last, queries, numbers = inputs.spans.T
    is_valid = (starts >= 1) & (starts <= first) & (first < last) & (last <= ends) & (ends < len(top))
    is_valid &= (queries >= 0) & (queries < num_tokens) & (numbers < num_lists)
    if not is_valid.all() or not 0 <= positions.min() <= positions.max() < num_tokens:
        raise KernelError(f"An index is out of range: {len(top)} positions, {num_tokens} tokens, {num_lists} lists.")
    if lists is not None and lists.words.softmax.shape[1] * 2 not in (top.shape[1], 2 * top.shape[1]):
        raise KernelError(f"Softmax rows of {lists.words.softmax.shape[1]} dimensions do not fit the top layer.")


def _find_by_numpy(config: ContextConfig, shares: Array, inputs: MeaningInputs, meanings: Array) -> None:
    """Compute the same as the library, word by word."""
    top, tokens = inputs.top, inputs.tokens
    top_dim = top.shape[1]
    top_share, context_share, substitute_share, word_share = shares
    vectors = tokens.vectors * tokens.scales[:, None]
    for row, span in zip(meanings, inputs.spans.tolist(), strict=True):
        begin, end, start, stop, query, number = span
        row[:top_dim] = top_share * _shrink(top[start:stop].sum(axis=0), 0.0)
        places = np.r_[max(begin, start - config.window) : start, stop : min(end, stop + config.window)]
        distances = np.where(places < start, start - places, places - stop + 1)
        neighbors = inputs.positions[places]
        factors = np.exp(config.focus * (vectors[neighbors] @ vectors[query]) - config.decay * (distances - 1))
        weighted = (factors * tokens.weights[neighbors]).astype(np.float32)
        context = _shrink(weighted @ vectors[neighbors], config.shrinkage)
        row[top_dim:] = context_share * context + word_share * vectors[query]
        if number >= 0 and inputs.lists is not None:
            states = top[start - 1, : top_dim // 2], top[stop, top_dim // 2 :]
            substitutes = _find_substitutes(inputs.lists, number, states, context)
            row[top_dim:] += substitute_share * substitutes


def _find_substitutes(lists: Lists, number: int, states: tuple[Array, Array], context: Array) -> Array:
    words = lists.words
    chosen = lists.candidates[number]
    is_shared = words.softmax.shape[1] == len(states[0])
    state = states[0] + states[1] if is_shared else np.concatenate(states)
    rounded, scale = quantize_rows(state[None])
    dots = words.softmax[chosen] @ rounded[0].astype(np.float64)
    scores = dots * (scale * lists.factors[number]) + lists.offsets[number]
    kept = np.flatnonzero(~(scores < scores.max() - CUTOFF))
    vectors = words.vectors[chosen[kept]] * words.scales[chosen[kept], None]
    scores = scores[kept] + TOPIC * (vectors @ context)
    probabilities = np.exp(scores - scores.max())
    mean = (probabilities / probabilities.sum()).astype(np.float32) @ vectors
    return _shrink(mean - lists.priors[number], SUBSTITUTE_SHRINKAGE)


def _shrink(vector: Array, shrinkage: float) -> Array:
    scaled: Array = vector / np.maximum(np.sqrt(vector @ vector) + np.float32(shrinkage), _TINY)
    return scaled
