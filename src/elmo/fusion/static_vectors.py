"""Static word vectors, computed from a prepared corpus or read from a file.

To compute them, the co-occurrences of words are counted, and a truncated SVD reduces their positive pointwise mutual
information. The corpus is streamed; memory is bounded by the number of pairs that are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.corpus.prepared import BOS_ID, PreparedCorpus
from elmo.errors import InputError
from elmo.extras import require
from elmo.fusion.word_vectors import read_word_vectors
from elmo.inference.context import normalize
from elmo.progress import progress_bar

NUM_WORDS, DIM = 40_000, 256
_MOST_PAIRS = 150_000_000  # 8 bytes each, 32 in the final sum; if there are more, the rarest are dropped
_PAIRS_AT_ONCE = 1 << 20  # in float64
_CONTEXT_EXPONENT = 0.75  # gives frequent contexts less weight, as in word2vec's negative sampling
_SINGULAR_VALUE_EXPONENT = 0.5
_POWER_ITERATIONS = 3


@dataclass(frozen=True)
class WordCounts:
    """The most frequent words of a corpus, one row per word, the most frequent first."""

    words: tuple[str, ...]  # the key of each row: the word, in lower case if spellings are merged
    forms: tuple[str, ...]  # the most frequent spelling of each word
    counts: npt.NDArray[np.int64]
    num_words: int  # in the corpus
    row_of_id: npt.NDArray[np.int32]  # of each word id of the corpus; -1 for words without a row


@dataclass(frozen=True)
class StaticVectors:
    """Words, the most frequent first, with their relative frequencies (V,) and vectors (V, d) of length 1."""

    words: tuple[str, ...]
    forms: tuple[str, ...]  # the most frequent spelling of each word; equal to `words` unless those are in lower case
    frequencies: npt.NDArray[np.float64]
    vectors: npt.NDArray[np.float32]
    lowercase: bool


def make_static_vectors(
    corpus: PreparedCorpus,
    *,
    num_words: int = NUM_WORDS,
    dim: int = DIM,
    window: int = 8,
    lowercase: bool = True,
    seed: int = 0,
    show_progress_bar: bool = False,
) -> StaticVectors:
    """Compute vectors of the most frequent words of a corpus; this takes minutes for a hundred million words.

    Words without co-occurrences get zero vectors.
    """
    for module in ("scipy.sparse", "sklearn"):
        require(module, "fuse", "The computation of static vectors")
    for name, value in (("num_words", num_words), ("dim", dim), ("window", window)):
        if value < 1:
            raise InputError(f"{name} is {value}; it must be 1 or more.")
    words = count_words(corpus, num_words=num_words, lowercase=lowercase)
    if dim >= len(words.words):
        raise InputError(
            f"dim is {dim:,}; it must be less than the number of words of {corpus.folder}, {len(words.words):,}. "
            "Prepare more text, or use fewer dimensions."
        )
    from sklearn.utils.extmath import randomized_svd

    matrix = _weigh(count_pairs(corpus, words, window=window, show_progress_bar=show_progress_bar))
    left, values, _ = randomized_svd(matrix, dim, n_iter=_POWER_ITERATIONS, random_state=seed)
    vectors = np.asarray(left * values**_SINGULAR_VALUE_EXPONENT, dtype=np.float32)  # (V, dim)
    return _finish(words, range(len(words.words)), vectors, lowercase)


def read_static_vectors(
    path: str | Path, corpus: PreparedCorpus, *, num_words: int = NUM_WORDS, lowercase: bool = True
) -> StaticVectors:
    """Read vectors from a GloVe or word2vec text file; words and frequencies come from the corpus."""
    words = count_words(corpus, num_words=num_words, lowercase=lowercase)
    by_word = read_word_vectors(Path(path), {*words.words, *words.forms})
    vectors = {}
    for row, (key, form) in enumerate(zip(words.words, words.forms, strict=True)):
        if (vector := by_word.get(key, by_word.get(form))) is not None:
            vectors[row] = vector
    if len(vectors) < 2:
        raise InputError(f"{path} has vectors for {len(vectors)} words of {corpus.folder}; two or more are needed.")
    return _finish(words, list(vectors), np.stack(list(vectors.values())), lowercase)


def write_static_vectors(vectors: StaticVectors, path: Path) -> None:
    """Write a text file in word2vec format: two counts, then one line per word."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(vectors.words)} {vectors.vectors.shape[1]}\n")
        for word, vector in zip(vectors.words, vectors.vectors, strict=True):
            file.write(f"{word} {' '.join(f'{value:.5g}' for value in vector.tolist())}\n")


