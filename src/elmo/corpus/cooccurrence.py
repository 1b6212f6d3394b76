"""A prepared corpus -> its most frequent words and how often two of them stand near each other.

The corpus is streamed in chunks; memory is bounded by the number of pairs that are kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.corpus.prepared import MARK, PreparedCorpus
from elmo.errors import ConfigError, InputError

_CHUNK_TOKENS = 1 << 21
_MOST_PAIRS = 150_000_000  # about 1.2 GB; beyond it the rarest pairs are dropped
_WORDS_AT_ONCE = 1 << 18
_NO_ROW = -1


@dataclass(frozen=True)
class WordCounts:
    """The most frequent words of a corpus, one row per word, the most frequent first."""

    words: tuple[str, ...]  # the key of each row: the word itself, or in lower case
    forms: tuple[str, ...]  # the most frequent spelling of each
    counts: npt.NDArray[np.int64]
    num_words: int  # of the corpus
    row_of_id: npt.NDArray[np.int32]  # of each word id of the corpus; -1 for words without a row


@dataclass(frozen=True)
class Cooccurrences:
    """Words and the symmetric sparse matrix of how often they stand together, nearer pairs counting more."""

    words: WordCounts
    matrix: Any  # scipy.sparse.csr_matrix of float32, (V, V)


def require_sparse() -> None:
    """Raise ConfigError that names the extra to install if scipy or scikit-learn is missing."""
    try:
        import scipy.sparse  # noqa: F401
        import sklearn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "Static vectors need scipy and scikit-learn: pip install 'modern-elmo[fuse]'."
        ) from error


def count_words(corpus: PreparedCorpus, *, num_words: int, lowercase: bool = True) -> WordCounts:
    """Return the `num_words` most frequent words of a corpus; with `lowercase`, spellings are counted together."""
    counts = np.array(corpus.word_counts, dtype=np.int64)
    counts[MARK] = 0
    keys, key_of_id, form_ids = _group_spellings(corpus, counts, lowercase)
    totals = np.bincount(key_of_id, weights=counts, minlength=len(keys)).astype(np.int64)
    chosen = np.argsort(-totals, kind="stable")[:num_words]
    chosen = chosen[totals[chosen] > 0]
    if len(chosen) < 2:
        raise InputError(f"{corpus.folder} has {len(chosen)} distinct words; static vectors need more text.")
    row_of_key = np.full(len(keys), _NO_ROW, dtype=np.int32)
    row_of_key[chosen] = np.arange(len(chosen), dtype=np.int32)
    row_of_id = row_of_key[key_of_id]
    row_of_id[MARK] = _NO_ROW
    return WordCounts(
        tuple(keys[number] for number in chosen),
        tuple(corpus.words(form_ids[chosen])),
        totals[chosen],
        corpus.num_words,
        row_of_id,
    )


def count_pairs(
    corpus: PreparedCorpus,
    words: WordCounts,
    *,
    window: int = 8,
    advance: Callable[[int], None] = lambda num_tokens: None,
) -> Cooccurrences:
    """Count the pairs of words within `window` of each other in a sentence; at distance d a pair counts 1/d."""
    import scipy.sparse

    shape = (len(words.words), len(words.words))
    total = scipy.sparse.csr_matrix(shape, dtype=np.float32)
    pending: list[Any] = []  # ever smaller ones; merging equals with equals keeps the work linear
    smallest = 0.0
    for ids in _read_chunks(corpus):
        pending.append(_count_chunk(ids, words.row_of_id, window, shape))
        while len(pending) > 1 and pending[-2].nnz < 2 * pending[-1].nnz:
            last = pending.pop()
            pending[-1] = pending[-1] + last
        while pending[0].nnz > _MOST_PAIRS:
            smallest = 2 * smallest or 1 / window
            pending[0].data[pending[0].data < smallest] = 0
            pending[0].eliminate_zeros()
        advance(len(ids))
    for part in reversed(pending):
        total = total + part
    return Cooccurrences(words, (total + total.T).tocsr())


def _group_spellings(
    corpus: PreparedCorpus, counts: npt.NDArray[np.int64], lowercase: bool
) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the keys, the key of each word id, and the id of the most frequent spelling of each key."""
    numbers: dict[str, int] = {}
    key_of_id = np.zeros(len(counts), dtype=np.int64)
    for start in range(0, len(counts), _WORDS_AT_ONCE):
        stop = min(start + _WORDS_AT_ONCE, len(counts))
        spelled = corpus.words(np.arange(start, stop))
        keys = (word.lower() for word in spelled) if lowercase else iter(spelled)
        key_of_id[start:stop] = [numbers.setdefault(key, len(numbers)) for key in keys]
    form_ids = np.zeros(len(numbers), dtype=np.int64)
    order = np.argsort(counts, kind="stable")  # the most frequent spelling is written last
    form_ids[key_of_id[order]] = order
    return list(numbers), key_of_id, form_ids


def _read_chunks(corpus: PreparedCorpus) -> Iterator[npt.NDArray[np.uint32]]:
    """Yield the word ids of whole blocks, about _CHUNK_TOKENS at a time."""
    blocks = corpus.blocks()
    for shard in np.unique(blocks[:, 0]).tolist():
        own = blocks[blocks[:, 0] == shard]
        start = int(own[0, 1])
        for stop in own[:, 2].tolist():
            if stop - start >= _CHUNK_TOKENS or stop == own[-1, 2]:
                yield corpus.read_block(shard, start, stop)
                start = stop


def _count_chunk(
    ids: npt.NDArray[np.uint32], row_of_id: npt.NDArray[np.int32], window: int, shape: tuple[int, int]
) -> Any:
    """Return the upper triangle of the counts of one chunk."""
    import scipy.sparse

    sentences = np.cumsum(ids == MARK, dtype=np.int32)
    rows = row_of_id[ids]
    firsts, seconds, shares = [], [], []
    for distance in range(1, window + 1):
        first, second = rows[:-distance], rows[distance:]
        is_pair = (first >= 0) & (second >= 0) & (sentences[:-distance] == sentences[distance:])
        first, second = first[is_pair], second[is_pair]
        firsts.append(np.minimum(first, second))
        seconds.append(np.maximum(first, second))
        shares.append(np.full(len(first), 1 / distance, dtype=np.float32))
    pairs = (np.concatenate(firsts), np.concatenate(seconds))
    return scipy.sparse.coo_matrix((np.concatenate(shares), pairs), shape=shape).tocsr()
