"""Files of running text -> parts of about equal size -> sentences -> words, according to the settings.

The same files give the same parts in every run. A part ends at the end of a line or row, or, with split="none", at the
end of a document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.corpus.rows import Columns, Row, cut_rows, split_paragraphs
from elmo.corpus.settings import SHARD_BYTES, Split, TextSettings
from elmo.files.sources import Source, find_sources
from elmo.text.units import Tokenization


@dataclass(frozen=True)
class PartText:
    """A part of the input, which becomes one shard: lines, documents, or the texts of rows."""

    number: int
    texts: tuple[str, ...]
    input_bytes: int  # the size of this part in the input files


def cut_parts(sources: Sequence[Source], settings: TextSettings, part_bytes: int = SHARD_BYTES) -> Iterator[PartText]:
    """Read all sources in order and yield their parts; raise InputError for a broken line or row."""
    split: Split = "none" if settings.split == "none" else "lines"
    columns = Columns(settings.field, split=split)
    for part in cut_rows(sources, columns, part_bytes):
        texts = []
        for row in part.rows:
            assert isinstance(row, Row)  # cut_rows raises an error for broken rows
            text = row.content if isinstance(row.content, str) else " ".join(row.content)
            texts.append(text.replace("\r\n", "\n") if "\r" in text else text)
        yield PartText(part.number, tuple(texts), part.input_bytes)


def read_sentences(names: Sequence[str], settings: TextSettings, *, stdin_copy: Path) -> Iterator[list[str]]:
    """Yield the words of every sentence in some files, without preparing a corpus; empty sentences are left out."""
    for part in cut_parts(find_sources(names, stdin_copy), settings):
        for sentence in (sentence for text in part.texts for sentence in cut_sentences(text, settings)):
            if words := cut_words(sentence, settings):
                yield words


def cut_sentences(text: str, settings: TextSettings) -> Iterator[str]:
    """Yield the sentences of a text."""
    if settings.split == "none":
        yield text.replace("\n", " ")
    elif settings.split == "lines":
        yield from text.split("\n")
    else:
        yield from split_paragraphs(text, settings.language)


def cut_words(sentence: str, settings: TextSettings) -> list[str]:
    """Return the words of a sentence."""
    if sentence.isspace():
        return []
    return [word for word, _, _ in Tokenization(settings.tokenization)(sentence)]
