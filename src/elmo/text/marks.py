"""A sentence with one word or phrase marked, by [brackets] or an index -> its words and the marked range."""

import re
from typing import TypeAlias

from elmo.errors import InputError
from elmo.text.sentence_input import Sentence, Tokenizer, read_sentence

WordIndex: TypeAlias = int | tuple[int, int]  # one word, or the half-open range of a phrase
_MARK = re.compile(r"\[([^\[\]]+)\]")


def read_marked(sentence: str, tokenizer: Tokenizer) -> tuple[list[str], tuple[int, int]]:
    """Return the words without the brackets and the half-open range of the marked ones."""
    marks = list(_MARK.finditer(sentence))
    if len(marks) != 1:
        raise InputError(
            f"The sentence {sentence!r:.80} has {len(marks)} marked words; put exactly one in brackets, as in "
            "'I went to the [bank]', or choose the word by its index."
        )
    (mark,) = marks
    text = sentence[: mark.start()] + mark[1] + sentence[mark.end() :]
    start, end = mark.start(), mark.start() + len(mark[1])
    words = tokenizer(text)
    inside = [number for number, word in enumerate(words) if word.end > start and word.start < end]
    if not inside:
        raise InputError(f"The brackets in {sentence!r:.80} hold no word; put them around one.")
    return [word.text for word in words], (inside[0], inside[-1] + 1)


def read_pointed(
    sentence: Sentence, index: WordIndex | None, tokenizer: Tokenizer, *, name: str
) -> tuple[list[str], tuple[int, int]]:
    """Return the words and the range of the marked or indexed one; errors call the index `name`."""
    if index is None:
        if isinstance(sentence, str):
            return read_marked(sentence, tokenizer)
        read_sentence(sentence, tokenizer)  # reports anything but a list of words first
        raise InputError(f"{name} is missing; a list of words needs the index of one.")
    words = read_sentence(sentence, tokenizer)
    if isinstance(index, tuple):
        start, end = index
        if not 0 <= start < end <= len(words):
            raise InputError(f"{name} is {index!r}, but the sentence has {len(words)} words.")
        return words, (start, end)
    if not hasattr(index, "__index__") or isinstance(index, bool) or not -len(words) <= index < len(words):
        raise InputError(f"{name} is {index!r}, but the sentence has the words {' '.join(words)!r:.80}.")
    start = int(index) % len(words)
    return words, (start, start + 1)
