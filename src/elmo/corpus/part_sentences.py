"""The text of a part -> sentences -> words, as the settings say; also for text that is only read, not prepared."""

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from elmo.corpus.input_files import find_sources
from elmo.corpus.part_documents import read_documents
from elmo.corpus.part_text import PartText, cut_parts
from elmo.corpus.settings import PrepareSettings
from elmo.text.sentences import split_sentences
from elmo.text.tokenize import split_on_spaces, tokenize

_CHARACTERS_AT_ONCE = 1 << 20  # words with offsets take a hundred times the memory of the text
_WHITESPACE = re.compile(r"\s")


def read_sentences(names: Sequence[str], settings: PrepareSettings, *, stdin_copy: Path) -> Iterator[list[str]]:
    """Give the words of every sentence of some files, without preparing them; empty ones are left out."""
    for part in cut_parts(find_sources(names, stdin_copy), settings):
        for sentence, _ in cut_sentences(part, settings):
            words = [word for piece in cut_words(sentence, settings) for word in piece]
            if words:
                yield words


def cut_sentences(text: PartText, settings: PrepareSettings) -> Iterator[tuple[str, float]]:
    """Give each sentence and the share of the part that was read with it."""
    language = settings.language or "en"
    for document, share in read_documents(text, settings):
        if settings.split == "none":
            yield document.replace("\n", " "), share
        elif settings.split == "lines":
            for line in document.split("\n"):
                yield line, share
        else:
            for line in document.split("\n"):
                for sentence in split_sentences(line, language=language):
                    yield sentence, share


def cut_words(sentence: str, settings: PrepareSettings) -> Iterator[list[str]]:
    """Give the words of a sentence, in one list unless it is huge."""
    split = split_on_spaces if settings.split_on_spaces else tokenize
    if sentence.isspace():
        return
    start = 0
    while start + _CHARACTERS_AT_ONCE < len(sentence):
        space = _WHITESPACE.search(sentence, start + _CHARACTERS_AT_ONCE)
        end = space.start() if space else len(sentence)
        yield list(map(itemgetter(0), split(sentence[start:end])))
        start = end
    yield list(map(itemgetter(0), split(sentence[start:] if start else sentence)))
