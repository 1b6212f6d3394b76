"""Find substitutes for a word in a sentence: words or sequences of tokens with a similar meaning, best first.

The language model predicts the substitutes; neither direction reads the word itself. Both directions give frequent
words a high probability, so the frequency would count twice; it is divided out. Static vectors measure how related a
substitute is to the word, and softmax rows how similar its use is; without a table, only the predictions count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.inference.context import NO_ROW, StaticTable, normalize
from elmo.inference.runtime import Runtime
from elmo.inference.scoring import Softmaxes, require_softmax
from elmo.text.batch import Indexer
from elmo.text.vocabulary import Vocabulary, is_clitic, is_punctuation

Array = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
_BEAM = 48  # beam width for spans of several tokens
# Chosen on benchmarks/substitutes.tsv: the weights of the cosine between a substitute and the word, by static vectors
# and by softmax rows; the power of its frequency by which its probability is divided; and the penalty if only one of
# the two is capitalized.
_RELATEDNESS, _USAGE, _FREQUENCY, _OTHER_CASE = 20.0, 20.0, 1.25, 5.0
# The same for sequences of tokens: in the beams; at the end, by static vectors and by the top layer in the sentence.
_BEAM_RELATEDNESS, _RUN_RELATEDNESS, _RUN_USAGE, _RUN_FREQUENCY = 20.0, 10.0, 10.0, 0.5
_SUFFIXES = {"iest": "y", "ings": "", "ing": "", "ier": "y", "ies": "y", "ied": "y", "ers": "", "est": "",
             "ed": "", "er": "", "es": "", "ly": "", "s": "", "e": ""}  # fmt: skip


@dataclass(frozen=True)
class Substitute:
    """A word and its log probability, normalized over all words that were considered."""

    word: str
    log_probability: float


def find_substitutes(
    runtime: Runtime,
    indexer: Indexer,
    vocabulary: Vocabulary | None,
    tokens: Sequence[str],
    span: tuple[int, int],
    *,
    top_k: int,
    punctuation: bool = False,
    same_word: bool = False,
    table: StaticTable | None = None,
) -> list[Substitute]:
    """Return the `top_k` best substitutes for a span; in a character-level model, sequences of as many tokens.

    The score of a substitute is log p(word | words before) + log p(word | words after) - log p(word): by Bayes' rule,
    its probability given both sides, if these were independent given the word. With a table of static vectors, the
    cosines between the substitute and the original word are added, and other forms of the original word are left
    out. Scores are normalized over the words that are considered: never the special words of the vocabulary;
    punctuation (words without a letter or digit) only with `punctuation` or if it is replaced itself; the original
    word only with `same_word`; and clitics such as 's only if a clitic is replaced.
    """
    softmaxes, vocabulary = require_softmax(runtime.softmaxes, vocabulary)
    if isinstance(top_k, bool) or not isinstance(top_k, int | np.integer) or top_k < 1:
        raise InputError(f"top_k is {top_k!r}; it must be a whole number of at least 1.")
    start, end = span
    gap = _Gap(runtime, indexer, vocabulary, softmaxes, table, tokens[:start], tokens[start:end], tokens[end:])
    excluded = _list_excluded(vocabulary, gap.original, punctuation)
    runs: Sequence[Sequence[int]]
    if indexer.tokenization.reads_characters:
        runs, scores = gap.score_runs(excluded, max(_BEAM, top_k + 1), same_word=same_word)
    else:
        scores = gap.score_words(excluded, same_word=same_word)
        runs = np.arange(len(scores))[:, None].tolist()
    if not runs:
        return []
    log_probabilities = _log_softmax(scores)
    # Words with equal softmax rows, such as the new words of a changed vocabulary, are in the order of the vocabulary.
    return [
        Substitute(indexer.tokenization.join(gap.spell(runs[row])), float(log_probabilities[row]))
        for row in _find_best(log_probabilities, top_k).tolist()
        if log_probabilities[row] > -np.inf
    ]


def _relate(table: StaticTable, vocabulary: Vocabulary, words: Sequence[str]) -> Scores:
    """Return the cosine (V,) of the vocabulary's words with the mean of `words`; -1 for words outside the table."""
    rows = table.find_rows(vocabulary.words)
    return np.where(rows == NO_ROW, -1.0, table.cosines(words)[rows].astype(np.float64))


