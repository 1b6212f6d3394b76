"""Compute the "meaning" vectors of a batch from its top layer; kernels/meaning.py has the formula.

The candidate substitutes of a distinct word, the words with the nearest static vectors, are searched once and cached.
"""

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from elmo.inference.context import NO_ROW, Span, StaticTable
from elmo.inference.runtime import Runtime, split_rows
from elmo.inference.scoring import Softmaxes
from elmo.inference.workers import ForkSafeLock
from elmo.kernels.int8 import quantize_rows
from elmo.kernels.library import align, find_library
from elmo.kernels.meaning import Candidates, Lists, MeaningInputs, Tokens, find_meanings, find_nearest
from elmo.text.batch import CharBatch
from elmo.text.vocabulary import Vocabulary, is_punctuation

Array = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
# Chosen on development data together with the settings of the context layer, see docs/meaning.md.
LIKELIHOOD = 0.5  # power of the probability of a substitute
FREQUENCY = 1.25  # power of a word's frequency by which its probability is divided
NUM_CANDIDATE_WORDS = 20_000  # the most frequent ones of the table
NUM_WORDS = 16_384  # only the first rows of the table have substitutes: other words are rare, with few meanings
LEAST_WEIGHT = 0.07  # of a word with substitutes: words with a lower weight, such as "the", have little meaning
_MAX_LISTS = 20_000


class Meaning:
    """Computes the "meaning" vectors of one model; thread-safe."""

    def __init__(self, table: StaticTable, vocabulary: Vocabulary | None, runtime: Runtime) -> None:
        """Without a vocabulary, or a softmax in `runtime`, substitutes are left out."""
        self._table, self._single_threaded = table, runtime.num_threads == 1
        self._lock = ForkSafeLock()
        self._lists: _CandidateLists | None = None
        config = table.config
        softmaxes = runtime.softmaxes if config.substitutes else None
        if softmaxes is not None and vocabulary is not None:
            candidates = _gather_candidates(table, vocabulary, softmaxes)
            if len(candidates[0].scales):
                self._lists = _CandidateLists(*candidates, config.num_candidates, config.relatedness)
        substitutes = 0.0 if self._lists is None else config.substitutes
        values = [1.0, config.share, substitutes, config.word]  # weights in the cosine of two meanings
        # With these factors, the length of a meaning is about 1.
        self._shares: Array = np.sqrt(np.array(values) / sum(values)).astype(np.float32)

    def vectors(self, batch: CharBatch, top: Array, spans: Sequence[Sequence[Span]] | None = None) -> list[Array]:
        """Return the meanings (T, 2D + d) of the words of each sentence of a batch, in the batch's order.

        `top` (N, 2D) holds the top layer of all tokens, sentence by sentence, boundaries included. With `spans`,
        half-open ranges of words, the meanings of these phrases are returned instead.
        """
        return self._run(batch, top, spans, self._shares, self._lists)

    def contexts(self, batch: CharBatch) -> list[Array]:
        """Return the context vectors (T, d) of the words of each sentence of a batch."""
        no_top = np.zeros((int(batch.lengths.sum()), 2), dtype=np.float32)  # instead of the top layer
        context_only = np.array([0, 1, 0, 0], dtype=np.float32)
        meanings = self._run(batch, no_top, None, context_only, None)
        return [np.ascontiguousarray(array[:, 2:]) for array in meanings]

    def _run(
        self,
        batch: CharBatch,
        top: Array,
        spans: Sequence[Sequence[Span]] | None,
        shares: Array,
        lists: "_CandidateLists | None",
    ) -> list[Array]:
        places, counts = _locate(batch, spans)
        positions = batch.word_index[batch.mask]
        words = [key if isinstance(key, str) else "" for key in batch.keys]
        rows = self._table.find_rows(words)
        tokens = self._table.look_up_tokens(words, rows)
        tokens.weights[:2] = 0  # boundaries
        queries = positions[places[:, 2]]
        phrases = np.flatnonzero(places[:, 3] - places[:, 2] > 1)
        inside = [positions[start:stop] for start, stop in places[phrases, 2:].tolist()]
        queries[phrases] = len(rows) + np.arange(len(phrases))
        tokens = _add_phrases(tokens, inside)
        numbers, candidate_lists = np.full(len(places), -1), None
        if lists is not None:
            has_list = (rows < NUM_WORDS) & (tokens.weights[: len(rows)] >= LEAST_WEIGHT)
            keys: list[Hashable] = np.where(has_list, rows, NO_ROW).tolist()
            keys += [NO_ROW if NO_ROW in rows[phrase] else rows[phrase].tobytes() for phrase in inside]
            with self._lock:
                by_token, candidate_lists = lists.find(keys, tokens)
            numbers = by_token[queries]
        spans_and_tokens = np.column_stack([places, queries, numbers])
        inputs = MeaningInputs(np.ascontiguousarray(top), positions, tokens, spans_and_tokens, candidate_lists)
        meanings = find_meanings(
            find_library(), self._table.config, shares, inputs, single_threaded=self._single_threaded
        )
        return split_rows(meanings, counts)


