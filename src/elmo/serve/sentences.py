"""Sentences of a request -> words with their offsets, within the limits; too much is refused before it is cut."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elmo.serve.problems import Problem, too_much
from elmo.serve.settings import Settings
from elmo.text.tokenize import Word, split_on_spaces, tokenize

# More than this is cut into words in another thread, so that the answers of others are sent meanwhile.
CHARACTERS_AT_ONCE = 20_000
Text = str | list[str]


@dataclass(frozen=True)
class ReadSentence:
    """The words of a sentence; `offsets` are their characters where they were cut from a string."""

    words: list[str]
    offsets: list[tuple[int, int]] | None

    def describe(self) -> list[dict[str, Any]]:
        """Give each word with its place."""
        if self.offsets is None:
            return [{"text": word, "start": None, "end": None} for word in self.words]
        return [
            {"text": word, "start": start, "end": end}
            for word, (start, end) in zip(self.words, self.offsets, strict=True)
        ]


async def read_sentences(
    texts: Sequence[Text], settings: Settings, *, field: str, on_spaces: bool = False
) -> list[ReadSentence]:
    """Cut texts into words, or refuse them for their number."""
    check_number(len(texts), settings, field)
    return await cut_texts(texts, settings, field=field, on_spaces=on_spaces)


def check_number(num_sentences: int, settings: Settings, field: str) -> None:
    """Refuse more sentences than are read at once."""
    if num_sentences > settings.max_sentences:
        raise too_much(
            f"{field} has {num_sentences} entries, but at most {settings.max_sentences} are read at once; send "
            "several requests.",
            field,
        )


async def cut_texts(
    texts: Sequence[Text], settings: Settings, *, field: str, on_spaces: bool = False
) -> list[ReadSentence]:
    """Cut texts into words, or refuse them for the words they have."""
    check_words([_count_at_least(text, on_spaces) for text in texts], settings, field)
    if sum(len(text) for text in texts if isinstance(text, str)) > CHARACTERS_AT_ONCE:
        read = await asyncio.to_thread(_read_all, texts, on_spaces)
    else:
        read = _read_all(texts, on_spaces)
    check_words([len(sentence.words) for sentence in read], settings, field)
    return read


def _count_at_least(text: Text, on_spaces: bool) -> int:
    """Give how many words a text has however it is cut: none of the tokenizer goes across a space."""
    if not isinstance(text, str):
        return len(text)
    return len(list(filter(None, text.split(" ")))) if on_spaces else len(text.split())


def _read_all(texts: Sequence[Text], on_spaces: bool) -> list[ReadSentence]:
    cut = split_on_spaces if on_spaces else tokenize
    return [_lay_out(cut(text)) if isinstance(text, str) else ReadSentence(text, None) for text in texts]


def _lay_out(words: list[Word]) -> ReadSentence:
    return ReadSentence([word.text for word in words], [(word.start, word.end) for word in words])


def check_words(lengths: list[int], settings: Settings, field: str, *, of_one: bool = True) -> None:
    """Refuse more words than are read at once; with `of_one`, also more than are read in one sentence."""
    if sum(lengths) > settings.max_words:
        raise too_much(
            f"{field} has {sum(lengths)} words or more, but at most {settings.max_words} are read at once; send "
            "several requests.",
            field,
        )
    longest = max(lengths, default=0)
    if of_one and longest > settings.max_sentence_words:
        raise too_much(
            f"{field} has a sentence of {longest} words, but at most {settings.max_sentence_words} are read "
            "in one; cut it into sentences.",
            field,
        )


def check_values(num_words: int, num_values: int, settings: Settings) -> None:
    """Refuse an answer that would be too long; `num_values` are those of a word."""
    if num_words * num_values > settings.max_values:
        raise Problem(
            413,
            "answer_too_large",
            f"The answer would have {num_words * num_values} numbers, but at most {settings.max_values} are sent; "
            f"ask for {max(1, settings.max_values // num_values)} words at once, or for fewer layers.",
            field="sentences",
        )
