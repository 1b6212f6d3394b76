"""Static word vectors: one per word, whatever its sentence. Made from a prepared corpus, or read from a file.

From a corpus: positive pointwise mutual information of words that stand together, reduced by a truncated SVD.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo.corpus.cooccurrence import Cooccurrences, WordCounts, count_pairs, count_words, require_sparse
from elmo.corpus.prepared import PreparedCorpus
from elmo.errors import InputError
from elmo.text.word_vectors import measure_word_vectors, read_word_vectors

NUM_WORDS, DIM, COUNTING_WINDOW = 40_000, 256, 8
_CONTEXT_EXPONENT = 0.75  # frequent contexts count a little less, as in word2vec's negative sampling
_SINGULAR_VALUE_EXPONENT = 0.5
_POWER_ITERATIONS = 3
_FREQUENCY = 1e-4  # words more frequent than this count less than half


@dataclass(frozen=True)
class StaticVectors:
    """Words, the most frequent first, with their relative frequencies (V,) and vectors (V, d) of length 1."""

    words: tuple[str, ...]
    forms: tuple[str, ...]  # how each is spelled most often; equal to `words` if those are not in lower case
    frequencies: npt.NDArray[np.float64]
    vectors: npt.NDArray[np.float32]
    lowercase: bool

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """(V,): how much each word counts as a neighbour; low for frequent words, 1 for the rarest."""
        weights = _FREQUENCY / (_FREQUENCY + self.frequencies)
        return np.asarray(weights / weights.max())  # in a small corpus all words are frequent


def make_static_vectors(
    corpus: str | Path | PreparedCorpus,
    *,
    num_words: int = NUM_WORDS,
    dim: int = DIM,
    window: int = COUNTING_WINDOW,
    lowercase: bool = True,
    seed: int = 0,
    advance: Callable[[int], None] = lambda num_tokens: None,
) -> StaticVectors:
    """Build the vectors of a prepared corpus's most frequent words; minutes for a hundred million words.

    `advance` is called with the number of tokens counted. Words that never stand beside another have zeros.
    """
    require_sparse()
    for name, value in (("num_words", num_words), ("dim", dim), ("window", window)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} is {value!r}; it must be a whole number, 1 or more.")
    opened = corpus if isinstance(corpus, PreparedCorpus) else PreparedCorpus.open(corpus)
    words = count_words(opened, num_words=num_words, lowercase=lowercase)
    if dim >= len(words.words):
        raise InputError(
            f"{opened.folder} has {len(words.words):,} words to make vectors of, so those have fewer than that "
            f"many dimensions, not {dim:,}; prepare more text, or ask for fewer dimensions."
        )
    pairs = count_pairs(opened, words, window=window, advance=advance)
    return _finish(words, _reduce(pairs, dim, seed), lowercase)


def read_static_vectors(
    path: str | Path, corpus: str | Path | PreparedCorpus, *, num_words: int = NUM_WORDS, lowercase: bool = True
) -> StaticVectors:
    """Read vectors from a text file of GloVe or word2vec; which words and how frequent they are, a corpus says."""
    opened = corpus if isinstance(corpus, PreparedCorpus) else PreparedCorpus.open(corpus)
    words = count_words(opened, num_words=num_words, lowercase=lowercase)
    path = Path(path)
    wanted = {*words.words, *words.forms}
    found = read_word_vectors(path, wanted, measure_word_vectors(path))
    rows = [row for row, (key, form) in enumerate(zip(words.words, words.forms, strict=True))
            if key in found or form in found]  # fmt: skip
    if len(rows) < 2:
        raise InputError(f"{path} has vectors for {len(rows)} words of {opened.folder}; two or more are needed.")
    kept = WordCounts(
        tuple(words.words[row] for row in rows),
        tuple(words.forms[row] for row in rows),
        words.counts[rows],
        words.num_words,
        words.row_of_id,
    )
    pairs = zip(kept.words, kept.forms, strict=True)
    vectors = np.stack([found[key] if key in found else found[form] for key, form in pairs])
    return _finish(kept, vectors, lowercase)


def write_static_vectors(vectors: StaticVectors, path: Path) -> None:
    """Write a text file as word2vec does: two counts, then one line per word with its numbers."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(vectors.words)} {vectors.vectors.shape[1]}\n")
        for word, vector in zip(vectors.words, vectors.vectors, strict=True):
            file.write(f"{word} {' '.join(f'{value:.5g}' for value in vector.tolist())}\n")


def _reduce(pairs: Cooccurrences, dim: int, seed: int) -> npt.NDArray[np.float32]:
    """Return the vectors (V, dim): left singular vectors times the roots of the singular values."""
    from sklearn.utils.extmath import randomized_svd

    information = _positive_information(pairs)
    left, values, _ = randomized_svd(information, dim, n_iter=_POWER_ITERATIONS, random_state=seed)
    return np.asarray(left * values**_SINGULAR_VALUE_EXPONENT, dtype=np.float32)


def _positive_information(pairs: Cooccurrences):  # type: ignore[no-untyped-def]  # noqa: ANN202  # scipy has no types
    """Return max(0, log p(word, context) / (p(word) · p(context))) of the pairs that occur, as a sparse matrix."""
    matrix = pairs.matrix.copy()
    sums = np.maximum(np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel(), np.finfo(np.float64).tiny)
    contexts = sums**_CONTEXT_EXPONENT
    log_contexts = np.log(contexts / contexts.sum())
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    information = np.log(matrix.data.astype(np.float64)) - np.log(sums)[rows] - log_contexts[matrix.indices]
    matrix.data = np.maximum(information, 0).astype(np.float32)
    matrix.eliminate_zeros()
    return matrix


def _finish(words: WordCounts, vectors: npt.NDArray[np.float32], lowercase: bool) -> StaticVectors:
    """Centre the vectors and scale them to length 1; those of words never seen beside others stay zero."""
    is_zero = ~vectors.any(axis=1)
    centred = vectors - vectors[~is_zero].mean(axis=0)
    centred[is_zero] = 0
    lengths = np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return StaticVectors(
        words.words, words.forms, words.counts / words.num_words, (centred / lengths).astype(np.float32), lowercase
    )
