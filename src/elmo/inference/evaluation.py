"""A text of any length -> the full-softmax perplexity of a language model on it. Memory stays flat."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from elmo.errors import InputError
from elmo.inference.scoring import SentenceScore, to_perplexity
from elmo.text.sentence_input import Sentence, read_sentence
from elmo.text.tokenize import split_on_spaces as cut_on_spaces
from elmo.text.tokenize import tokenize

SENTENCES_AT_ONCE = 128


class Scoring(Protocol):
    """What evaluation needs of a model; Elmo is one."""

    @property
    def state(self) -> Literal["zero", "carry"]:
        """Whether each sentence starts anew or where the one before it ended."""
        ...

    def score(self, sentences: Iterable[Sentence]) -> list[SentenceScore]:
        """Score sentences, as Elmo.score does."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """How well a model foresaw a text: mean losses by the full softmax, in nats, and what was counted."""

    left_to_right_loss: float
    right_to_left_loss: float
    num_sentences: int
    num_words: int
    num_unknown: int

    @property
    def left_to_right_perplexity(self) -> float:
        """exp of the mean loss from left to right."""
        return to_perplexity(self.left_to_right_loss)

    @property
    def right_to_left_perplexity(self) -> float:
        """exp of the mean loss from right to left."""
        return to_perplexity(self.right_to_left_loss)

    @property
    def perplexity(self) -> float:
        """exp of the mean of both directions' losses."""
        return to_perplexity((self.left_to_right_loss + self.right_to_left_loss) / 2)

    @property
    def num_predictions(self) -> int:
        """How many words each direction predicted: every word, and one boundary a sentence."""
        return self.num_words + self.num_sentences

    @property
    def unknown_rate(self) -> float:
        """The share of words that are not in the vocabulary, 0 to 1."""
        return self.num_unknown / self.num_words


def evaluate_text(model: Scoring, sentences: Iterable[Sentence], *, split_on_spaces: bool = False) -> Evaluation:
    """Score every sentence and give the perplexity of all; sentences without words are left out.

    With state="carry" the sentences are read one after the other, as the original evaluation does.
    """
    if isinstance(sentences, str) or not isinstance(sentences, Iterable):
        raise InputError("evaluate_text takes an iterable of sentences; for one sentence use score.")
    # Sentences scored together start together, so only one by one does each carry on from the one before it.
    at_once = 1 if model.state == "carry" else SENTENCES_AT_ONCE
    left_to_right = right_to_left = 0.0
    num_sentences = num_words = num_unknown = 0
    tokenizer = cut_on_spaces if split_on_spaces else tokenize
    read = (read_sentence(sentence, tokenizer, position=number) for number, sentence in enumerate(sentences))
    remaining = (words for words in read if words)
    while window := list(itertools.islice(remaining, at_once)):
        for score in model.score(window):
            left_to_right += score.left_to_right_loss
            right_to_left += score.right_to_left_loss
            num_sentences += 1
            num_words += len(score.words)
            num_unknown += score.num_unknown
    if not num_words:
        raise InputError("The text has no words, so there is nothing to evaluate; check the file.")
    num_predictions = num_words + num_sentences
    return Evaluation(
        left_to_right / num_predictions, right_to_left / num_predictions, num_sentences, num_words, num_unknown
    )