def count_words(corpus: PreparedCorpus, *, num_words: int, lowercase: bool = True) -> WordCounts:
    """Return the `num_words` most frequent words of a corpus; `lowercase` merges their spellings."""
    counts = np.array(corpus.word_counts, dtype=np.int64)
    counts[BOS_ID] = 0
    keys, key_of_id, form_ids = _group_spellings(corpus, counts, lowercase)
    totals = np.bincount(key_of_id, weights=counts, minlength=len(keys)).astype(np.int64)
    frequent = np.argsort(-totals, kind="stable")[:num_words]
    frequent = frequent[totals[frequent] > 0]
    if len(frequent) < 2:
        raise InputError(f"{corpus.folder} has {len(frequent)} distinct words; static vectors need more text.")
    row_of_key = np.full(len(keys), -1, dtype=np.int32)
    row_of_key[frequent] = np.arange(len(frequent), dtype=np.int32)
    return WordCounts(
        tuple(keys[number] for number in frequent),
        tuple(corpus.words(form_ids[frequent])),
        totals[frequent],
        corpus.num_words,
        row_of_key[key_of_id],
    )


def count_pairs(corpus: PreparedCorpus, words: WordCounts, *, window: int, show_progress_bar: bool = False) -> Any:
    """Return the co-occurrence counts of words within `window` of each other in a sentence.

    The result is a symmetric, sparse float32 matrix (V, V). A pair at distance d has the weight 1/d.
    """
    import scipy.sparse

    shape = (len(words.words), len(words.words))
    total = scipy.sparse.csr_matrix(shape, dtype=np.float32)  # the upper triangle
    smallest = 0.0
    with progress_bar(unit="words", num_bytes=corpus.num_tokens, shown=show_progress_bar) as advance:
        for shard, record in enumerate(corpus.manifest["shards"]):
            ids = corpus.read_block(shard, 0, record["num_tokens"])
            total = total + _count_shard(ids, words.row_of_id, window, shape)
            while total.nnz > _MOST_PAIRS:  # drop the rarest
                smallest = 2 * smallest or 1 / window
                total.data[total.data < smallest] = 0
                total.eliminate_zeros()
            advance(len(ids), len(ids))
    return total + total.T.tocsr()


def _group_spellings(
    corpus: PreparedCorpus, counts: npt.NDArray[np.int64], lowercase: bool
) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the keys, the key of each word id, and the id of the most frequent spelling of each key."""
    numbers: dict[str, int] = {}
    words = corpus.words(np.arange(len(counts)))
    keys = (word.lower() for word in words) if lowercase else iter(words)
    key_of_id = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    form_ids = np.zeros(len(numbers), dtype=np.int64)
    order = np.argsort(counts, kind="stable")  # the most frequent spelling is written last
    form_ids[key_of_id[order]] = order
    return list(numbers), key_of_id, form_ids


def _count_shard(
    ids: npt.NDArray[np.uint32], row_of_id: npt.NDArray[np.int32], window: int, shape: tuple[int, int]
) -> Any:
    """Return the upper triangle of the counts of one shard."""
    import scipy.sparse

    sentences = np.cumsum(ids == BOS_ID, dtype=np.int32)
    rows = row_of_id[ids]
    firsts, seconds, pair_weights = [], [], []
    for distance in range(1, window + 1):
        first, second = rows[:-distance], rows[distance:]
        is_pair = (first >= 0) & (second >= 0) & (sentences[:-distance] == sentences[distance:])
        first, second = first[is_pair], second[is_pair]
        firsts.append(np.minimum(first, second))
        seconds.append(np.maximum(first, second))
        pair_weights.append(np.full(len(first), 1 / distance, dtype=np.float32))
    pairs = (np.concatenate(firsts), np.concatenate(seconds))
    return scipy.sparse.coo_matrix((np.concatenate(pair_weights), pairs), shape=shape).tocsr()


def _weigh(pairs: Any) -> Any:
    """Replace counts, in place, by max(0, log p(word, context) / (p(word) · p(context))) and remove zeros."""
    sums = np.maximum(np.asarray(pairs.sum(axis=1), dtype=np.float64).ravel(), np.finfo(np.float64).tiny)
    contexts = sums**_CONTEXT_EXPONENT
    log_sums, log_contexts = np.log(sums), np.log(contexts / contexts.sum())
    for start in range(0, pairs.nnz, _PAIRS_AT_ONCE):
        chunk = slice(start, min(start + _PAIRS_AT_ONCE, pairs.nnz))
        sizes = np.diff(np.clip(pairs.indptr, chunk.start, chunk.stop))  # the number of pairs per row in this chunk
        information = np.log(pairs.data[chunk].astype(np.float64))
        information -= np.repeat(log_sums, sizes)
        information -= log_contexts[pairs.indices[chunk]]
        pairs.data[chunk] = np.maximum(information, 0, out=information)
    pairs.eliminate_zeros()
    return pairs


def _finish(words: WordCounts, rows: Sequence[int], vectors: npt.NDArray[np.float32], lowercase: bool) -> StaticVectors:
    """Center the vectors of the given rows and scale them to length 1; zero vectors stay zero."""
    is_zero = ~vectors.any(axis=1)
    centred = vectors - vectors[~is_zero].mean(axis=0)
    centred[is_zero] = 0
    return StaticVectors(
        words=tuple(words.words[row] for row in rows),
        forms=tuple(words.forms[row] for row in rows),
        frequencies=words.counts[np.array(rows)] / words.num_words,
        vectors=normalize(centred),
        lowercase=lowercase,
    )