def _compare_usage(softmaxes: Softmaxes, vocabulary: Vocabulary, word: str) -> Scores:
    """Return the cosine (V,) between the softmax rows of all words and the row of `word`; 0 if it is unknown."""
    number, unknown = vocabulary.encode([word, vocabulary.unknown]).tolist()
    if number == unknown:
        return np.zeros(len(vocabulary))
    distinct = softmaxes[:1] if softmaxes[0] is softmaxes[1] else softmaxes
    cosines: Scores = np.mean([softmax.cosines(number) for softmax in distinct], axis=0, dtype=np.float64)
    return cosines


def _stem(word: str) -> str:
    """Return an approximate stem of an English word, in lower case."""
    stem = word.lower()
    ending = next((suffix for suffix in _SUFFIXES if stem.endswith(suffix) and len(stem) - len(suffix) >= 3), "")
    if ending:
        stem = stem.removesuffix(ending) + _SUFFIXES[ending]
    return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem


def _find_best(scores: Scores, number: int) -> Ids:
    """Return the positions of the highest scores, best first; ties are in order of position."""
    number = min(number, len(scores))
    places = np.flatnonzero(scores >= np.partition(scores, -number)[-number])
    return places[np.argsort(-scores[places], kind="stable")[:number]]


def _log_softmax(scores: Scores) -> Scores:
    peak = scores.max()
    shifted = scores - peak if np.isfinite(peak) else scores
    normalized: Scores = shifted - np.log(np.exp(shifted).sum())
    return normalized


def _list_excluded(vocabulary: Vocabulary, original: Sequence[str], punctuation: bool) -> Ids:
    """Return the ids of words that cannot replace the original tokens."""
    excluded = [vocabulary.boundaries(), vocabulary.encode([vocabulary.unknown])]
    if not punctuation and not all(map(is_punctuation, original)):
        excluded.append(vocabulary.find_ids(is_punctuation))
    if not all(map(is_clitic, original)):
        excluded.append(vocabulary.find_ids(is_clitic))
    return np.concatenate(excluded)


