"""A sentence with one [marked] word or phrase -> its words and which of them are marked."""

import re

from elmo.errors import InputError
from elmo.text.sentence_input import Tokenizer

_MARK = re.compile(r"\[([^\[\]]+)\]")


def read_marked(sentence: str, tokenizer: Tokenizer) -> tuple[list[str], tuple[int, int]]:
    """Give the words without the brackets and the half-open range of the marked ones."""
    marks = list(_MARK.finditer(sentence))
    if len(marks) != 1:
        raise InputError(
            f"The sentence {sentence!r:.80} has {len(marks)} marked words; put exactly one in brackets, as in "
            "'I went to the [bank]', or say which word is meant by its index."
        )
    (mark,) = marks
    text = sentence[: mark.start()] + mark[1] + sentence[mark.end() :]
    start, end = mark.start(), mark.start() + len(mark[1])
    words = tokenizer(text)
    inside = [number for number, word in enumerate(words) if word.end > start and word.start < end]
    if not inside:
        raise InputError(f"The brackets in {sentence!r:.80} hold no word; put them around the word that is meant.")
    return [word.text for word in words], (inside[0], inside[-1] + 1)