class _CandidateLists:
    """A cache of the nearest candidates of words; not thread-safe."""

    def __init__(
        self, words: Candidates, factors: Array, offsets: Array, num_candidates: int, relatedness: float
    ) -> None:
        """`factors` and `offsets` (C,) turn dot products of softmax rows into the scores of words."""
        self.words, self._factors, self._offsets = words, factors, offsets
        self._num_candidates, self._relatedness = min(num_candidates, len(factors)), relatedness
        self._clear(_MAX_LISTS)

    def _clear(self, capacity: int) -> None:
        """Allocate new arrays, because running calls still use the old ones; the memory is taken as it is filled."""
        size, dim = (capacity, self._num_candidates), self.words.vectors.shape[1]
        floats = (np.empty(shape, np.float32) for shape in (size, size, (capacity, dim)))
        self._numbers: dict[Hashable, int] = {}
        self._lists = Lists(self.words, np.empty(size, np.uint16), *floats)

    def find(self, keys: Sequence[Hashable], tokens: Tokens) -> tuple[Ids, Lists]:
        """Return the number of each token's list, -1 if its key is NO_ROW, and all lists."""
        numbers = list(map(self._numbers.get, keys))
        missing = {key: token for token, (key, number) in enumerate(zip(keys, numbers, strict=True)) if number is None}
        missing.pop(NO_ROW, None)
        if missing:
            if len(self._numbers) + len(missing) > len(self._lists.priors):
                missing = {key: token for token, key in enumerate(keys) if key != NO_ROW}
                self._clear(max(_MAX_LISTS, len(missing)))
            self._add(missing, tokens)
            numbers = list(map(self._numbers.get, keys))
        return np.array([-1 if number is None else number for number in numbers], dtype=np.int64), self._lists

    def _add(self, missing: dict[Hashable, int], tokens: Tokens) -> None:
        first, last = len(self._numbers), len(self._numbers) + len(missing)
        selected = np.array(list(missing.values()))
        nearest, cosines = find_nearest(
            find_library(), self.words, tokens.vectors[selected], tokens.scales[selected], self._num_candidates
        )
        self._lists.candidates[first:last] = nearest
        self._lists.factors[first:last] = self._factors[nearest]
        self._lists.offsets[first:last] = self._offsets[nearest] + np.float32(self._relatedness) * cosines
        for place, row in enumerate(nearest, start=first):
            shares = np.exp(self._relatedness * (cosines[place - first] - cosines[place - first].max()))
            shares = shares / shares.sum() * self.words.scales[row]
            self._lists.priors[place] = shares @ self.words.vectors[row].astype(np.float32)
        self._numbers.update(zip(missing, range(first, last), strict=True))


def _locate(batch: CharBatch, spans: Sequence[Sequence[Span]] | None) -> tuple[Ids, Ids]:
    """Return the places (n, 4) of words or phrases among all tokens of the batch, and their number per sentence.

    The columns are the start and end of the sentence, without boundaries, and the start and end of the word.
    """
    lengths = batch.word_lengths
    widths = np.ones(int(lengths.sum()), dtype=np.int64) if batch.groups is None else batch.groups.num_tokens
    stops = np.cumsum(widths)
    starts, ends = stops - widths, np.cumsum(batch.lengths)
    begins = np.cumsum(lengths) - lengths + 1  # the first word of each sentence
    if spans is None:
        counts = lengths - 2
        first = last = np.arange(counts.sum()) + np.repeat(begins - np.cumsum(counts) + counts, counts)
    else:
        counts = np.array(list(map(len, spans)), dtype=np.int64)
        ranges = np.array([span for sentence in spans for span in sentence], dtype=np.int64).reshape(-1, 2)
        first, last = (ranges + np.repeat(begins, counts)[:, None] - (0, 1)).T
    sentences = np.column_stack([ends - batch.lengths + 1, ends - 1])
    return np.column_stack([np.repeat(sentences, counts, axis=0), starts[first], stops[last]]), counts


def _add_phrases(tokens: Tokens, phrases: Sequence[Ids]) -> Tokens:
    """Return the tokens followed by one token per phrase, with the mean vector of the phrase."""
    if not phrases:
        return tokens
    means = [(tokens.vectors[phrase] * tokens.scales[phrase, None]).mean(axis=0) for phrase in phrases]
    vectors, scales = quantize_rows(np.stack(means))
    return Tokens(
        np.concatenate([tokens.vectors, vectors]),
        np.concatenate([tokens.scales, scales]),
        np.concatenate([tokens.weights, np.zeros(len(phrases), dtype=np.float32)]),
    )


def _gather_candidates(
    table: StaticTable, vocabulary: Vocabulary, softmaxes: Softmaxes
) -> tuple[Candidates, Array, Array]:
    """Return the frequent words of the vocabulary that are in the table, each in its most frequent spelling.

    The factors and offsets (C,) turn the dot products of their softmax rows into scores: log probabilities minus
    a multiple of the words' log frequencies.
    """
    frequencies, rows = vocabulary.log_frequencies(), table.find_rows(vocabulary.words)
    is_usable = rows != NO_ROW
    is_usable[vocabulary.find_ids(is_punctuation)] = is_usable[vocabulary.special_ids] = False
    order = np.argsort(-frequencies, kind="stable")
    order = order[is_usable[order]]
    table_rows, first = np.unique(rows[order], return_index=True)
    table_rows, words = table_rows[:NUM_CANDIDATE_WORDS], order[first[:NUM_CANDIDATE_WORDS]]
    left_to_right, right_to_left = softmaxes
    if left_to_right is right_to_left and left_to_right.scales is not None:
        softmax, scales = left_to_right.weight[words], left_to_right.scales[words]
    elif left_to_right is right_to_left:
        softmax, scales = quantize_rows(left_to_right.rows(words))
    else:
        softmax, scales = quantize_rows(np.concatenate([direction.rows(words) for direction in softmaxes], axis=1))
    offsets = left_to_right.bias[words] + right_to_left.bias[words] - FREQUENCY * frequencies[words]
    vectors, vector_scales = (table.arrays[name][table_rows] for name in ("vectors", "scales"))
    candidates = Candidates(align(vectors), vector_scales, align(softmax))
    return candidates, np.float32(LIKELIHOOD) * scales, (LIKELIHOOD * offsets).astype(np.float32)