@dataclass(frozen=True)
class _Gap:
    """A sentence with a span of `original` tokens, for which substitutes are scored."""

    runtime: Runtime
    indexer: Indexer
    vocabulary: Vocabulary
    softmaxes: Softmaxes
    table: StaticTable | None
    before: Sequence[str]
    original: Sequence[str]
    after: Sequence[str]

    def spell(self, run: Sequence[int]) -> list[str]:
        """Return the tokens with these ids."""
        return [self.vocabulary.words[number] for number in run]

    def score_words(self, excluded: Ids, *, same_word: bool) -> Scores:
        """Return the scores (V,) of all words as substitutes for the first token of the span, -inf if excluded."""
        vocabulary, softmaxes, original = self.vocabulary, self.softmaxes, self.original[0]
        left_to_right, right_to_left = self._predict([[*self.before, *self.original, *self.after]])
        related = None
        if self.table is not None and not is_punctuation(original):
            related = _relate(self.table, vocabulary, [original])
        # The right-to-left direction also predicts the boundary before the first word.
        index = len(self.before)
        scores = -(1.0 if related is None else _FREQUENCY) * vocabulary.log_frequencies()
        scores += softmaxes[0].log_probabilities(left_to_right[:, index])[0]
        scores += softmaxes[1].log_probabilities(right_to_left[:, index + 1])[0]
        scores[excluded] = -np.inf
        if related is not None:
            scores += _RELATEDNESS * related + _USAGE * _compare_usage(softmaxes, vocabulary, original)
            is_other = np.array([word[:1].isupper() for word in vocabulary.words]) != original[:1].isupper()
            scores -= _OTHER_CASE * is_other
        if not same_word:
            same = {original, original.lower(), original.upper(), original.capitalize()}
            if related is not None:
                stem = _stem(original)
                same.update(word for word in vocabulary.words if word[:2].lower() == stem[:2] and _stem(word) == stem)
            scores[vocabulary.encode(sorted(same))] = -np.inf  # unlisted words have the id of the unknown word
        return scores

    def score_runs(self, excluded: Ids, width: int, *, same_word: bool) -> tuple[list[tuple[int, ...]], Scores]:
        """Return the best sequences ("runs") of as many tokens as the span has, and their scores (N,).

        Two beam searches with `width` runs fill the span, one from the left with the left-to-right direction and one
        from the right. Then the runs of both beams are scored by both directions, like single words. With a table,
        the cosines between a run and the original word are added: of mean static vectors, and of the top layer in
        the sentence.
        """
        vocabulary, table, original = self.vocabulary, self.table, list(self.original)
        frequencies = vocabulary.log_frequencies()
        related = np.zeros(len(vocabulary)) if table is None else _relate(table, vocabulary, original)
        distinct_runs: dict[tuple[int, ...], None] = {}
        for direction in (0, 1):
            beam: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
            for _ in original:
                states = self._predict_next([run for _, run in beam], direction)
                # Only half of the log frequency is subtracted, because the score has only one of two directions.
                scores = self.softmaxes[direction].log_probabilities(states) - frequencies / 2
                scores += _BEAM_RELATEDNESS / (2 * len(original)) * related
                scores[:, excluded] = -np.inf
                scores += np.array([score for score, _ in beam])[:, None]
                rows, numbers = np.unravel_index(_find_best(scores.reshape(-1), width), scores.shape)
                best = scores[rows, numbers]
                beam = [
                    (score, (*beam[row][1], number) if direction == 0 else (number, *beam[row][1]))
                    for score, row, number in zip(best.tolist(), rows.tolist(), numbers.tolist(), strict=True)
                    if score > -np.inf
                ]
            distinct_runs.update(dict.fromkeys(run for _, run in beam))
        if not same_word:
            distinct_runs.pop(tuple(vocabulary.encode(original).tolist()), None)
        runs = list(distinct_runs)
        if not runs:
            return [], np.zeros(0)
        total, similarities = self._compare_runs(runs)
        if table is None:
            total -= frequencies[np.array(runs)].sum(axis=1)
        else:
            means = [table.mean(self.spell(run)) for run in runs]
            total -= _RUN_FREQUENCY * frequencies[np.array(runs)].sum(axis=1)
            total += _RUN_RELATEDNESS * (np.stack(means) @ table.mean(original)) + _RUN_USAGE * similarities
        return runs, total

    def _predict_next(self, runs: Sequence[tuple[int, ...]], direction: int) -> Array:
        """Return the states (N, D) that predict the next token of each run, from the left (0) or the right (1)."""
        # A direction does not depend on later tokens, so only the tokens that it reads are passed.
        if direction == 0:
            return self._predict([[*self.before, *self.spell(run)] for run in runs])[0][:, -1]
        return self._predict([[*self.spell(run), *self.after] for run in runs])[1][:, 0]

    def _compare_runs(self, runs: Sequence[tuple[int, ...]]) -> tuple[Scores, Scores]:
        """Return each run's log probability (N,) in both directions, and its top-layer cosine with the original."""
        spelled = [self.original, *map(self.spell, runs)]
        states = self._predict([[*self.before, *run, *self.after] for run in spelled])
        first, last = len(self.before), len(self.before) + len(self.original)
        words = np.array(runs, dtype=np.int64)
        # The right-to-left direction also predicts the boundary before the first token.
        windows = (states[0][1:, first:last], states[1][1:, first + 1 : last + 1])
        total = np.zeros(len(runs))
        for softmax, window in zip(self.softmaxes, windows, strict=True):
            scores = softmax.score(window.reshape(-1, window.shape[2]), words.reshape(-1))
            total += scores.reshape(words.shape).sum(axis=1)
        tops = np.concatenate([states[0][:, first + 1 : last + 1], states[1][:, first:last]], axis=2)
        tops = normalize(tops.mean(axis=1))
        return total, (tops[1:] @ tops[0]).astype(np.float64)

    def _predict(self, rows: Sequence[Sequence[str]]) -> tuple[Array, Array]:
        return self.runtime.predict(self.indexer.batch(rows))
