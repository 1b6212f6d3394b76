"""Raw text of any length -> its sentences, as exact substrings of the text.

The sentencex library finds the boundaries. Sentences are neither tokenized nor normalized here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from elmo.errors import InputError

# A blank line or U+2029 ends a paragraph; a single newline may be a mere line wrap, so sentencex decides.
_PARAGRAPH_END = re.compile(r"(?:\r\n?|\n)[^\S\r\n]*(?:\r\n?|\n)\s*|\u2029\s*")
_LANGUAGE_CODE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]+)*")
_QUOTES_AND_BRACKETS = re.compile(r"[\"“”„«»()\[\]]")
_LONGEST_QUOTATION = 1000


def split_sentences(text: str, *, language: str = "en") -> list[str]:
    """Return the sentences of a text, stripped and none empty; no sentence extends over a blank line.

    `language` is a code such as "en", "de" or "pt-BR". A language without rules in sentencex is
    treated as the nearest one it knows, or else as English. Anything but a code raises InputError.
    """
    code = _LANGUAGE_CODE.fullmatch(language)
    if code is None:
        raise InputError(f"language is {language!r}, but a code such as 'en', 'de' or 'pt-BR' is expected.")
    sentences = (
        sentence.strip()
        for paragraph in _PARAGRAPH_END.split(text)
        for sentence in _split_paragraph(paragraph, code[1].lower())
    )
    return [sentence for sentence in sentences if sentence]


def _split_paragraph(paragraph: str, language: str) -> Iterator[str]:
    # Rust strings hold no lone surrogates, and sentencex 1.0 panics at some whitespace outside ASCII.
    # Stand-ins of one character each leave the lengths, which are all that is taken from the result.
    safe = re.sub(r"[^\S\n]", " ", re.sub("[\ud800-\udfff]", "\ufffd", paragraph))
    start = 0
    for length in _lengths(safe, language):
        yield paragraph[start : start + length]
        start += length


def _lengths(text: str, language: str) -> Iterator[int]:
    from sentencex import segment

    for sentence in segment(language, text):
        # A quotation is one sentence to sentencex, so a quote never closed would swallow all the rest.
        if len(sentence) > _LONGEST_QUOTATION:
            yield from map(len, segment(language, _QUOTES_AND_BRACKETS.sub(" ", sentence)))
        else:
            yield len(sentence)
