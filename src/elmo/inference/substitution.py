"""A place in a sentence -> the words that both directions expect there, best first.

Neither direction reads the word that stands there. Both expect frequent words everywhere, so that the frequency
of a word would count twice; it is divided out once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from elmo.errors import InputError
from elmo.inference.runtime import Runtime
from elmo.inference.scoring import require_softmax
from elmo.text.batch import Indexer
from elmo.text.vocabulary import Vocabulary, is_clitic, is_punctuation


@dataclass(frozen=True)
class Substitute:
    """A word, and the log of its share among all words that were considered."""

    word: str
    log_probability: float


@torch.inference_mode()
def find_substitutes(
    runtime: Runtime,
    indexer: Indexer,
    vocabulary: Vocabulary | None,
    words: Sequence[str],
    index: int,
    *,
    top_k: int,
    punctuation: bool = False,
    same_word: bool = False,
) -> list[Substitute]:
    """Return the `top_k` best words at `index`.

    A word's score is log p(word | words before) + log p(word | words after) - log p(word): by Bayes' rule its
    probability given both sides, if these were independent given the word. It is normalized over the words that
    are considered: never the special words of the vocabulary, `punctuation` (words without a letter or digit) and
    the word that stands there (`same_word`) only if asked for. Where punctuation stands there, it is considered;
    clitics such as 's replace only clitics.
    """
    softmaxes, vocabulary = require_softmax(runtime.bilm, vocabulary)
    if isinstance(top_k, bool) or not isinstance(top_k, int | np.integer) or top_k < 1:
        raise InputError(f"top_k is {top_k!r}; it must be a whole number of at least 1.")
    left_to_right, right_to_left = runtime.predict(indexer.batch([words]))
    # The second predicts the begin of the sentence too, before the first word.
    states = (left_to_right[0, index], right_to_left[0, index + 1])
    scores = sum(softmax(state).double() for softmax, state in zip(softmaxes, states, strict=True))
    assert isinstance(scores, torch.Tensor)
    scores = scores - torch.from_numpy(vocabulary.log_frequencies()).to(scores.device)
    scores[vocabulary.boundaries()] = -torch.inf
    scores[vocabulary.encode([vocabulary.unknown])] = -torch.inf
    here = words[index]
    if not punctuation and not is_punctuation(here):
        scores[vocabulary.punctuation_ids] = -torch.inf
    if not is_clitic(here):
        scores[vocabulary.clitic_ids] = -torch.inf
    if not same_word:
        spellings = {here, here.lower(), here.upper(), here.capitalize()}
        scores[vocabulary.encode(sorted(spellings))] = -torch.inf  # one that is not listed is the unknown word
    log_probabilities = scores.log_softmax(dim=0)
    # Words of equal rows, as new ones of a changed vocabulary are, come in the order of the vocabulary.
    best, order = log_probabilities.sort(descending=True, stable=True)
    return [
        Substitute(vocabulary.words[number], score)
        for number, score in zip(order[:top_k].tolist(), best[:top_k].tolist(), strict=True)
        if score > -torch.inf
    ]
