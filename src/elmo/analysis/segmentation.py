"""Sentences of a character-level model -> which runs of their characters are words.

Characters of one word predict each other better than they predict the characters beside the word. Compared with
jieba on Chinese Wikipedia, precision and recall of words of two characters are 0.81 and 0.82.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo.model import Elmo
from elmo.text.units import script_of
from elmo.text.vocabulary import is_punctuation

# Of two characters beside each other: the log of how much likelier each is beside the other, added up.
_WEAKEST_TIE, _WEAKEST_TIE_LONG = 2.0, 6.0  # inside words of two characters, and of more
_MARGIN = 2.0  # of the weakest tie inside a word over the ties across its edges
# Chinese characters that mostly are words by themselves, of grammar: no other word begins or ends with them.
_FUNCTION = frozenset("的了是在和与我你他她它这那也都就很还着把被又从以之其给但而于或及并由向对则所将已曾各每该此两")


@dataclass(frozen=True)
class Cohesion:
    """How strongly the neighboring tokens of a sentence predict each other."""

    words: Sequence[str]
    ties: npt.NDArray[np.floating] | None  # (T-1,) of each token with the next; None: unknown, they decide nothing

    def is_word(self, start: int, end: int, *, function_words: bool = False) -> bool:
        """Return whether the tokens from `start` to `end` are one word; `function_words` allows those too."""
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
        """Return whether one word could have both the token at a position and the next one."""
        pair = self.words[position : position + 2] if position >= 0 else ()
        return len(pair) == 2 and all(script_of(word[:1]) == "Han" and word not in _FUNCTION for word in pair)


def is_function_word(run: Sequence[str]) -> bool:
    """Return whether a run of tokens begins or ends with a function word."""
    return run[0] in _FUNCTION or run[-1] in _FUNCTION


def measure_cohesion(model: Elmo, sentences: Sequence[Sequence[str]]) -> list[Cohesion]:
    """Return the cohesion of sentences of tokens, unknown if the model does not predict characters."""
    if not model.tokenization.reads_characters or model.config.softmax is None:
        return [Cohesion(words, None) for words in sentences]
    assert model.vocabulary is not None
    cohesions = []
    for words, score in zip(sentences, model.score([list(words) for words in sentences]), strict=True):
        tokens = model.tokenization.read(words).tokens
        ties = None
        if len(tokens) == len(words) > 1:  # words of several characters are known already
            alone = model.vocabulary.log_frequencies()[model.vocabulary.encode(tokens)]
            ties = (score.left_to_right - alone)[1:] + (score.right_to_left - alone)[:-1]
        cohesions.append(Cohesion(words, ties))
    return cohesions
