"""Sentences as callers pass them (strings, lists of words, strings with a [marked] word) -> lists of words."""

import operator
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from elmo.errors import InputError
from elmo.text.tokenize import Word

Sentence: TypeAlias = str | Sequence[str]
Tokenizer: TypeAlias = Callable[[str], list[Word]]


def read_sentence(sentence: Sentence, tokenizer: Tokenizer, *, position: int | None = None) -> list[str]:
    """Return the words of one sentence: a string is tokenized, a list of words is copied."""
    where = "The sentence" if position is None else f"Sentence {position}"
    sentence = as_plain(sentence)
    if isinstance(sentence, str):
        return [word.text for word in tokenizer(sentence)]
    if isinstance(sentence, list | tuple):
        check_words(sentence, where)
        return list(sentence)
    raise InputError(f"{where} is {describe_value(sentence)}; give a string, or a list of words such as ['I', 'went'].")


def read_sentences(sentences: Iterable[Sentence], tokenizer: Tokenizer) -> list[list[str]]:
    """Return the words of each sentence; strings and lists of words may be mixed."""
    texts = enumerate(iterate_sentences(sentences))
    return [read_sentence(sentence, tokenizer, position=position) for position, sentence in texts]


def iterate_sentences(sentences: Any) -> Iterable[Any]:
    """Return sentences to iterate over; InputError for a single one, and for tables, which yield column names."""
    sentences = as_plain(sentences)
    is_table = isinstance(sentences, Mapping) or hasattr(sentences, "columns")
    if isinstance(sentences, str | bytes) or is_table or not isinstance(sentences, Iterable):
        raise InputError(f"The sentences are {describe_value(sentences)}; give a string or a list of sentences.")
    return sentences


def warn_of_single_words(sentences: object, *, stacklevel: int) -> None:
    """Warn if a list of strings looks like the words of one sentence, because each string is read as a sentence."""
    if not isinstance(sentences, list | tuple) or len(sentences) < 3:
        return
    if all(isinstance(text, str) and text.isalpha() and text.isascii() for text in sentences):
        warnings.warn(
            f"{str(list(sentences[:3]))[:-1]}, …] is a list of {len(sentences)} sentences of one word each; for "
            "one sentence of these words, put them in a list of their own: [[…]].",
            stacklevel=stacklevel,
        )


def check_batch_size(batch_size: Any, name: str = "batch_size") -> None:
    """Raise InputError if a batch size is not a positive whole number."""
    if not hasattr(batch_size, "__index__") or isinstance(batch_size, bool) or batch_size < 1:
        raise InputError(f"{name} is {batch_size!r}; it must be a whole number of sentences, 1 or more.")


def as_plain(value: Any) -> Any:
    """Convert numpy arrays and the like to lists; return anything else unchanged."""
    return value.tolist() if hasattr(value, "tolist") else value


def check_words(words: Sequence[object], where: str) -> None:
    """Raise InputError if a word is not a string."""
    for number, word in enumerate(words):
        if not isinstance(word, str):
            raise InputError(f"{where} has {describe_value(word)} at word {number}; every word must be a string.")


def describe_value(value: object) -> str:
    """Return a value and its type, for error messages."""
    return "None" if value is None else f"{' '.join(repr(value).split()):.60} of type {type(value).__name__}"


WordIndex: TypeAlias = int | tuple[int, int]  # one word, or the half-open range of a phrase
# Pairs of brackets that mark a word. Corner brackets are also quotation marks, so they mark a word only if the
# sentence has a single pair of them and no other brackets.
_MARKS = re.compile(r"\[([^\[\]]+)\]|【([^【】]+)】|［([^［］]+)］")
_CORNER_MARK = re.compile(r"「([^「」]+)」")


def find_marks(sentence: str) -> list[re.Match[str]]:
    """Return the bracketed parts of a sentence; the brackets are [], 【】, ［］ or a single pair of 「」."""
    corners = list(_CORNER_MARK.finditer(sentence))
    return list(_MARKS.finditer(sentence)) or (corners if len(corners) == 1 else [])


def read_marked(sentence: str, tokenizer: Tokenizer) -> tuple[list[str], tuple[int, int]]:
    """Return the words of a sentence without its brackets, and the half-open range of the marked words."""
    marks = find_marks(sentence)
    if len(marks) != 1:
        raise InputError(
            f"The sentence {sentence!r:.80} has {len(marks)} marked words; put exactly one in brackets, as in "
            "'I went to the [bank]'."
        )
    start, end = marks[0].start(), marks[0].end() - 2  # in the text without the brackets
    words = tokenizer(sentence[:start] + sentence[start + 1 : end + 1] + sentence[end + 2 :])
    inside = [number for number, word in enumerate(words) if word.end > start and word.start < end]
    if not inside:
        raise InputError(f"The brackets in {sentence!r:.80} hold no word; put them around one.")
    return [word.text for word in words], (inside[0], inside[-1] + 1)


def read_target(
    sentence: Sentence, index: WordIndex | None, tokenizer: Tokenizer, *, name: str
) -> tuple[list[str], tuple[int, int]]:
    """Return the words of a sentence and the range of the marked or indexed word; `name` is the index in messages."""
    if index is None and isinstance(sentence, str):
        return read_marked(sentence, tokenizer)
    words = read_sentence(sentence, tokenizer)
    if index is None:
        raise InputError(f"{name} is missing; a list of words needs the index of one.")
    if isinstance(index, tuple):
        return words, read_span(index, len(words), name=name)
    if not hasattr(index, "__index__") or isinstance(index, bool) or not -len(words) <= index < len(words):
        raise InputError(f"{name} is {index!r}, but the sentence has the words {' '.join(words)!r:.80}.")
    start = int(index) % len(words)
    return words, (start, start + 1)


def read_span(span: Any, num_words: int, *, name: str = "The span") -> tuple[int, int]:
    """Return the start and end of a range of words, or raise InputError if it is not within the sentence."""
    try:
        start, end = map(operator.index, span)
    except (TypeError, ValueError):
        start = end = -1
    if not 0 <= start < end <= num_words:
        raise InputError(
            f"{name} {span!r:.60} does not lie in a sentence of {num_words} words; give a start and an end with "
            "0 <= start < end <= the number of words."
        )
    return start, end
