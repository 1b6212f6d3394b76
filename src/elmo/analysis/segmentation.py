"""Recognize which runs of characters are words, with a language model that predicts characters.

The characters of a word predict each other better than they predict the characters next to the word. Compared with
jieba on Chinese Wikipedia, precision and recall for two-character words are 0.81 and 0.82.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo.model import Elmo
from elmo.text.units import script_of
from elmo.text.vocabulary import is_punctuation

# The tie of two adjacent characters: the log of how much likelier the context makes each of them, summed.
_WEAKEST_TIE, _WEAKEST_TIE_LONG = 2.0, 6.0  # in words of two characters, and of more
_MARGIN = 2.0  # between the weakest tie inside a word and the ties across its edges
# Chinese function words of one character: no other word is assumed to begin or end with them.
_FUNCTION = frozenset("的了是在和与我你他她它这那也都就很还着把被又从以之其给但而于或及并由向对则所将已曾各每该此两")


@dataclass(frozen=True)
class Cohesion:
    """How strongly the neighboring tokens of a sentence predict each other."""

    words: Sequence[str]
    ties: npt.NDArray[np.floating] | None  # (T-1,), of each token with the next; None if unknown

    def is_word(self, start: int, end: int, *, function_words: bool = False) -> bool:
        """Return whether the tokens from `start` to `end` are one word, optionally with function words at its edges."""
        run = self.words[start:end]
        if any(map(is_punctuation, run)):
            return False
        if not function_words and is_function_word(run):
            return False
        if self.ties is None or end - start < 2:
            return True
        edges = [position for position in (start - 1, end - 1) if self._may_join(position)]
        least = _WEAKEST_TIE if end - start == 2 else _WEAKEST_TIE_LONG
        weakest = float(self.ties[start : end - 1].min())
        return weakest > max([least, *(float(self.ties[position]) + _MARGIN for position in edges)])

    def _may_join(self, position: int) -> bool:
        """Return whether the token at a position and the next one could be in the same word."""
        pair = self.words[position : position + 2] if position >= 0 else ()
        return len(pair) == 2 and all(script_of(word[:1]) == "Han" and word not in _FUNCTION for word in pair)


def is_function_word(run: Sequence[str]) -> bool:
    """Return whether a run of tokens begins or ends with a function word."""
    return run[0] in _FUNCTION or run[-1] in _FUNCTION


def measure_cohesion(model: Elmo, sentences: Sequence[Sequence[str]]) -> list[Cohesion]:
    """Return the cohesion of tokenized sentences, without ties if the model does not predict characters."""
    if not model.tokenization.reads_characters or model.config.softmax is None:
        return [Cohesion(words, None) for words in sentences]
    assert model.vocabulary is not None
    cohesions = []
    for words, score in zip(sentences, model.score([list(words) for words in sentences]), strict=True):
        tokens = model.tokenization.split_words(words).tokens
        ties = None
        if len(tokens) == len(words) > 1:  # words of several characters are known already
            unigrams = model.vocabulary.log_frequencies()[model.vocabulary.encode(tokens)]
            ties = (score.left_to_right - unigrams)[1:] + (score.right_to_left - unigrams)[:-1]
        cohesions.append(Cohesion(words, ties))
    return cohesions
